//! Holders that are asked to let go: at once by a watch, and what is left of a wish.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod lab;

use std::time::Duration;

use bramah_core::{ErrorKind, Keep, Name, Session};
use bramah_lab::{Etcd as Server, servers::Flavor};
use lab::{engine, flavors, session_at, settled, until_free, url};

const WITHIN: Duration = Duration::from_secs(20);
/// The next renewal is 100 seconds away.
const LONG: Duration = Duration::from_secs(300);

/// How many wishes there are.
fn wishes(server: &Server) -> usize {
    let keys = server.ctl(&["get", "", "--prefix", "--keys-only"]).unwrap();
    keys.lines().filter(|key| key.starts_with("/bramah/asked/")).count()
}

fn until_wishes(server: &Server, count: usize) {
    bramah_lab::until("so many wishes", WITHIN, || match wishes(server) {
        found if found == count => Ok(()),
        found => Err(format!("{found}, not {count}")),
    })
    .unwrap();
}

/// The first one, and another one after it: a watch tells once.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_is_told_before_its_next_renewal() {
    for flavor in flavors() {
        let server = Server::start(flavor, 1).unwrap();
        let (a, b) = (session_at(&server, &[0], LONG).await, session_at(&server, &[0], LONG).await);
        let mut guards = Vec::new();
        for name in ["w", "x", "y"] {
            guards.push(a.mutex(name).unwrap().lock().await.unwrap());
        }
        for guard in &guards[1..] {
            assert!(b.ask(&guard.name(), guard.tag()).await.unwrap());
            tokio::time::timeout(WITHIN, guard.asked()).await.unwrap();
        }
        assert!(!guards[0].is_asked() && guards.iter().all(|guard| guard.is_held()));
        for guard in guards {
            guard.release().await;
        }
        settled(&server, [a, b]).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wish_ends_with_its_claim_and_with_its_session() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let (a, b) =
        (session_at(&server, &[0], Duration::from_secs(3)).await, session_at(&server, &[0], LONG).await);
    let (past, stays) =
        (a.mutex("x").unwrap().lock().await.unwrap(), a.mutex("y").unwrap().lock().await.unwrap());
    let fence = stays.fence();
    for guard in [&past, &past, &stays] {
        assert!(b.ask(&guard.name(), guard.tag()).await.unwrap());
        tokio::time::timeout(WITHIN, guard.asked()).await.unwrap();
    }
    assert_eq!(wishes(&server), 2);
    past.release().await;
    until_wishes(&server, 1);
    assert!(stays.confirm().await.unwrap());
    assert_eq!(stays.fence(), fence, "a wish changes no fence");
    settled(&server, [a, b]).await;
    assert_eq!(wishes(&server), 0, "it hangs from the lease");
}

/// A lease that carries nothing but a wish is ended with the last lock of its session.
#[tokio::test(flavor = "multi_thread")]
async fn a_wish_does_not_keep_the_lease_of_a_lock_that_was_left() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let engine = engine(&url(&server, &[0]));
    let session = Session::builder(engine.clone()).ttl(LONG).keep(Keep::Nobody).open().await.unwrap();
    let left = session.mutex("x").unwrap().lock().await.unwrap().leave().await.unwrap();
    let b = session_at(&server, &[0], LONG).await;
    assert!(b.ask(left.name(), left.id().tag()).await.unwrap());
    assert_eq!(wishes(&server), 1);
    let elsewhere =
        bramah_core::Detached::new(lab::engine(&url(&server, &[0])), left.name().clone(), left.id());
    assert!(elsewhere.release().await.unwrap());
    until_wishes(&server, 0);
    until_free(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_another_program_is_refused_by_name() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let lease = server.ctl(&["lease", "grant", "60"]).unwrap();
    let id = lease.split_whitespace().nth(1).unwrap().to_owned();
    server.ctl(&["put", &format!("x/{id}"), "", &format!("--lease={id}")]).unwrap();
    let session = session_at(&server, &[0], LONG).await;
    let name = Name::new("x").unwrap();
    let line = session.inspect(&name).await.unwrap().unwrap();
    let tag = line.holders().next().unwrap().claim.id.tag();
    let error = session.ask(&name, tag).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(
        text.contains("etcd") && text.contains("another program") && text.contains("bramah break"),
        "{text}"
    );
    assert_eq!(wishes(&server), 0);
}
