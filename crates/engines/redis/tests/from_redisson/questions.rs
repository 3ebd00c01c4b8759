//! `RLock`: what is asked of it, and ending it by force.

use bramah_core::{Name, Owner, PlaceState};

use crate::stage::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn force_unlock() {
    let stage = Stage::enter().await;
    let session = stage.session_of(ms(1500)).await;
    let name = Name::new("orders").unwrap();
    let mut listener = stage.listen("redisson_lock__channel:{orders}");
    // Twice, and all of it is ended.
    assert_eq!(stage.java_lock("orders", JAVA, 30_000), None);
    assert_eq!(stage.java_lock("orders", JAVA, 30_000), None);
    let lock = mutex(&session, "orders");
    let waiting = stage.waiting(async move { lock.lock().await }).await;
    let tag = line(&session, "orders").await.holders().next().unwrap().claim.id.tag();
    assert!(session.break_hold(&name, tag, "it hangs").await.unwrap());
    let guard = soon(waiting).await.unwrap().unwrap();
    assert_eq!(listener.heard(), ["0"]);
    assert_eq!(stage.java_unlock("orders", JAVA), None, "Redisson throws");
    let broken = line(&session, "orders").await.broken.expect("a record");
    assert_eq!(&*broken.cause.reason, "it hangs");
    assert!(!session.break_hold(&name, tag, "it hangs").await.unwrap(), "it is not there any more");

    // The next hold of the same thread in Java goes by the same tag, and the next one of ours does not.
    let ours = guard.tag();
    guard.release().await;
    assert_eq!(stage.java_lock("orders", JAVA, 30_000), None);
    assert_eq!(line(&session, "orders").await.holders().next().unwrap().claim.id.tag(), tag);
    assert_eq!(stage.java_unlock("orders", JAVA), Some(1));
    let guard = mutex(&session, "orders").lock().await.unwrap();
    assert_ne!(guard.tag(), ours);

    // And in Java, of ours.
    stage.cli(&["DEL", "orders"]);
    soon(guard.lost()).await;
    assert!(!guard.is_held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn is_locked() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let name = Name::new("orders").unwrap();
    assert!(session.inspect(&name).await.unwrap().is_none());
    assert_eq!(stage.java_lock("orders", JAVA, 30_000), None);
    assert_eq!(line(&session, "orders").await.holders().count(), 1);
    assert_eq!(stage.java_unlock("orders", JAVA), Some(1));
    assert!(session.inspect(&name).await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn is_held_by_current_thread() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let guard = mutex(&session, "orders").lock().await.unwrap();
    assert!(guard.is_held());
    assert!(guard.confirm().await.unwrap());
    stage.cli(&["DEL", "orders"]);
    assert!(guard.is_held(), "nobody has told it");
    assert!(!guard.confirm().await.unwrap(), "the server was asked");
    assert!(!guard.is_held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn is_held_by_thread() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    assert_eq!(stage.java_lock("theirs", JAVA, 30_000), None);
    let seen = line(&session, "theirs").await;
    let id = seen.holders().next().unwrap().claim.id;
    assert_eq!((id.session.to_string(), id.seq), (JAVA[..36].replace('-', ""), 58));

    let guard = mutex(&session, "ours").lock().await.unwrap();
    let seen = line(&session, "ours").await;
    let place = seen.holders().next().unwrap();
    assert_eq!(place.claim.id.tag(), guard.tag());
    assert_eq!(place.about.as_ref().unwrap().owner, session.about().owner);
    assert!(stage.holder("ours").0.ends_with(&format!(":{}", place.claim.id.seq)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn get_hold_count() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let (lock, owner) = (mutex(&session, "orders"), Owner::new());
    let outer = lock.owned_by(&owner).lock().await.unwrap();
    let inner = lock.owned_by(&owner).lock().await.unwrap();
    assert_eq!(owner.count(&session, lock.name()), 2);
    assert_eq!(stage.holder("orders").1, "1", "the server does not see it");
    inner.release().await;
    assert_eq!(owner.count(&session, lock.name()), 1);
    outer.release().await;
    assert_eq!(owner.count(&session, lock.name()), 0);

    for _ in 0..3 {
        assert_eq!(stage.java_lock("theirs", JAVA, 30_000), None);
    }
    let seen = line(&session, "theirs").await;
    assert_eq!(&*seen.holders().next().unwrap().claim.note, "Redisson's owner, thread 58, 3 times");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn remain_time_to_live() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let guard = mutex(&session, "ours").lock().await.unwrap();
    let ours = guard.remaining();
    assert!(ours > ms(25_000) && ours < ms(30_000), "{ours:?}");
    assert_eq!(stage.java_lock("theirs", JAVA, 20_000), None);
    let left = line(&session, "theirs").await.holders().next().unwrap().left.unwrap();
    assert!(left > ms(15_000) && left <= ms(20_000), "{left:?}");
    stage.cli(&["DEL", "ours"]);
    assert!(!guard.confirm().await.unwrap());
    assert_eq!(guard.remaining(), ms(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn get_fenced_lock() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let token = "redisson_lock_token:{orders}";
    stage.cli(&["SET", token, "41"]);
    let guard = mutex(&session, "orders").lock().await.unwrap();
    assert_eq!(guard.fence().unwrap().get(), 42);
    assert_eq!(stage.cli(&["GET", token]), "42");
    guard.release().await;
    // Redisson's lockAndGetToken.
    assert_eq!(stage.number(&["INCR", token]), 43);
    assert_eq!(stage.java_lock("orders", JAVA, 30_000), None);
    assert_eq!(stage.java_unlock("orders", JAVA), Some(1));
    assert_eq!(mutex(&session, "orders").lock().await.unwrap().fence().unwrap().get(), 44);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn get_token() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let guard = mutex(&session, "orders").lock().await.unwrap();
    let seen = line(&session, "orders").await;
    let PlaceState::Held { fence, .. } = seen.holders().next().unwrap().state else { panic!("{seen:?}") };
    assert_eq!(fence, guard.fence());
}
