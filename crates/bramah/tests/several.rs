//! Locks on several stores at once: two Redis servers and files.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use bramah::{ErrorKind, Mutex, Release, Session, all};
use bramah_lab::{Redis as Server, Scratch, servers::Flavor};

const TTL: Duration = Duration::from_secs(4);
/// How long anything may take that is not what a test is about.
const PATIENCE: Duration = Duration::from_secs(30);

struct Scene {
    servers: [Server; 2],
    files: Scratch,
}

impl Scene {
    fn set() -> Self {
        let server = || Server::start(Flavor::Redis7).unwrap();
        Self { servers: [server(), server()], files: Scratch::new().unwrap() }
    }

    /// A mutex on each, of sessions of their own: as another process would have.
    async fn mutexes(&self) -> [Mutex; 3] {
        let [one, two] = &self.servers;
        let files = format!("file://{}", self.files.path().display());
        let mut mutexes = Vec::new();
        for (url, name) in [(one.url(), "b"), (two.url(), "b"), (files, "a")] {
            let engine = bramah::engine(&url).await.unwrap();
            let session = Session::builder(engine).store(&url).ttl(TTL).open().await.unwrap();
            mutexes.push(session.mutex(name).unwrap());
        }
        mutexes.try_into().unwrap()
    }
}

async fn is_free(mutex: &Mutex) -> bool {
    mutex.try_lock().await.unwrap().is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_or_nothing_and_released_in_reverse() {
    let scene = Scene::set();
    let (ours, theirs) = (scene.mutexes().await, scene.mutexes().await);
    let held = all(ours.clone()).lock().await.unwrap();
    assert!(held.is_held() && held.iter().all(|guard| guard.fence().is_some()));
    for mutex in &theirs {
        assert!(!is_free(mutex).await);
    }
    assert_eq!(held.release().await, [Release::Released; 3]);
    // One of them is taken: none is kept.
    for taken in 0..3 {
        let guard = theirs[taken].lock().await.unwrap();
        assert!(all(ours.clone()).try_lock().await.unwrap().is_none());
        let late = all(ours.clone()).lock_within(Duration::from_millis(100)).await.unwrap_err();
        assert_eq!(late.kind(), ErrorKind::Timeout, "{late}");
        for (at, mutex) in theirs.iter().enumerate().filter(|(at, _)| *at != taken) {
            tokio::time::timeout(PATIENCE, mutex.lock()).await.unwrap().unwrap().release().await;
            assert!(is_free(&ours[at]).await);
        }
        guard.release().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_callers_who_name_them_in_another_order_do_not_wait_for_each_other() {
    let scene = Scene::set();
    let (ours, theirs) = (scene.mutexes().await, scene.mutexes().await);
    let [a, b, c] = theirs;
    let callers = [ours.to_vec(), vec![c, b, a]].map(|mutexes| {
        tokio::spawn(async move {
            for _ in 0..20 {
                all(mutexes.clone()).lock().await.unwrap().release().await;
            }
        })
    });
    for caller in callers {
        tokio::time::timeout(PATIENCE, caller).await.unwrap().unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_are_lost_as_soon_as_one_is() {
    let scene = Scene::set();
    let (ours, theirs) = (scene.mutexes().await, scene.mutexes().await);
    let held = all(ours).lock().await.unwrap();
    scene.servers[1].kill();
    let work = held.keep(std::future::pending::<()>());
    let lost = tokio::time::timeout(PATIENCE, work).await.unwrap().unwrap_err();
    assert_eq!(lost.kind(), ErrorKind::Lost, "{lost}");
    assert!(!held.is_held());
    assert_eq!(
        held.iter().filter(|guard| guard.is_held()).count(),
        2,
        "the others are still ours to give back"
    );
    drop(held);
    for mutex in [&theirs[0], &theirs[2]] {
        tokio::time::timeout(PATIENCE, mutex.lock()).await.unwrap().unwrap().release().await;
    }
}
