//! Readers and permits: one session has as many claims as it wants, each with a key of its own.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod lab;

use std::time::Duration;

use bramah_core::{ClaimId, Detached, ErrorKind, Name, Session, SessionId};
use bramah_etcd::{Config, Etcd};
use bramah_lab::{Etcd as Server, Loss, servers::Flavor};
use lab::{Proxied, SOON, engine, flavors, raw::soon, session_at, settled, until_free, url};

const LONG: Duration = Duration::from_secs(60);

/// The keys of a line, in the order of their names.
fn keys(server: &Server, name: &str) -> Vec<String> {
    let keys = server.ctl(&["get", &format!("{name}/"), "--prefix", "--keys-only"]).unwrap();
    keys.lines().filter(|key| !key.is_empty()).map(str::to_owned).collect()
}

fn lease(session: SessionId) -> String {
    format!("{:x}", session.bits() & u128::from(u64::MAX >> 1))
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_and_permits_of_one_session_hold_together() {
    for flavor in flavors() {
        let server = Server::start(flavor, 1).unwrap();
        let session = session_at(&server, &[0], LONG).await;
        let config = session.rwlock("config").unwrap();
        let (one, two) = (config.read().await.unwrap(), soon(config.read().lock()).await.unwrap());
        assert!(config.write().try_lock().await.unwrap().is_none(), "a writer beside two readers");
        let lease = lease(session.id());
        let found = keys(&server, "config");
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|key| key.starts_with(&format!("config/{lease}."))), "{found:?}");
        let told = server.ctl(&["lease", "timetolive", &lease, "--keys"]).unwrap();
        assert!(found.iter().all(|key| told.contains(key.as_str())), "not on the session's lease: {told}");
        // One reader's end is not the other's.
        one.release().await;
        assert!(two.confirm().await.unwrap(), "another reader's end was its own");
        let writer = config.write();
        let writer = tokio::spawn(async move { writer.lock().await.unwrap() });
        lab::waiting(&session, "config", 1).await;
        two.release().await;
        soon(writer).await.unwrap().release().await;

        let reports = session.semaphore("reports", 3).unwrap();
        let mut permits = Vec::new();
        for _ in 0..3 {
            permits.push(soon(reports.permits(1).lock()).await.unwrap());
        }
        assert!(reports.permits(1).try_lock().await.unwrap().is_none(), "a fourth of three permits");
        // A mutex has the key that etcdctl gives it, as ever.
        let mutex = session.mutex("orders").unwrap().lock().await.unwrap();
        assert_eq!(keys(&server, "orders"), [format!("orders/{lease}")]);
        mutex.release().await;
        drop(permits);
        settled(&server, [session]).await;
    }
}

/// All permits of a line that one session waits in are handed on, and never more than there are.
#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_one_session_share_all_permits_of_a_semaphore() {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let session = session_at(&server, &[0], LONG).await;
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let all_in = Arc::new(tokio::sync::Barrier::new(4));
    let tasks: Vec<_> = (0..12)
        .map(|_| {
            let (permit, inside, most) =
                (session.semaphore("x", 4).unwrap().permits(1), inside.clone(), most.clone());
            let all_in = all_in.clone();
            tokio::spawn(async move {
                let guard = permit.lock().await.unwrap();
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // Four hold at a time, or this never ends.
                all_in.wait().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await;
            })
        })
        .collect();
    for task in tasks {
        soon(task).await.unwrap();
    }
    assert_eq!(most.load(Ordering::SeqCst), 4, "holders at a time");
    settled(&server, [session]).await;
}

/// What is refused leaves no key, and takes nothing from what the session has.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_uses_a_name_in_two_ways_is_told() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let session = session_at(&server, &[0], LONG).await;
    let mutex = session.mutex("x").unwrap().lock().await.unwrap();
    let wrong = session.semaphore("x", 3).unwrap();
    for refused in [soon(wrong.permits(1).lock()).await.err(), soon(wrong.permits(1).try_lock()).await.err()]
    {
        assert_eq!(refused.map(|error| error.kind()), Some(ErrorKind::Conflict));
    }
    assert!(mutex.confirm().await.unwrap());
    assert_eq!(keys(&server, "x").len(), 1);
    mutex.release().await;
    drop(soon(wrong.permits(1).lock()).await.unwrap());
    settled(&server, [session]).await;
}

/// What a claim of this capacity says that waits, as its process wrote it.
fn said(id: ClaimId, capacity: u32, granted: &str) -> String {
    format!(
        "bramah1 session={} seq={} capacity={capacity} weight=1 ttl=60000 lease=- entered=1 granted={granted} fence=- who= note=",
        id.session, id.seq
    )
}

/// The first in line says what the line is. One behind it that wants something else is refused; who comes after that one is not.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_of_the_wrong_kind_does_not_make_the_next_one_fail() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let session = session_at(&server, &[0], LONG).await;
    let wrong = ClaimId { session: SessionId::from_bits(0xabc), seq: 5 };
    let granted = server.ctl(&["lease", "grant", "600"]).unwrap();
    let on = format!("--lease={}", granted.split_whitespace().nth(1).unwrap());
    let enter = || server.ctl(&["put", "x/abc.5", &said(wrong, 3, "-"), &on]).unwrap();
    let leave = || server.ctl(&["del", "x/abc.5"]).unwrap();
    let first = session.mutex("x").unwrap().lock().await.unwrap();
    enter();
    let other = session_at(&server, &[0], LONG).await;
    let next = lab::waiter(&other, "x");
    lab::waiting(&session, "x", 2).await;
    assert!(session.mutex("x").unwrap().try_lock().await.unwrap().is_none());
    first.release().await;
    assert!(!next.is_finished(), "beside one that is in line");
    leave();
    let next = lab::got(next).await;
    next.release().await;
    // It is the first for a moment, because the one that refused it has left.
    for tries in [false, true] {
        enter();
        let mutex = other.mutex("x").unwrap();
        let came = tokio::spawn(async move {
            match tries {
                true => mutex.try_lock().await.map(|tried| tried.expect("it is free")),
                false => mutex.lock().await,
            }
        });
        tokio::time::sleep(Duration::from_millis(30)).await;
        leave();
        soon(came).await.unwrap().unwrap().release().await;
    }
    // One that stays, and one that holds.
    for granted in ["-", "1"] {
        server.ctl(&["put", "x/abc.5", &said(wrong, 3, granted), &on]).unwrap();
        let refused = [soon(other.mutex("x").unwrap().lock()).await, other.mutex("x").unwrap().lock().await];
        assert!(refused.into_iter().all(|refused| refused.unwrap_err().kind() == ErrorKind::Conflict));
        leave();
    }
    for session in [session, other] {
        assert_eq!(session.close(SOON).await.left, []);
    }
    until_free(&server);
}

/// However many come at once, those that want what the first has wait, and the others are told.
#[tokio::test(flavor = "multi_thread")]
async fn of_two_kinds_that_come_at_once_the_one_of_the_first_is_served() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let sessions = [
        session_at(&server, &[0], LONG).await,
        session_at(&server, &[0], LONG).await,
        session_at(&server, &[0], LONG).await,
    ];
    let first = sessions[0].mutex("x").unwrap().lock().await.unwrap();
    let mut wrong = Vec::new();
    let mut right = Vec::new();
    for n in 0..60 {
        let permits = sessions[n % 3].semaphore("x", 3).unwrap().permits(1);
        wrong.push(tokio::spawn(async move { permits.lock().await.map(drop) }));
        let other = sessions[1 + n % 2].mutex("x").unwrap();
        right.push(tokio::spawn(async move { other.try_lock().await.map(|tried| tried.is_some()) }));
        let next = session_at(&server, &[0], LONG).await;
        let mutex = next.mutex("x").unwrap();
        let waits = async move { mutex.lock_within(Duration::from_millis(200)).await.map(|_| true) };
        right.push(tokio::spawn(waits));
    }
    for wrong in wrong {
        assert_eq!(soon(wrong).await.unwrap().unwrap_err().kind(), ErrorKind::Conflict);
    }
    for right in right {
        match soon(right).await.unwrap() {
            Ok(got) => assert!(!got, "two hold it"),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Timeout, "{error}"),
        }
    }
    assert!(first.confirm().await.unwrap());
    first.release().await;
    settled(&server, sessions).await;
}

/// A transaction under one reader's lock is not done under another one's.
#[tokio::test(flavor = "multi_thread")]
async fn every_reader_has_a_condition_of_its_own() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let etcd = Etcd::new(&Config::from_url(&url(&server, &[0])).unwrap()).unwrap();
    let session = Session::builder(etcd.clone()).ttl(LONG).open().await.unwrap();
    let config = session.rwlock("x").unwrap();
    let (one, two) = (config.read().await.unwrap(), soon(config.read().lock()).await.unwrap());
    let conditions = [etcd.guard_condition(&one).unwrap(), etcd.guard_condition(&two).unwrap()];
    let mut told: Vec<_> = conditions.iter().map(|one| String::from_utf8(one.key.clone()).unwrap()).collect();
    told.sort();
    assert_eq!(told, keys(&server, "x"));
    drop((one, two));
    settled(&server, [session]).await;
}

/// The server does what it was asked, and the answer is lost: asked again, a permit is taken once.
#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_lost_take_no_permit_twice() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let proxied = Proxied::before(&server);
    let (far, near) = (proxied.session(LONG / 6).await, session_at(&server, &[0], LONG).await);
    let (ours, theirs) = (far.semaphore("x", 2).unwrap(), near.semaphore("x", 2).unwrap());
    for round in 0..6 {
        let first = soon(ours.permits(1).lock()).await.unwrap();
        proxied.all(|proxy| proxy.execute_and_lose(1 + round % 2, Loss::Kill));
        let second = soon(ours.permits(1).lock()).await.unwrap();
        assert!(first.is_held() && second.is_held());
        assert!(theirs.permits(1).try_lock().await.unwrap().is_none(), "three hold two permits");
        proxied.all(|proxy| proxy.execute_and_lose(1, Loss::Kill));
        first.release().await;
        let third = soon(theirs.permits(1).lock()).await.unwrap();
        assert!(second.is_held() && theirs.permits(1).try_lock().await.unwrap().is_none());
        second.release().await;
        third.release().await;
        soon(theirs.permits(2).lock()).await.unwrap().release().await;
    }
    proxied.all(bramah_lab::Proxy::lose_nothing);
    settled(&server, [far, near]).await;
}

/// A permit as versions entered it that had one key for a session and name: it counts, is shown, renewed and released.
#[tokio::test(flavor = "multi_thread")]
async fn a_permit_of_an_earlier_version_is_understood() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let session = session_at(&server, &[0], LONG).await;
    let id = ClaimId { session: SessionId::from_bits(0x7777_0000_0000_0000_0000_0000_0000_0abc), seq: 5 };
    let granted = server.ctl(&["lease", "grant", "600"]).unwrap();
    let on = granted.split_whitespace().nth(1).unwrap();
    server.ctl(&["put", "x/abc", &said(id, 2, "1"), &format!("--lease={on}")]).unwrap();
    let permits = session.semaphore("x", 2).unwrap();
    let one = soon(permits.permits(1).lock()).await.unwrap();
    assert!(permits.permits(1).try_lock().await.unwrap().is_none(), "the old one does not count");
    let name = Name::new("x").unwrap();
    let line = session.inspect(&name).await.unwrap().unwrap();
    assert_eq!((line.capacity, line.holders().count()), (2, 2));
    let old = Detached::new(engine(&url(&server, &[0])), name, id);
    old.renew().await.unwrap();
    assert!(old.release().await.unwrap(), "it was not found");
    assert!(!old.release().await.unwrap(), "it was not released");
    let two = soon(permits.permits(1).lock()).await.unwrap();
    drop((one, two));
    assert_eq!(session.close(SOON).await.left, []);
    until_free(&server);
}

/// A permit that its process left is found by its id.
#[tokio::test(flavor = "multi_thread")]
async fn a_permit_that_was_left_is_renewed_and_released_by_its_id() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let at = url(&server, &[0]);
    let session =
        Session::builder(engine(&at)).ttl(LONG).keep(bramah_core::Keep::Nobody).open().await.unwrap();
    let permits = session.semaphore("x", 2).unwrap();
    let mut left = Vec::new();
    for _ in 0..2 {
        left.push(soon(permits.permits(1).lock()).await.unwrap().leave().await.unwrap());
    }
    drop((permits, session));
    let other = session_at(&server, &[0], LONG).await;
    let theirs = other.semaphore("x", 2).unwrap();
    for known in left {
        assert!(theirs.permits(2).try_lock().await.unwrap().is_none(), "it was not left");
        let again = Detached::new(engine(&at), known.name().clone(), known.id());
        again.renew().await.unwrap();
        assert!(again.release().await.unwrap(), "it was not found");
    }
    soon(theirs.permits(2).lock()).await.unwrap().release().await;
    settled(&server, [other]).await;
}
