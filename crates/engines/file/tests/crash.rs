//! Processes that die, stop, or are killed in the middle of writing.

mod rig;

use std::{sync::Arc, time::Duration};

use bramah_core::{Claim, Clock, Engine, ErrorKind, Exit, Health, Scope, Standing, Wait, Woken, line::WHOLE};
use rig::{Client, Dir, Peer, role, until, woken};

/// What the child processes of the tests below do. Without a role it is an empty test.
#[test]
fn peer() {
    let Some((role, dir)) = role() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let client = Client::new(&dir);
        match role.as_str() {
            "hold" => {
                client.lock("x").await;
                println!("\nheld");
            }
            "wait" => {
                let (_claim, _wake) = client.queue("x").await;
                println!("\nwaiting");
                std::future::pending::<()>().await;
            }
            "write" => {
                let claim = Claim { capacity: WHOLE, weight: WHOLE, ..client.draft("x", Wait::Line) };
                let Standing::Queued { wake: _wake, .. } = client.claim(&claim).await.unwrap() else {
                    panic!()
                };
                println!("\nwaiting");
                std::future::pending::<()>().await;
            }
            // Lines of all lengths, so that writes within the page, beside it and back all happen.
            _ => loop {
                println!("\nlooping");
                let mut claims = Vec::new();
                for _ in 0..60 {
                    let claim = client.draft("x", Wait::Line);
                    let _ = client.claim(&claim).await.unwrap();
                    claims.push(claim);
                }
                for claim in claims {
                    client.withdraw(&claim).await;
                }
            },
        }
        std::future::pending::<()>().await;
    });
    // The process is killed, never ended: nothing of it may be dropped in an orderly way.
    std::mem::forget(dir);
}

#[tokio::test]
async fn a_killed_holder_frees_the_lock_at_once() {
    for _ in 0..10 {
        let dir = Dir::new();
        let (a, b) = (Client::new(&dir), Client::new(&dir));
        let mut holder = Peer::start("hold", &dir);
        holder.expect("held");
        let (claim, wake) = a.queue("x").await;
        let (later, later_wake) = b.queue("x").await;
        holder.kill();
        assert_eq!(woken(wake).await, Woken::Ask, "the kernel tells: this wake has no net");
        assert!(
            matches!(a.ask(&claim).await.unwrap(), Standing::Held { fence: Some(_), .. }),
            "dead at the first look"
        );
        assert_eq!(woken(later_wake).await, Woken::Ask);
        assert!(matches!(b.ask(&later).await.unwrap(), Standing::Queued { ahead: Some(1), .. }));
    }
}

#[tokio::test]
async fn a_killed_holder_refuses_nobody_and_a_watcher_is_told() {
    let dir = Dir::new();
    let a = Client::new(&dir);
    let mut holder = Peer::start("hold", &dir);
    holder.expect("held");
    assert!(matches!(a.claim(&a.draft("x", Wait::No)).await.unwrap(), Standing::Refused));
    let Standing::Queued { wake, .. } = a.claim(&a.draft("x", Wait::Watch)).await.unwrap() else { panic!() };
    holder.kill();
    assert_eq!(woken(wake).await, Woken::Ask);
    assert!(a.survey(Scope::All).await.lines.is_empty(), "the dead are not shown");
    assert!(matches!(a.claim(&a.draft("x", Wait::No)).await.unwrap(), Standing::Held { fence: Some(_), .. }));
}

#[tokio::test]
async fn a_waiter_that_died_is_passed_over() {
    let dir = Dir::new();
    let (a, b) = (Client::new(&dir), Client::new(&dir));
    let (held, _) = a.lock("x").await;
    let mut waiter = Peer::start("wait", &dir);
    waiter.expect("waiting");
    let (claim, wake) = b.queue("x").await;
    waiter.kill();
    a.withdraw(&held).await;
    b.served(&claim, wake).await;
}

/// Nobody here asks from time to time: whoever is next must hear of every death that concerns it.
#[tokio::test]
async fn waiters_that_died_do_not_keep_the_holders_death_from_the_next() {
    for dead in [1, 2, 10] {
        let dir = Dir::new();
        let a = Client::new(&dir);
        let mut holder = Peer::start("hold", &dir);
        holder.expect("held");
        let mut waiters = Vec::new();
        for _ in 0..dead {
            let mut waiter = Peer::start("wait", &dir);
            waiter.expect("waiting");
            waiters.push(waiter);
        }
        let (claim, wake) = a.queue("x").await;
        if dead == 2 {
            // From the back: those who died are not all directly ahead at first.
            waiters.reverse();
        }
        waiters.into_iter().for_each(Peer::kill);
        holder.kill();
        a.served(&claim, wake).await;
    }
}

#[tokio::test]
async fn a_writer_that_died_in_line_keeps_no_reader_out() {
    for wait in [Wait::No, Wait::Watch] {
        let dir = Dir::new();
        let (a, b) = (Client::new(&dir), Client::new(&dir));
        let reader = |client: &Client, wait| Claim { capacity: WHOLE, ..client.draft("x", wait) };
        assert!(matches!(a.claim(&reader(&a, Wait::No)).await.unwrap(), Standing::Held { .. }));
        let mut writer = Peer::start("write", &dir);
        writer.expect("waiting");
        assert!(matches!(b.claim(&reader(&b, Wait::No)).await.unwrap(), Standing::Refused));
        writer.kill();
        // Not always at once: a child that another test starts shares every flock until it execs.
        until("a reader gets in", || {
            let tried = b.engine.claim(Arc::new(reader(&b, wait))).into_now();
            matches!(tried, Ok(Ok(Standing::Held { .. })))
        });
    }
}

#[tokio::test]
async fn who_gives_up_in_the_middle_leaves_nobody_unheard() {
    let dir = Dir::new();
    let (a, b) = (Client::new(&dir), Client::new(&dir));
    let mut holder = Peer::start("hold", &dir);
    holder.expect("held");
    let mut waiter = Peer::start("wait", &dir);
    waiter.expect("waiting");
    let (middle, _wake) = b.queue("x").await;
    let (claim, wake) = a.queue("x").await;
    b.withdraw(&middle).await;
    assert_eq!(woken(wake).await, Woken::Ask, "another one is ahead of it now");
    let Standing::Queued { ahead, wake, .. } = a.ask(&claim).await.unwrap() else { panic!() };
    assert_eq!(ahead, Some(2));
    waiter.kill();
    holder.kill();
    a.served(&claim, wake).await;
}

#[tokio::test]
async fn fences_rise_over_a_crash() {
    let dir = Dir::new();
    let a = Client::new(&dir);
    let (held, before) = a.lock("x").await;
    a.withdraw(&held).await;
    for _ in 0..3 {
        let mut holder = Peer::start("hold", &dir);
        holder.expect("held");
        let shown = a.survey(Scope::All).await;
        let bramah_core::PlaceState::Held { fence: Some(theirs), .. } = shown.lines[0].places[0].state else {
            panic!()
        };
        holder.kill();
        let (held, after) = a.lock("x").await;
        assert!(before < theirs && theirs < after);
        a.withdraw(&held).await;
    }
}

#[tokio::test]
async fn a_stopped_holder_keeps_the_lock_and_is_shown_as_stopped() {
    let dir = Dir::new();
    let a = Client::new(&dir);
    let mut holder = Peer::start("hold", &dir);
    holder.expect("held");
    holder.signal("-STOP");
    let shown = || {
        a.engine.survey(&Scope::All, bramah_core::Look::Watching).into_now().unwrap().unwrap().lines[0].places
            [0]
        .health
    };
    until("stopped", || shown() == Health::Stopped);
    assert!(matches!(a.claim(&a.draft("x", Wait::No)).await.unwrap(), Standing::Refused));
    let renewal = a.engine.renew(a.session, [].into()).await.unwrap();
    assert_eq!(renewal, Default::default());
    holder.kill();
    a.lock("x").await;
}

#[tokio::test]
async fn files_of_the_dead_are_swept_when_the_next_one_opens() {
    let dir = Dir::new();
    for _ in 0..5 {
        let mut holder = Peer::start("hold", &dir);
        holder.expect("held");
        holder.kill();
    }
    // Not always by the first: a child that another test starts shares every flock until it execs.
    until("only its own is left", || {
        let _sweeper = Client::new(&dir);
        dir.sessions().len() == 1
    });
    Client::new(&dir).lock("x").await;
}

/// A hundred kills at random moments of a process that writes all the time.
#[tokio::test]
async fn a_process_killed_in_the_middle_of_anything_leaves_a_whole_ledger_and_a_free_lock() {
    let dir = Dir::new();
    let clock = Clock::boot();
    let a = Client::new(&dir);
    for round in 0..100 {
        let mut writer = Peer::start("loop", &dir);
        writer.expect("looping");
        std::thread::sleep(Duration::from_micros(fastrand::u64(0..15_000)));
        writer.kill();
        let start = clock.now();
        let claim = a.draft("x", Wait::No);
        match a.claim(&claim).await {
            Ok(Standing::Held { fence: Some(_), .. }) => {}
            other => panic!("round {round}: {other:?}"),
        }
        assert!(clock.now().since(start) < Duration::from_secs(5), "nobody is left to wait for");
        a.withdraw(&claim).await;
    }
}

#[tokio::test]
async fn a_ledger_that_stays_locked_is_unavailable_and_named() {
    let dir = Dir::new();
    let a = Client::new(&dir);
    let (held, _) = a.lock("x").await;
    let (other, _) = a.lock("y").await;
    let stuck = std::fs::File::open(dir.ledger("x")).unwrap();
    stuck.lock().unwrap();
    let claims = [Arc::new(held.clone()), Arc::new(other)];
    let renewal = a.engine.renew(a.session, claims.into()).await.unwrap();
    assert_eq!((renewal.unknown, renewal.gone), (vec![held.id], vec![]), "one does not hold up the other");
    let reply = a.engine.withdraw(Arc::new(held.clone()), Exit::Own).into_now();
    let error = reply.expect_err("it is locked").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("locks/x"), "{error}");
    drop(stuck);
    a.withdraw(&held).await;
}
