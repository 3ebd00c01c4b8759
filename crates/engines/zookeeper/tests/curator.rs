//! The same locks from Rust and from Java: Curator's recipes beside ours on one server.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "curator/java.rs"]
mod java;

use std::{sync::OnceLock, time::Duration};

use bramah_core::{Engine, Guard, Lock, Name, PlaceState, Scope, Session};
use bramah_lab::{Signal, ZooKeeper as Ensemble};
use bramah_zookeeper::ZooKeeper;
use java::{Java, answer};
use tokio::task::JoinHandle;

const PATIENCE: Duration = Duration::from_secs(20);
const TTL: Duration = Duration::from_secs(10);
/// The session of a Java program that will be killed.
const BRIEF: Duration = Duration::from_millis(1500);

fn ensemble() -> &'static Ensemble {
    static ENSEMBLE: OnceLock<Ensemble> = OnceLock::new();
    // It ends with this process.
    ENSEMBLE.get_or_init(|| Ensemble::start(1).unwrap())
}

/// A Java program and two sessions of ours, all in one chroot.
async fn scene(chroot: &str, session: Duration) -> Option<(Java, [Session; 2])> {
    let connect = format!("{}/{chroot}", ensemble().connect_string());
    let url = format!("zookeeper://{connect}");
    let ours = [open(&url).await, open(&url).await];
    // Curator does not create its chroot.
    ours[0].mutex("first").unwrap().lock().await.unwrap().release().await;
    let java = tokio::task::block_in_place(|| Java::start(&connect, session))?;
    Some((java, ours))
}

async fn open(url: &str) -> Session {
    let engine: std::sync::Arc<dyn Engine> = ZooKeeper::from_url(url).unwrap().into();
    Session::builder(engine).ttl(TTL).open().await.unwrap()
}

async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what} did not come"))
}

fn begin(lock: impl Into<Lock>) -> JoinHandle<Guard> {
    let lock = lock.into();
    tokio::spawn(async move { lock.lock().await.unwrap() })
}

/// Waits until so many stand in line, holders and waiters, of ours and of Curator.
async fn crowd(session: &Session, name: &str, holders: usize, waiters: usize) {
    let name = Name::new(name).unwrap();
    let look = async {
        loop {
            let line = session.inspect(&name).await.unwrap();
            let seen = line.as_ref().map_or((0, 0), |line| (line.holders().count(), line.waiters().count()));
            if seen == (holders, waiters) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(&format!("{holders} holders and {waiters} waiters of {name}"), look).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mutex_excludes_both_ways_and_serves_in_one_order() {
    let Some((java, [a, b])) = scene("mutex", TTL).await else { return };
    let (ours, theirs) = ("orders/42", "/orders/42");
    // Theirs, then ours, theirs again, ours again.
    assert_eq!(java.ask("one", &format!("mutex acquire {theirs} 0")).await, "true");
    assert!(a.mutex(ours).unwrap().try_lock().await.unwrap().is_none());
    let second = begin(a.mutex(ours).unwrap());
    crowd(&b, ours, 1, 1).await;
    let mut third = java.begin("two", &format!("mutex acquire {theirs} 20000"));
    crowd(&b, ours, 1, 2).await;
    let fourth = begin(b.mutex(ours).unwrap());
    crowd(&b, ours, 1, 3).await;
    assert_eq!(java.ask("one", &format!("mutex release {theirs}")).await, "released");
    let second = soon("our turn after theirs", second).await.unwrap();
    assert!(third.try_recv().is_err() && !fourth.is_finished(), "two hold it");
    assert_eq!(java.ask("one", &format!("mutex acquire {theirs} 0")).await, "false");
    let fence = second.fence().unwrap();
    second.release().await;
    assert_eq!(answer(third).await, "true");
    assert!(!fourth.is_finished(), "two hold it");
    assert_eq!(java.ask("two", &format!("mutex release {theirs}")).await, "released");
    let fourth = soon("our second turn", fourth).await.unwrap();
    assert!(fourth.fence().unwrap() > fence);
    fourth.release().await;
    crowd(&a, ours, 0, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_share_across_both_and_a_waiting_writer_holds_back_the_others_readers() {
    let Some((java, [a, b])) = scene("shared", TTL).await else { return };
    let (ours, theirs) = ("report", "/report");
    let lock = a.rwlock(ours).unwrap();
    let reader = lock.read().lock().await.unwrap();
    assert_eq!(java.ask("one", &format!("read acquire {theirs} 1000")).await, "true");
    assert_eq!(java.ask("two", &format!("write acquire {theirs} 0")).await, "false");
    // Their writer waits, and our reader behind it.
    let mut writer = java.begin("two", &format!("write acquire {theirs} 20000"));
    crowd(&b, ours, 2, 1).await;
    assert!(
        b.rwlock(ours).unwrap().read().try_lock().await.unwrap().is_none(),
        "it passed a writer that waits"
    );
    let late = begin(b.rwlock(ours).unwrap().read());
    crowd(&b, ours, 2, 2).await;
    reader.release().await;
    assert!(writer.try_recv().is_err(), "one reads still");
    assert_eq!(java.ask("one", &format!("read release {theirs}")).await, "released");
    assert_eq!(answer(writer).await, "true");
    assert!(!late.is_finished(), "a reader beside a writer");
    assert_eq!(java.ask("two", &format!("write release {theirs}")).await, "released");
    let late = soon("our reader's turn", late).await.unwrap();
    // Our writer waits, and their reader behind it.
    let writer = begin(lock.write());
    crowd(&b, ours, 1, 1).await;
    let mut reader = java.begin("one", &format!("read acquire {theirs} 20000"));
    crowd(&b, ours, 1, 2).await;
    late.release().await;
    let writer = soon("our writer's turn", writer).await.unwrap();
    assert!(reader.try_recv().is_err(), "a reader beside a writer");
    writer.release().await;
    assert_eq!(answer(reader).await, "true");
    assert_eq!(java.ask("one", &format!("read release {theirs}")).await, "released");
    crowd(&a, ours, 0, 0).await;
}

/// Decision 0016.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_child_that_is_no_claim_holds_curator_up_and_not_us() {
    let Some((java, [a, b])) = scene("foreign", TTL).await else { return };
    // The folder of this one is a child of the other's that sorts before every claim.
    let below = a.mutex("orders/0").unwrap().lock().await.unwrap();
    assert_eq!(java.ask("one", "mutex acquire /orders 500").await, "false", "Curator passed it over");
    let mut waiting = java.begin("one", "mutex acquire /orders 20000");
    crowd(&b, "orders", 1, 0).await;
    assert!(waiting.try_recv().is_err(), "Curator passed it over");
    // It is first among the claims, so we wait for it although it waits itself.
    assert!(b.mutex("orders").unwrap().try_lock().await.unwrap().is_none(), "two in one place");
    below.release().await;
    remove("foreign", "/orders/0").await;
    assert_eq!(answer(waiting).await, "true");
    assert_eq!(java.ask("one", "mutex release /orders").await, "released");
    // With nobody ahead of us we have it, and nobody beside us.
    let below = a.mutex("orders/0").unwrap().lock().await.unwrap();
    let guard = b.mutex("orders").unwrap().try_lock().await.unwrap().expect("a lock that nobody has");
    assert_eq!(java.ask("one", "mutex acquire /orders 500").await, "false", "two hold it");
    guard.release().await;
    below.release().await;
}

/// Deletes a folder at once that ZooKeeper would remove by and by.
async fn remove(chroot: &str, folder: &str) {
    let at = format!("{}/{chroot}", ensemble().connect_string());
    match zookeeper_client::Client::connect(&at).await.unwrap().delete(folder, None).await {
        // On a busy machine ZooKeeper is sometimes faster.
        Ok(()) | Err(zookeeper_client::Error::NoNode) => {}
        Err(said) => panic!("{folder}: {said}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_are_counted_together() {
    let Some((java, [a, b])) = scene("permits", TTL).await else { return };
    let (ours, theirs) = ("pool", "/pool");
    assert_eq!(java.ask("one", &format!("semaphore acquire {theirs} 3 2 1000")).await, "true");
    let one = a.semaphore(ours, 3).unwrap().permits(1).lock().await.unwrap();
    assert!(b.semaphore(ours, 3).unwrap().permits(1).try_lock().await.unwrap().is_none(), "four of three");
    assert_eq!(java.ask("one", &format!("semaphore acquire {theirs} 3 1 200")).await, "false");
    assert_eq!(java.ask("one", &format!("semaphore count {theirs} 3")).await, "3");
    // Ours wants two, and is not passed by one of theirs.
    let two = begin(b.semaphore(ours, 3).unwrap().permits(2));
    crowd(&a, ours, 3, 1).await;
    let mut later = java.begin("two", &format!("semaphore acquire {theirs} 3 1 20000"));
    crowd(&a, ours, 3, 2).await;
    assert_eq!(java.ask("one", &format!("semaphore release {theirs} 3")).await, "released");
    assert!(!two.is_finished() && later.try_recv().is_err(), "one is free, and two are wanted first");
    assert_eq!(java.ask("one", &format!("semaphore release {theirs} 3")).await, "released");
    let two = soon("our two permits", two).await.unwrap();
    assert!(later.try_recv().is_err(), "four of three");
    one.release().await;
    assert_eq!(answer(later).await, "true");
    two.release().await;
    assert_eq!(java.ask("two", &format!("semaphore release {theirs} 3")).await, "released");
    crowd(&a, ours, 0, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_java_program_that_dies_frees_its_lock_and_one_that_is_stuck_is_broken() {
    let Some((java, [a, b])) = scene("gone", BRIEF).await else { return };
    assert_eq!(java.ask("one", "mutex acquire /dies 0").await, "true");
    let waiter = begin(a.mutex("dies").unwrap());
    crowd(&b, "dies", 1, 1).await;
    java.signal(Signal::KILL);
    soon("the turn after a Java program died", waiter).await.unwrap().release().await;
    let url = format!("{}/gone", ensemble().connect_string());
    let java = tokio::task::block_in_place(|| Java::start(&url, TTL)).unwrap();
    assert_eq!(java.ask("one", "mutex acquire /stuck 0").await, "true");
    let name = Name::new("stuck").unwrap();
    let lines = b.survey(&Scope::Exact(name.clone())).await.unwrap();
    let place = &lines[0].places[0];
    assert!(matches!(place.state, PlaceState::Held { fence: Some(_), .. }), "{place:?}");
    // What Curator writes if nobody tells it: the address of its machine.
    assert!(place.claim.note.contains('.') || place.claim.note.contains(':'), "{place:?}");
    assert!(b.break_hold(&name, place.claim.id.tag(), "it is stuck").await.unwrap());
    let guard = a.mutex("stuck").unwrap().try_lock().await.unwrap();
    guard.expect("it was broken").release().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_session_ends_and_curator_gets_the_lock() {
    let Some((java, [a, b])) = scene("ends", TTL).await else { return };
    let guard = a.mutex("x").unwrap().lock().await.unwrap();
    let waiter = java.begin("one", "mutex acquire /x 20000");
    crowd(&b, "x", 1, 1).await;
    assert!(a.close(PATIENCE).await.left.is_empty());
    assert!(!guard.is_held());
    assert_eq!(answer(waiter).await, "true");
    assert!(b.mutex("x").unwrap().try_lock().await.unwrap().is_none());
    assert_eq!(java.ask("one", "mutex release /x").await, "released");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wish_of_curators_revoker_is_no_loss_and_does_not_hide_who_holds() {
    let Some((java, [a, b])) = scene("revoked", TTL).await else { return };
    let guard = a.mutex("x").unwrap().reason("backup").lock().await.unwrap();
    let raw =
        zookeeper_client::Client::connect(&format!("{}/revoked", ensemble().connect_string())).await.unwrap();
    let node = format!("/x/{}", raw.list_children("/x").await.unwrap()[0]);
    assert_eq!(java.ask("one", &format!("revoker ask {node}")).await, "asked");
    let restored = async {
        // Written by the wish, and by us after it.
        while raw.check_stat(&node).await.unwrap().unwrap().version < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon("who holds", restored).await;
    soon("the wish", guard.asked()).await;
    assert!(guard.confirm().await.unwrap());
    let line = b.inspect(&Name::new("x").unwrap()).await.unwrap().unwrap();
    assert_eq!((&*line.places[0].claim.note, line.places[0].claim.id.tag()), ("backup", guard.tag()));
    guard.release().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wish_of_ours_reaches_curators_listener() {
    let Some((java, [a, _])) = scene("revoking", TTL).await else { return };
    let name = Name::new("x").unwrap();
    assert_eq!(java.ask("one", "mutex revocable /x").await, "revocable");
    assert_eq!(java.ask("one", "mutex acquire /x 0").await, "true");
    assert_eq!(java.ask("one", "mutex revoked /x 0").await, "false");
    let line = a.inspect(&name).await.unwrap().unwrap();
    assert!(a.ask(&name, line.places[0].claim.id.tag()).await.unwrap());
    assert_eq!(java.ask("one", "mutex revoked /x 20000").await, "true");
    assert!(a.mutex("x").unwrap().try_lock().await.unwrap().is_none(), "a wish and no more");
    assert_eq!(java.ask("one", "mutex release /x").await, "released");
    // Their semaphores and latches hear no wishes, and have words of their own in their nodes.
    assert_eq!(java.ask("one", "semaphore acquire /pool 2 1 0").await, "true");
    assert_eq!(java.ask("one", "latch start /leader ana").await, "started");
    assert_eq!(java.ask("one", "latch await /leader 20000").await, "true");
    for name in ["pool", "leader"] {
        let name = Name::new(name).unwrap();
        let line = a.inspect(&name).await.unwrap().unwrap();
        let error = a.ask(&name, line.places[0].claim.id.tag()).await.unwrap_err();
        assert_eq!(error.kind(), bramah_core::ErrorKind::Unsupported);
    }
    assert_eq!(java.ask("one", "latch leader /leader").await, "ana");
    assert_eq!(java.ask("one", "latch close /leader").await, "closed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_election_is_curators_latch_if_the_url_says_so() {
    let Some((java, [a, _])) = scene("latch", TTL).await else { return };
    let url = format!("zookeeper://{}/latch?mutex=latch", ensemble().connect_string());
    let ours = open(&url).await;
    assert_eq!(java.ask("one", "latch start /leader ana").await, "started");
    assert_eq!(java.ask("one", "latch await /leader 20000").await, "true");
    let election = ours.election("leader").unwrap();
    assert_eq!(&*election.leader().await.unwrap().unwrap().value, "ana");
    assert!(election.try_campaign("bob").await.unwrap().is_none());
    // A mutex there would not see it, and is refused.
    let error = a.mutex("leader").unwrap().try_lock().await.unwrap_err();
    assert!(error.to_string().contains("mutex= in the url"), "{error}");
    let candidate = tokio::spawn(async move { election.campaign("bob").await.unwrap() });
    crowd(&ours, "leader", 1, 1).await;
    assert_eq!(java.ask("one", "latch close /leader").await, "closed");
    let leadership = soon("our lead", candidate).await.unwrap();
    assert_eq!(java.ask("one", "latch start /leader cy").await, "started");
    crowd(&ours, "leader", 1, 1).await;
    assert_eq!(java.ask("one", "latch leads /leader").await, "false");
    leadership.resign().await;
    assert_eq!(java.ask("one", "latch await /leader 20000").await, "true");
    assert_eq!(java.ask("one", "latch close /leader").await, "closed");
    crowd(&ours, "leader", 0, 0).await;
}
