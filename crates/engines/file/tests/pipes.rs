//! Being told through pipes, and what happens where that cannot be. No test here looks at lines, so nothing here may
//! use inotify.

mod rig;

use std::{
    fs,
    os::fd::OwnedFd,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bramah_core::{Claim, Engine, Keep, Standing, Wait, Wake, Woken, line::WHOLE};
use bramah_file::File;
use rig::{Client, Dir, LIMIT, Peer, role, until, woken};
use rustix::fs::{Mode, OFlags, open};

/// What the child processes of the tests below do. Without a role it is an empty test.
#[test]
fn peer() {
    let Some((role, dir)) = role() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::new(&dir);
        match role.as_str() {
            // Leaves its lifelines with another process.
            "guarded" => {
                client.lock("x").await;
                let [flock, pipe] =
                    <[OwnedFd; 2]>::try_from(client.engine.lifelines(client.session)).unwrap();
                let mut guardian = Command::new("sleep");
                let guardian = guardian.arg("60").stdin(Stdio::from(flock)).stdout(Stdio::from(pipe)).spawn();
                println!("\nguardian {}", guardian.unwrap().id());
            }
            "hold y" => {
                client.lock("y").await;
                println!("\nheld");
            }
            // Told by the wake alone, without the net.
            _ => {
                let (claim, wake) = client.queue("x").await;
                println!("\nwaiting {}", client.session);
                client.told(&claim, wake).await;
                println!("\nheld");
            }
        }
        std::future::pending::<()>().await;
    });
    // The process is killed, never ended: nothing of it may be dropped in an orderly way.
    std::mem::forget(dir);
}

fn is_silent(wake: &mut Wake) -> bool {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    std::pin::Pin::new(wake).poll(&mut context).is_pending()
}

/// How many files of this process have such a path.
fn open_files(like: &Path) -> usize {
    let open = fs::read_dir("/proc/self/fd").into_iter().flatten();
    let links = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    links.filter(|link| link.to_string_lossy().contains(&*like.to_string_lossy())).count()
}

fn sleep_of(standing: Standing) -> Duration {
    match standing {
        Standing::Queued { sleep, .. } => sleep,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_hundred_waiters_are_told_in_order_and_without_inotify() {
    let dir = Dir::new();
    let holder = Client::new(&dir);
    let (held, _) = holder.lock("x").await;
    let served = Arc::new(AtomicU64::new(0));
    let mut waiters = Vec::new();
    for number in 0..300 {
        let client = match number % 10 {
            0 => Client::new(&dir),
            _ => {
                Client::on(waiters.last().map(|(client, ..): &(Client, _, _)| client.engine.clone()).unwrap())
            }
        };
        let (claim, wake) = client.queue("x").await;
        waiters.push((client, claim, wake));
    }
    let mut tasks = Vec::new();
    for (place, (client, claim, wake)) in (0..).zip(waiters) {
        let served = Arc::clone(&served);
        tasks.push(tokio::spawn(async move {
            client.told(&claim, wake).await;
            assert_eq!(served.fetch_add(1, Ordering::SeqCst), place, "in order");
            client.withdraw(&claim).await;
            client
        }));
    }
    holder.withdraw(&held).await;
    let mut clients = Vec::new();
    for task in tasks {
        clients.push(task.await.unwrap());
    }
    assert_eq!(open_files(Path::new("inotify")), 0);
}

#[tokio::test]
async fn a_guardian_keeps_the_lock_of_a_killed_process_and_its_end_is_told() {
    let dir = Dir::new();
    let (a, mut owner, mut other) =
        (Client::new(&dir), Peer::start("guarded", &dir), Peer::start("hold y", &dir));
    let guardian = owner.hear("guardian ");
    other.expect("held");
    let (claim, mut wake) = a.queue("x").await;
    let (_, other_wake) = a.queue("y").await;
    owner.kill();
    // Deaths are told in their order: once this one is known, the first one was not told.
    other.kill();
    assert_eq!(woken(other_wake).await, Woken::Ask);
    assert!(is_silent(&mut wake), "the session lives on in the guardian");
    let Standing::Queued { wake, .. } = a.ask(&claim).await.unwrap() else { panic!("the guardian has it") };
    assert!(Command::new("kill").args(["-9", &guardian]).status().unwrap().success());
    assert_eq!(woken(wake).await, Woken::Ask);
    assert!(matches!(a.ask(&claim).await.unwrap(), Standing::Held { .. }), "dead at the first look");
}

#[tokio::test]
async fn only_the_flock_tells_life_whatever_the_pipe_says() {
    let dir = Dir::new();
    let (a, owner) = (Client::new(&dir), Client::new(&dir));
    owner.lock("x").await;
    let [flock, pipe] = <[OwnedFd; 2]>::try_from(owner.engine.lifelines(owner.session)).unwrap();
    let (claim, wake) = a.queue("x").await;
    drop((owner, pipe));
    assert_eq!(woken(wake).await, Woken::Ask);
    let sleep = sleep_of(a.ask(&claim).await.unwrap());
    assert!(sleep < Duration::from_millis(100), "its end will not be told: {sleep:?}");
    drop(flock);
    a.lock_as(&claim).await;
}

#[tokio::test]
async fn a_session_that_lives_by_time_has_no_lifelines() {
    let dir = Dir::new();
    let a = Client::new(&dir);
    assert_eq!(a.engine.lifelines(a.session).len(), 2);
    a.engine.close(a.session).await.unwrap();
    assert!(a.engine.lifelines(a.session).is_empty());
    a.open(Keep::Nobody, LIMIT).unwrap();
    assert!(a.engine.lifelines(a.session).is_empty());
}

#[tokio::test]
async fn letters_to_a_full_mailbox_are_dropped_and_the_waiter_still_gets_its_turn() {
    let dir = Dir::new();
    let a = Client::new(&dir);
    let (held, _) = a.lock("x").await;
    let mut waiter = Peer::start("wait", &dir);
    let session = waiter.hear("waiting ").parse().unwrap();
    waiter.signal("-STOP");
    let pipe = open(dir.mailbox(session), OFlags::WRONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    while rustix::io::write(&pipe, &[7; 32]).is_ok() {}
    a.withdraw(&held).await;
    waiter.signal("-CONT");
    waiter.expect("held");
    waiter.kill();
}

/// As an earlier version left them, or somebody else.
#[tokio::test]
async fn other_files_in_place_of_mailboxes_hold_nobody_up() {
    let dir = Dir::new();
    let (a, b) = (Client::new(&dir), Client::new(&dir));
    let (mut held, _) = a.lock("x").await;
    let (clients, mailboxes) = ([&a, &b], [dir.mailbox(a.session), dir.mailbox(b.session)]);
    for round in 0..4 {
        let (now, next) = (clients[round % 2], clients[(round + 1) % 2]);
        if round < 2 {
            // First that of the waiter alone.
            fs::remove_file(&mailboxes[(round + 1) % 2]).unwrap();
            fs::write(&mailboxes[(round + 1) % 2], "precious").unwrap();
        }
        let claim = next.draft("x", Wait::Line);
        let sleep = sleep_of(next.claim(&claim).await.unwrap());
        assert!(sleep < Duration::from_millis(100), "nobody can tell: {sleep:?}");
        now.withdraw(&held).await;
        next.lock_as(&claim).await;
        held = claim;
    }
    for path in mailboxes {
        assert_eq!(fs::read_to_string(path).unwrap(), "precious");
    }
    drop((a, b));
    // Not at once: a child that another test starts shares every flock until it execs.
    until("the dead are swept", || {
        let _sweeper = Client::new(&dir);
        let left = fs::read_dir(dir.0.join("sessions")).unwrap().count();
        left == 2
    });
}

/// The path of a session fits, that of its mailbox is too long: a file system without pipes says no as well.
#[tokio::test]
async fn where_no_pipe_can_be_made_waiters_ask_by_themselves() {
    let root = Dir::new();
    let mut path = root.0.clone();
    let session_file = "/sessions/".len() + 49;
    let most = 4095 - session_file;
    while path.as_os_str().len() + 1 < most {
        let left = most - path.as_os_str().len() - 1;
        path.push("d".repeat(if left > 300 { 200 } else { left.min(255) }));
    }
    let dir = Dir(path);
    let (a, b) = (Client::new(&dir), Client::new(&dir));
    assert_eq!(fs::read_dir(dir.0.join("sessions")).unwrap().count(), 2, "no mailboxes");
    assert_eq!(a.engine.lifelines(a.session).len(), 1);
    let (held, _) = a.lock("x").await;
    let claim = b.draft("x", Wait::Line);
    let sleep = sleep_of(b.claim(&claim).await.unwrap());
    assert!(sleep < Duration::from_millis(100), "{sleep:?}");
    a.withdraw(&held).await;
    b.lock_as(&claim).await;
    let next = a.draft("x", Wait::Line);
    sleep_of(a.claim(&next).await.unwrap());
    drop(b);
    a.lock_as(&next).await;
}

#[tokio::test]
async fn a_lost_letter_is_made_up_for_by_the_next_renewal() {
    let dir = Dir::new();
    let (a, b, c) = (Client::new(&dir), Client::new(&dir), Client::new(&dir));
    let (held, _) = a.lock("x").await;
    let ((next, mut next_wake), (last, mut last_wake)) = (b.queue("x").await, c.queue("x").await);
    // Both would have been told.
    fs::remove_file(dir.mailbox(b.session)).unwrap();
    fs::remove_file(dir.mailbox(c.session)).unwrap();
    a.withdraw(&held).await;
    assert!(is_silent(&mut next_wake) && is_silent(&mut last_wake));
    b.engine.renew(b.session, [Arc::new(next.clone())].into()).await.unwrap();
    assert_eq!(woken(next_wake).await, Woken::Ask);
    assert!(matches!(b.ask(&next).await.unwrap(), Standing::Held { .. }));
    c.engine.renew(c.session, [Arc::new(last.clone())].into()).await.unwrap();
    assert_eq!(woken(last_wake).await, Woken::Ask, "the front has to look after the holder");
    let sleep = sleep_of(c.ask(&last).await.unwrap());
    assert!(sleep < Duration::from_millis(100), "and knows that it gets no letters: {sleep:?}");
}

#[tokio::test]
async fn in_a_detached_session_the_first_to_wait_is_told_and_others_ask() {
    let dir = Dir::new();
    let (holder, a, b) = (Client::new(&dir), Client::new(&dir), Client::new(&dir));
    let (held, _) = holder.lock("x").await;
    a.engine.close(a.session).await.unwrap();
    a.open(Keep::Nobody, LIMIT).unwrap();
    let (first, wake) = a.queue("x").await;
    let second = Claim { id: bramah_core::ClaimId { seq: 77, ..first.id }, ..first.clone() };
    let sleep = sleep_of(b.claim(&second).await.unwrap());
    assert!(sleep < Duration::from_millis(100), "another process reads the letters: {sleep:?}");
    holder.withdraw(&held).await;
    assert!(matches!(woken(wake).await, Woken::Held(Some(_))));
    a.withdraw(&first).await;
    b.lock_as(&second).await;
}

#[tokio::test]
async fn the_end_of_a_detached_holder_is_waited_for_by_the_clock() {
    let dir = Dir::new();
    let (a, b) = (Client::new(&dir), Client::new(&dir));
    a.engine.close(a.session).await.unwrap();
    a.open(Keep::Nobody, Duration::from_secs(1)).unwrap();
    a.lock("x").await;
    let claim = b.draft("x", Wait::Line);
    let sleep = sleep_of(b.claim(&claim).await.unwrap());
    assert!(sleep > Duration::from_millis(100) && sleep < Duration::from_millis(1_010), "{sleep:?}");
    b.lock_as(&claim).await;
}

#[tokio::test]
async fn a_lock_of_many_holders_does_not_cost_its_waiter_a_file_for_each() {
    let dir = Dir::new();
    let (a, engine) = (Client::new(&dir), File::open(&dir.0).unwrap());
    let mut readers = Vec::new();
    for count in 1..=70 {
        let reader = Client::on(engine.clone());
        let claim = Claim { capacity: WHOLE, ..reader.draft("x", Wait::Line) };
        assert!(matches!(reader.claim(&claim).await.unwrap(), Standing::Held { .. }));
        readers.push(reader);
        if count < 64 {
            continue;
        }
        let writer = Claim { capacity: WHOLE, weight: WHOLE, ..a.draft("x", Wait::Line) };
        let sleep = sleep_of(a.claim(&writer).await.unwrap());
        a.withdraw(&writer).await;
        assert_eq!(sleep <= Duration::from_secs(1), count > 64, "{count} {sleep:?}");
        let heard = open_files(&dir.0.join("sessions")) - 2 * readers.len() - 2;
        assert_eq!(heard, 64, "beside what the sessions keep open themselves");
    }
}

#[tokio::test]
async fn a_long_line_costs_each_waiter_one_file() {
    const WAITERS: usize = 50;
    let dir = Dir::new();
    let (first, second) = (Client::new(&dir), Client::new(&dir));
    first.lock("x").await;
    let mut waiters = Vec::new();
    for _ in 0..WAITERS {
        for engine in [&first.engine, &second.engine] {
            let waiter = Client::on(engine.clone());
            let (_, wake) = waiter.queue("x").await;
            waiters.push((waiter, wake));
        }
    }
    let sessions = 2 + 2 * WAITERS;
    let heard = open_files(&dir.0.join("sessions")) - 2 * sessions;
    assert!(heard >= WAITERS, "those of the other engine ahead of one: {heard}");
    assert!(heard <= 2 * WAITERS, "beside what the sessions keep open themselves: {heard}");
}

/// Whoever looks for the end of a detached session has a shared flock on its mailbox for a moment.
#[tokio::test]
async fn a_mailbox_that_was_locked_for_a_moment_is_read_later() {
    let dir = Dir::new();
    let (holder, a) = (Client::new(&dir), Client::new(&dir));
    let (held, _) = holder.lock("x").await;
    a.engine.close(a.session).await.unwrap();
    a.open(Keep::Nobody, Duration::from_secs(600)).unwrap();
    let of_a = |path: &std::path::PathBuf| path.to_string_lossy().contains(&a.session.to_string());
    let mail = dir.sessions().into_iter().find(of_a).unwrap().with_added_extension("mail");
    assert!(Command::new("mkfifo").arg(&mail).status().unwrap().success());
    let passer_by = open(&mail, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty()).unwrap();
    rustix::fs::flock(&passer_by, rustix::fs::FlockOperation::LockShared).unwrap();
    let claim = a.draft("x", Wait::Line);
    let sleep = sleep_of(a.claim(&claim).await.unwrap());
    assert!(sleep < Duration::from_millis(100), "it cannot be told: {sleep:?}");
    drop(passer_by);
    let Standing::Queued { wake, sleep, .. } = a.ask(&claim).await.unwrap() else { panic!() };
    assert!(sleep > Duration::from_secs(1), "it still polls: {sleep:?}");
    holder.withdraw(&held).await;
    assert!(matches!(woken(wake).await, Woken::Held(Some(_))));
}

#[tokio::test]
async fn however_many_names_a_process_uses_few_ledgers_stay_open() {
    let dir = Dir::new();
    let a = Client::new(&dir);
    for number in 0..1_000 {
        let (claim, _) = a.lock(&format!("n{number}")).await;
        a.withdraw(&claim).await;
    }
    let open = open_files(&dir.0.join("locks"));
    assert!((1..=64).contains(&open), "{open}");
}
