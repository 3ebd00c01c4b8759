//! The lease of a session: which one it is, what hangs from it, and that none is left.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod lab;

use std::{
    sync::{Arc, mpsc},
    time::Duration,
};

use bramah_core::{About, Detached, Guard, Keep, Opening, Release, Session, Standing};
use bramah_lab::{Etcd as Server, Loss, Proxy, servers::Flavor};
use lab::{
    Proxied, engine, flavors,
    raw::{Raw, soon},
    session_at, settled, url,
};

const LONG: Duration = Duration::from_secs(60);

/// The leases that there are, as etcdctl writes them.
fn leases(server: &Server) -> Vec<String> {
    let listed = server.ctl(&["lease", "list"]).unwrap();
    let mut leases: Vec<String> = listed.lines().skip(1).map(str::to_owned).collect();
    leases.sort();
    leases
}

/// The lease that a key hangs from.
fn lease_of(server: &Server, key: &str) -> i64 {
    let told = server.ctl(&["get", key, "--write-out=json"]).unwrap();
    let number = told.split("\"lease\":").nth(1).unwrap_or_else(|| panic!("{key} has no lease: {told}"));
    number.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

fn lease(session: bramah_core::SessionId) -> String {
    format!("{:x}", session.bits() & u128::from(u64::MAX >> 1))
}

/// Whoever finds out that the lease is gone opens the session anew. Many do at once, and what each enters has to hang from the lease
/// that is kept alive.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_many_open_anew_has_one_lease() {
    for flavor in flavors() {
        let server = Server::start(flavor, 1).unwrap();
        let session = session_at(&server, &[0], LONG).await;
        for _ in 0..5 {
            let [now] = <[String; 1]>::try_from(leases(&server)).unwrap();
            server.ctl(&["lease", "revoke", &now]).unwrap();
            let tasks: Vec<_> = (0..8)
                .map(|n| {
                    let mutex = session.mutex(format!("m{n}")).unwrap();
                    tokio::spawn(async move { mutex.lock().await.unwrap() })
                })
                .collect();
            let mut guards = Vec::new();
            for task in tasks {
                guards.push(soon(task).await.unwrap());
            }
            let named = lease(session.id());
            let on: Vec<i64> = (0..8).map(|n| lease_of(&server, &format!("m{n}/{named}"))).collect();
            assert!(on.iter().all(|lease| *lease == on[0]), "{flavor}: {on:?}");
            for guard in guards {
                assert!(guard.confirm().await.unwrap(), "{flavor}: one was lost");
                guard.release().await;
            }
            bramah_lab::until("one lease", lab::SOON, || {
                let all = leases(&server);
                if all.len() == 1 { Ok(()) } else { Err(format!("{all:?}")) }
            })
            .unwrap();
        }
        settled(&server, [session]).await;
    }
}

/// A session moves to another lease when its ttl is changed. What entered in the midst of that follows with the next renewal.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_on_the_former_lease_follows_with_the_next_renewal() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let raw = Raw::open(&url(&server, &[0]), LONG).await;
    let claim = raw.mutex("x");
    assert!(matches!(raw.enter(&claim).await.unwrap(), Standing::Held { .. }));
    let (key, former) = (raw.key("x"), lease_of(&server, &raw.key("x")));
    let longer = Opening::new(raw.session, LONG * 2, Keep::Process, About::this_process());
    raw.engine.open(Arc::new(longer)).await.unwrap();
    let lease = lease_of(&server, &key);
    assert_ne!(lease, former);
    let said = server.ctl(&["get", &key, "--print-value-only"]).unwrap();
    server.ctl(&["put", &key, said.trim_end_matches('\n'), &format!("--lease={former:x}")]).unwrap();
    let renewal = raw.engine.renew(raw.session, [Arc::new(claim.asking())].into()).await.unwrap();
    assert_eq!((renewal.gone, renewal.stray), (vec![], vec![]));
    assert_eq!(lease_of(&server, &key), lease, "it goes with a lease that nobody keeps alive");
    // On a lease that is not the session's, it is not.
    let granted = server.ctl(&["lease", "grant", "600"]).unwrap();
    let other = granted.split_whitespace().nth(1).unwrap();
    server.ctl(&["put", &key, said.trim_end_matches('\n'), &format!("--lease={other}")]).unwrap();
    let renewal = raw.engine.renew(raw.session, [Arc::new(claim.asking())].into()).await.unwrap();
    assert_eq!(renewal.gone, [claim.id]);
}

/// A session that moves to another lease in steps, one key after another, and is cut off in between.
#[tokio::test(flavor = "multi_thread")]
async fn a_move_to_another_lease_that_is_cut_off_loses_no_claim() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let proxied = Proxied::before(&server);
    let raw = Raw::open(&proxied.url(), LONG).await;
    let claim = raw.mutex("x");
    assert!(matches!(raw.enter(&claim).await.unwrap(), Standing::Held { .. }));
    let (key, former) = (raw.key("x"), lease_of(&server, &raw.key("x")));
    // The key hangs from the new lease, and nobody is told.
    proxied.all(|proxy| proxy.lose_replies_matching(Loss::Kill, |request| has(request, b"bramah1 session=")));
    let longer = Opening::new(raw.session, LONG * 2, Keep::Process, About::this_process());
    assert!(raw.engine.open(Arc::new(longer)).await.is_err(), "it was not cut off");
    assert_ne!(lease_of(&server, &key), former, "it was cut off before the first key");
    proxied.all(Proxy::lose_nothing);
    let renewal = lab::until_ok(|| raw.engine.renew(raw.session, [Arc::new(claim.asking())].into())).await;
    assert_eq!((renewal.gone, renewal.stray), (vec![], vec![]));
    raw.withdraw(&claim).await;
}

const HOURS: Duration = Duration::from_secs(4 * 3600);

/// A lock that is left for hours, as `bramah lock --ttl 4h` leaves it: its process is gone.
async fn left(url: &str, names: &[&str]) -> Vec<Detached> {
    let session = Session::builder(engine(url)).ttl(LONG).keep(Keep::Nobody).open().await.unwrap();
    let mut guards: Vec<Guard> = Vec::new();
    for name in names {
        guards.push(session.mutex(*name).unwrap().lock().await.unwrap());
    }
    let mut left = Vec::new();
    for guard in guards {
        left.push(guard.leave_for(HOURS).await.unwrap());
    }
    left
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_of_a_lock_that_was_left_ends_with_its_release() {
    for flavor in flavors() {
        let server = Server::start(flavor, 1).unwrap();
        let url = url(&server, &[0]);
        let [one] = <[Detached; 1]>::try_from(left(&url, &["x"]).await).unwrap();
        assert!(!leases(&server).is_empty());
        let known = Detached::new(engine(&url), one.name().clone(), one.id());
        assert!(known.release().await.unwrap());
        assert_eq!(leases(&server), [""; 0], "{flavor}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_of_a_lock_that_was_left_ends_with_a_break() {
    for flavor in flavors() {
        let server = Server::start(flavor, 1).unwrap();
        let url = url(&server, &[0]);
        let [one] = <[Detached; 1]>::try_from(left(&url, &["x"]).await).unwrap();
        let session = session_at(&server, &[0], LONG).await;
        assert!(session.break_hold(one.name(), one.id().tag(), "a test").await.unwrap());
        assert_eq!(leases(&server), [format!("{:0>16}", lease(session.id()))], "{flavor}");
        settled(&server, [session]).await;
    }
}

/// What else hangs from it would be deleted with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_something_else_hangs_from_stays() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let url = url(&server, &[0]);
    let [one, two] = <[Detached; 2]>::try_from(left(&url, &["x", "y"]).await).unwrap();
    let id = one.id().session;
    let on = lease_of(&server, &format!("x/{}", lease(id)));
    assert_eq!(on, lease_of(&server, &format!("y/{}", lease(id))));
    server.ctl(&["put", "/theirs", "value", &format!("--lease={on:x}")]).unwrap();
    let known = |one: &Detached| Detached::new(engine(&url), one.name().clone(), one.id());
    assert!(known(&one).release().await.unwrap());
    known(&two).renew().await.expect("another lock of the same session was lost");
    assert!(known(&two).release().await.unwrap());
    assert_eq!(lease_of(&server, "/theirs"), on, "a key of another program was deleted");
}

/// A session that a process keeps has its lease also while it holds nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_break_leaves_the_lease_of_a_session_that_a_process_keeps() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let (holder, other) = (session_at(&server, &[0], LONG).await, session_at(&server, &[0], LONG).await);
    let guard = holder.mutex("x").unwrap().lock().await.unwrap();
    let before = leases(&server);
    assert!(other.break_hold(&guard.name(), guard.tag(), "a test").await.unwrap());
    soon(guard.lost()).await;
    assert_eq!((before.len(), leases(&server)), (2, before));
    drop(guard);
    settled(&server, [holder, other]).await;
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|some| some == part)
}

/// What the key has with which the end of a lease is announced.
const ANNOUNCEMENT: &[u8] = b"/bramah/ending/";

/// How etcd is asked to end a lease.
fn revocation(lease: i64) -> Vec<u8> {
    let mut message = vec![8];
    let mut rest = lease.cast_unsigned();
    while rest >= 128 {
        message.push(rest.to_le_bytes()[0] | 128);
        rest /= 128;
    }
    message.push(rest.to_le_bytes()[0]);
    // Not compressed, and of this length: a question about a lease and its keys is longer.
    let mut request = vec![0, 0, 0, 0, u8::try_from(message.len()).unwrap()];
    request.append(&mut message);
    request
}

/// Waits for requests that contain these parts, in this order, and holds the last one back. The first end tells that it came, the
/// second lets it through.
fn hold_back(proxy: &Proxy, parts: Vec<Vec<u8>>) -> (mpsc::Receiver<()>, mpsc::Sender<()>) {
    let ((tell, told), (go, may_go)) = (mpsc::channel(), mpsc::channel());
    let mut parts = parts.into_iter().peekable();
    proxy.lose_replies_matching(Loss::Stall, move |request| {
        if parts.next_if(|part| has(request, part)).is_some() && parts.peek().is_none() {
            let _ = tell.send(());
            // Until it is let go, or the test has ended.
            let _ = may_go.recv();
        }
        false
    });
    (told, go)
}

/// A session that nobody keeps and that is open here has left `x`, and another process releases that. When the last of
/// these requests is on its way, the session takes `y`. What it gets, once the release is done.
async fn taken_while_released(
    server: &Server,
    parts: impl FnOnce(i64) -> Vec<Vec<u8>>,
) -> (Session, Guard, (i64, i64)) {
    let proxied = Proxied::before(server);
    let builder = Session::builder(engine(&url(server, &[0])));
    let session = builder.ttl(LONG).keep(Keep::Nobody).open().await.unwrap();
    let one = session.mutex("x").unwrap().lock().await.unwrap().leave().await.unwrap();
    let named = lease(session.id());
    let former = lease_of(server, &format!("x/{named}"));
    let (told, go) = hold_back(&proxied.proxies[0], parts(former));
    let elsewhere = engine(&format!("{}?timeout=20s", proxied.url()));
    let elsewhere = Detached::new(elsewhere, one.name().clone(), one.id());
    let released = tokio::spawn(async move { elsewhere.release().await.unwrap() });
    let told = tokio::task::spawn_blocking(move || told.recv_timeout(lab::SOON)).await.unwrap();
    told.expect("the lease is not ended in this way");
    let guard = soon(session.mutex("y").unwrap().lock()).await.unwrap();
    let lease = lease_of(server, &format!("y/{named}"));
    drop(go);
    assert!(soon(released).await.unwrap());
    (session, guard, (former, lease))
}

/// Whoever ends a lease looks after it has said so: what entered before that is seen.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_enters_before_the_end_of_its_lease_is_announced_keeps_it() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let parts = |_| vec![ANNOUNCEMENT.to_vec()];
    let (session, guard, (former, lease)) = taken_while_released(&server, parts).await;
    assert_eq!(former, lease);
    assert!(guard.confirm().await.unwrap(), "it was ended with a lease that it hung from");
    assert_eq!(guard.release().await, Release::Released);
    settled(&server, [session]).await;
}

/// And what enters later sees the announcement.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_enters_after_the_end_of_its_lease_was_announced_has_another() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let parts = |lease| vec![ANNOUNCEMENT.to_vec(), revocation(lease)];
    let (session, guard, (former, lease)) = taken_while_released(&server, parts).await;
    assert!(guard.confirm().await.unwrap(), "it was ended with a lease that it hung from");
    assert_ne!(former, lease);
    assert_eq!(guard.release().await, Release::Released);
    settled(&server, [session]).await;
}
