//! The lease of a session: which one it is, what hangs from it, and that none is left.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod lab;

use std::{sync::Arc, time::Duration};

use bramah_core::{About, Keep, Opening, Standing};
use bramah_lab::{Etcd as Server, servers::Flavor};
use lab::{
    flavors,
    raw::{Raw, soon},
    session_at, settled, url,
};

const LONG: Duration = Duration::from_secs(60);

/// The leases that there are, as etcdctl writes them.
fn leases(server: &Server) -> Vec<String> {
    let listed = server.ctl(&["lease", "list"]).unwrap();
    listed.lines().skip(1).map(str::to_owned).collect()
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
