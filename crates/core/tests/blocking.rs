//! The faces for code without async.

#![cfg(feature = "blocking")]

use std::time::Duration;

use bramah_core::{
    ErrorKind, Keep, Memory, Owner, Release,
    blocking::{Detached, Session, lock_all},
};

#[test]
fn threads_exclude_each_other_and_lose_no_update() {
    let store = Memory::new();
    let count = std::sync::Mutex::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let session = Session::open(store.clone()).unwrap();
                let mutex = session.mutex("counter").unwrap();
                for _ in 0..100 {
                    let guard = mutex.lock().unwrap();
                    // Read and write apart: only the lock keeps them together.
                    let seen = *count.lock().unwrap();
                    std::thread::yield_now();
                    *count.lock().unwrap() = seen + 1;
                    assert_eq!(guard.release(), Release::Released);
                }
            });
        }
    });
    assert_eq!(*count.lock().unwrap(), 400);
}

#[test]
fn every_face_works_without_async() {
    let session = Session::open(Memory::new()).unwrap();
    let mutex = session.mutex("m").unwrap();
    let guard = mutex.lock().unwrap();
    assert!(guard.is_held() && guard.fence().is_some() && guard.remaining() > Duration::from_secs(20));
    assert!(mutex.try_lock().unwrap().is_none());
    assert_eq!(mutex.lock_within(Duration::from_millis(5)).unwrap_err().kind(), ErrorKind::Timeout);
    assert!(!guard.lost_within(Duration::from_millis(1)));
    let name = "m".try_into().unwrap();
    let line = session.inspect(&name).unwrap().unwrap();
    assert!(session.break_hold(&name, line.places[0].claim.id.tag(), "test").unwrap());
    drop(guard);

    let owner = Owner::new();
    let (outer, inner) = (mutex.lock_as(&owner).unwrap(), mutex.lock_as(&owner).unwrap());
    assert_eq!(inner.release(), Release::StillOwned);
    assert_eq!(outer.release(), Release::Released);

    let rwlock = session.rwlock("rw").unwrap();
    let readers = (rwlock.read().lock().unwrap(), rwlock.read().lock().unwrap());
    assert!(rwlock.write().try_lock().unwrap().is_none());
    drop(readers);
    let short = rwlock.write().with(|lock| lock.lease(Duration::from_millis(50))).lock().unwrap();
    assert!(short.lost_within(Duration::from_secs(10)));
    drop(short);

    let permits = session.semaphore("s", 2).unwrap();
    let both = permits.permits(2).lock().unwrap();
    assert!(permits.permits(1).try_lock().unwrap().is_none());
    drop(both);

    let election = session.election("e").unwrap();
    let leadership = election.campaign("me").unwrap();
    assert_eq!(&*election.leader().unwrap().unwrap().value, "me");
    let mut leaders = election.observe();
    assert_eq!(&*leaders.next().unwrap().unwrap().unwrap().value, "me");
    assert!(election.try_campaign("other").unwrap().is_none());
    assert_eq!(
        election.campaign_within("other", Duration::from_millis(5)).unwrap_err().kind(),
        ErrorKind::Timeout
    );
    leadership.proclaim("still me").unwrap();
    assert_eq!(&*leaders.next().unwrap().unwrap().unwrap().value, "still me");
    leadership.release();
    assert!(leaders.next().unwrap().unwrap().is_none());
    drop(leaders);

    let both = || [mutex.as_lock(), rwlock.write()];
    let guards = lock_all(both(), None).unwrap();
    assert!(guards.guards().is_held() && mutex.try_lock().unwrap().is_none());
    assert_eq!(lock_all(both(), Some(Duration::from_millis(5))).unwrap_err().kind(), ErrorKind::Timeout);
    assert_eq!(guards.release(), [Release::Released, Release::Released]);
    assert_eq!(lock_all([], None).unwrap_err().kind(), ErrorKind::Invalid);

    assert!(election.leader().unwrap().is_none());
    assert!(session.survey(&bramah_core::Scope::All).unwrap().iter().all(|line| line.places.is_empty()));
    assert!(session.close(Duration::from_secs(1)).left.is_empty());
}

#[test]
fn what_is_asked_of_the_store_is_there_without_async() {
    let store = Memory::new();
    let session = Session::open(store.clone()).unwrap();
    let guard = session.mutex("m").unwrap().lock().unwrap();
    assert_eq!(guard.name().as_str(), "m");
    assert!(guard.confirm().unwrap());
    assert!(session.ask(&guard.name(), guard.tag()).unwrap());
    assert!(session.break_hold(&guard.name(), guard.tag(), "a test").unwrap());
    assert!(!guard.confirm().unwrap() && !guard.is_held());
    let refused = session.mutex("m").unwrap().lock().unwrap().leave().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported, "its session is kept by this process");

    let builder = bramah_core::Session::builder(store.clone()).keep(Keep::Nobody);
    let left = Session::build(builder).unwrap().mutex("left").unwrap().lock().unwrap();
    let left = left.leave_for(Duration::from_secs(60)).unwrap();
    let again = Detached::new(store, left.name().clone(), left.id()).unwrap();
    assert_eq!(again.renew().unwrap(), Duration::from_secs(60));
    assert!(again.release().unwrap() && !left.release().unwrap());
}
