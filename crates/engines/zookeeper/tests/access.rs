//! Users, rights, and TLS.

use std::{sync::Arc, time::Duration};

use bramah_core::{Engine, ErrorKind, Name, Result, Scope, Session};
use bramah_lab::ZooKeeper as Ensemble;
use bramah_zookeeper::ZooKeeper;

async fn open(url: &str) -> Result<Session> {
    let engine: Arc<dyn Engine> = ZooKeeper::from_url(url)?.into();
    Session::builder(engine).ttl(Duration::from_secs(5)).open().await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_user_creates_is_closed_to_others() {
    let ensemble = Ensemble::start(1).unwrap();
    let at = |user: &str, rest: &str| format!("zookeeper://{user}{}/{rest}", ensemble.connect_string());
    let (ana, bob) =
        (open(&at("ana:one@", "closed")).await.unwrap(), open(&at("bob:two@", "closed")).await.unwrap());
    let guard = ana.mutex("x").unwrap().lock().await.unwrap();
    let error = bob.mutex("x").unwrap().try_lock().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    let said = error.to_string();
    assert!(said.contains("ACL") && !said.contains("two"), "{said}");
    // Who is the same user to ZooKeeper waits for the same lock.
    let again = open(&at("ana:one@", "closed")).await.unwrap();
    assert!(again.mutex("x").unwrap().try_lock().await.unwrap().is_none());
    guard.release().await;
    again.mutex("x").unwrap().try_lock().await.unwrap().expect("it is free").release().await;
    // With acl=open everybody may.
    let (ana, bob) =
        (open(&at("ana:one@", "open?acl=open")).await.unwrap(), open(&at("", "open")).await.unwrap());
    let guard = ana.mutex("x").unwrap().lock().await.unwrap();
    assert!(bob.mutex("x").unwrap().try_lock().await.unwrap().is_none());
    guard.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_under_a_lock_that_was_lost_changes_nothing() {
    let ensemble = Ensemble::start(1).unwrap();
    let url = format!("zookeeper://{}/locks", ensemble.connect_string());
    let (zookeeper, session) = (ZooKeeper::from_url(&url).unwrap(), open(&url).await.unwrap());
    let raw = zookeeper_client::Client::connect(&ensemble.connect_string()).await.unwrap();
    let anyone = zookeeper_client::CreateMode::Persistent.with_acls(zookeeper_client::Acls::anyone_all());
    raw.create("/state", b"old", &anyone).await.unwrap();
    let guard = session.mutex("x").unwrap().lock().await.unwrap();
    assert_eq!(zookeeper.write(&guard, "/state", b"one", None).await.unwrap(), 1);
    let kind = |answer: Result<i32>| answer.unwrap_err().kind();
    assert_eq!(kind(zookeeper.write(&guard, "/state", b"two", Some(7)).await), ErrorKind::Conflict);
    assert_eq!(kind(zookeeper.write(&guard, "/none", b"two", None).await), ErrorKind::Invalid);
    // It is lost, and its holder does not know yet.
    let node = raw.list_children("/locks/x").await.unwrap().remove(0);
    let deleted = raw.delete(&format!("/locks/x/{node}"), None);
    let late = zookeeper.write(&guard, "/state", b"late", None);
    deleted.await.unwrap();
    // Sent before or after: what counts is that no write comes after the loss.
    let is_late = late.await.is_err();
    assert_eq!(kind(zookeeper.write(&guard, "/state", b"later", None).await), ErrorKind::Lost);
    let (data, _) = raw.get_data("/state").await.unwrap();
    assert_eq!(data, if is_late { b"one".to_vec() } else { b"late".to_vec() });
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_called_locks_are_looked_into_and_a_semaphore_beside_them_stands_alone() {
    let ensemble = Ensemble::start(1).unwrap();
    let session = open(&format!("zookeeper://{}", ensemble.connect_string())).await.unwrap();
    let mut guards = Vec::new();
    for name in ["app/locks", "app/locks/orders", "app/leases", "app/leases/x"] {
        guards.push(session.mutex(name).unwrap().lock().await.unwrap());
    }
    guards.push(session.semaphore("app", 2).unwrap().permits(2).lock().await.unwrap());
    let under = async |name: &str| {
        let lines = session.survey(&Scope::Under(Name::new(name).unwrap())).await.unwrap();
        lines.iter().map(|line| line.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(under("app/locks").await, ["app/locks", "app/locks/orders"]);
    assert_eq!(under("app").await, ["app", "app/leases", "app/leases/x", "app/locks", "app/locks/orders"]);
    for guard in guards {
        assert!(guard.confirm().await.unwrap());
        guard.release().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there_is_told_in_time_and_by_name() {
    let error = open("zookeeper://127.0.0.1:1?connect_timeout=300ms").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("127.0.0.1:1"), "{error}");
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread")]
async fn tls_is_spoken_with_who_has_the_right_certificate_and_with_nobody_else() {
    let ensemble = Ensemble::with_mutual_tls(1).unwrap();
    let (made, others) = (ensemble.certificates(), bramah_lab::Certificates::new().unwrap());
    let members = ensemble.secure_addresses().join(",");
    let url =
        |ca: &std::path::Path| format!("zookeepers://{members}/x?connect_timeout=3s&ca={}", ca.display());
    let own = |ca: &std::path::Path| {
        format!("{}&cert={}&key={}", url(ca), made.client().display(), made.client_key().display())
    };
    let session = open(&own(&made.authority())).await.unwrap();
    session.mutex("x").unwrap().lock().await.unwrap().release().await;
    // Without a certificate of its own, and with members that somebody else vouches for.
    for refused in [url(&made.authority()), own(&others.authority())] {
        let error = open(&refused).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    }
    let error = open(&url(&others.authority().with_file_name("missing.pem"))).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}
