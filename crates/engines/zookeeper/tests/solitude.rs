//! A claim that is granted by its number alone, without a look at its line: only while nobody else can be in it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bramah_core::{Engine, Guard, Name, Session};
use bramah_lab::{Fault, Loss, Proxy, ZooKeeper as Server};
use bramah_zookeeper::ZooKeeper;
use tokio::{sync::MutexGuard, task::JoinHandle};
use zookeeper_client::{Acls, Client, CreateMode};

const SOON: Duration = Duration::from_secs(40);

const FOLDER: &str = "/solitude/x";

/// One test at a time: each has its own servers.
static TURN: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// One member, a session that can be cut off from it, and somebody else.
struct Scene {
    session: Session,
    proxy: Proxy,
    other: Client,
    _server: Server,
    _turn: MutexGuard<'static, ()>,
}

/// Somebody else's session, which a slow machine does not end.
async fn stranger(server: &Server) -> Client {
    Client::connector().with_session_timeout(SOON).connect(&server.connect_string()).await.unwrap()
}

impl Scene {
    async fn new() -> Self {
        let turn = TURN.lock().await;
        let server = tokio::task::block_in_place(|| Server::start(1)).unwrap();
        let proxy = Proxy::to(&server.connect_string()).unwrap();
        let url = format!("zookeeper://{}/solitude", proxy.address());
        let engine: Arc<dyn Engine> = ZooKeeper::from_url(&url).unwrap().into();
        let session = Session::builder(engine).ttl(Duration::from_secs(20)).open().await.unwrap();
        let other = stranger(&server).await;
        Self { session, proxy, other, _server: server, _turn: turn }
    }

    async fn pair(&self) {
        self.session.mutex("x").unwrap().lock().await.unwrap().release().await;
    }

    /// Uses the name until that it is ours alone is known. The number that the next claim gets.
    async fn use_it(&self) -> usize {
        self.pair().await;
        let number = self.other_claims().await;
        self.other_leaves(number).await;
        self.is_known().await;
        self.next().await
    }

    /// ZooKeeper tells how many children were created and deleted; nobody is there.
    async fn next(&self) -> usize {
        let stat = self.other.check_stat(FOLDER).await.unwrap().unwrap();
        assert_eq!(stat.num_children, 0);
        usize::try_from(stat.cversion).unwrap() / 2
    }

    /// Somebody was there, which is seen; and nobody since.
    async fn is_known(&self) {
        let asked = self.lists();
        self.pair().await;
        let looks = asked.load(Ordering::SeqCst);
        assert!(looks > 0, "the line of a name that somebody else has used is not looked at");
        self.pair().await;
        assert_eq!(asked.load(Ordering::SeqCst), looks, "the line of a name in use is looked at");
        self.proxy.lose_nothing();
    }

    /// Counts from now on how often children are listed.
    fn lists(&self) -> Arc<AtomicUsize> {
        let count = Arc::new(AtomicUsize::new(0));
        let seen = count.clone();
        self.proxy.lose_replies_matching(Loss::Kill, move |bytes| {
            seen.fetch_add(requests(bytes).filter(|code| matches!(code, 8 | 12)).count(), Ordering::SeqCst);
            false
        });
        count
    }

    /// Somebody else enters, as Curator does.
    async fn other_claims(&self) -> usize {
        let options = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());
        let (_, number) = self.other.create(&format!("{FOLDER}/lock-"), b"", &options).await.unwrap();
        usize::try_from(number.into_i64()).unwrap()
    }

    async fn other_leaves(&self, number: usize) {
        self.other.delete(&format!("{FOLDER}/lock-{number:010}"), None).await.unwrap();
    }

    /// Somebody deletes the folder, and makes it again; the next number in it is the one that would have come, and one of those before it
    /// holds the lock. Its number.
    async fn remade(&self, next: usize) -> usize {
        self.other.delete(FOLDER, None).await.unwrap();
        let folder = CreateMode::Persistent.with_acls(Acls::anyone_all());
        self.other.create(FOLDER, b"", &folder).await.unwrap();
        for number in 0..next {
            assert_eq!(self.other_claims().await, number);
        }
        for number in 1..next {
            self.other_leaves(number).await;
        }
        0
    }

    fn waiter(&self) -> JoinHandle<Guard> {
        let mutex = self.session.mutex("x").unwrap();
        tokio::spawn(async move { mutex.lock().await.unwrap() })
    }

    /// It stands in line, and is not granted.
    async fn in_line(&self, waiter: &JoinHandle<Guard>) {
        let name = Name::new("x").unwrap();
        let in_line = async {
            loop {
                let line = self.session.inspect(&name).await.unwrap();
                if line.is_some_and(|line| line.waiters().count() == 1) {
                    break;
                }
                assert!(!waiter.is_finished(), "it was granted beside another");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        tokio::time::timeout(SOON, in_line).await.expect("it does not stand in line");
        // A session is answered in order: by now it would have heard of its grant.
        for _ in 0..2 {
            self.session.mutex("y").unwrap().lock().await.unwrap().release().await;
        }
        assert!(!waiter.is_finished(), "it was granted beside another");
    }

    /// It waits for that one, with this number.
    async fn waits_for(&self, waiter: JoinHandle<Guard>, holder: usize, number: usize) {
        self.in_line(&waiter).await;
        let children = self.other.list_children(FOLDER).await.unwrap();
        let own = format!("-lock-{number:010}");
        assert!(children.iter().any(|child| child.ends_with(&own)), "not {own}: {children:?}");
        self.other_leaves(holder).await;
        let guard = tokio::time::timeout(SOON, waiter).await.expect("its turn does not come").unwrap();
        guard.release().await;
    }
}

/// The kinds of the requests in what a client sent.
fn requests(bytes: &[u8]) -> impl Iterator<Item = i32> + '_ {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let word = |at: usize| Some(i32::from_be_bytes(rest.get(at..at + 4)?.try_into().ok()?));
        let (length, code) = (usize::try_from(word(0)?).ok()?, word(8)?);
        rest = rest.get(4 + length..).unwrap_or_default();
        Some(code)
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_who_came_between_is_seen() {
    let scene = Scene::new().await;
    let next = scene.use_it().await;
    assert_eq!(scene.other_claims().await, next);
    scene.waits_for(scene.waiter(), next, next + 1).await;
    // One who came and went is nobody's obstacle.
    let number = scene.other_claims().await;
    scene.other_leaves(number).await;
    scene.is_known().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_was_made_anew_is_not_taken_for_the_old_one() {
    let scene = Scene::new().await;
    let next = scene.use_it().await;
    let holder = scene.remade(next).await;
    scene.waits_for(scene.waiter(), holder, next).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_was_made_anew_while_we_were_cut_off_is_not_taken_for_the_old_one() {
    let scene = Scene::new().await;
    let next = scene.use_it().await;
    scene.proxy.requests(Fault::Hold);
    scene.proxy.replies(Fault::Hold);
    let holder = scene.remade(next).await;
    scene.proxy.sever();
    scene.proxy.requests(Fault::Pass);
    scene.proxy.replies(Fault::Pass);
    scene.waits_for(scene.waiter(), holder, next).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_claim_of_the_same_session_waits_for_the_first() {
    let scene = Scene::new().await;
    scene.use_it().await;
    let guard = scene.session.mutex("x").unwrap().lock().await.unwrap();
    let waiter = scene.waiter();
    scene.in_line(&waiter).await;
    guard.release().await;
    tokio::time::timeout(SOON, waiter).await.expect("its turn does not come").unwrap().release().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_gave_up_behind_another_was_not_alone() {
    let scene = Scene::new().await;
    let next = scene.use_it().await;
    assert_eq!(scene.other_claims().await, next);
    let impatient = scene.waiter();
    scene.in_line(&impatient).await;
    impatient.abort();
    let left = async {
        while scene.other.list_children(FOLDER).await.unwrap().len() > 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, left).await.expect("it does not leave");
    scene.waits_for(scene.waiter(), next, next + 2).await;
}

/// Three use the name by turns, as chance has it, so that each believes now and then to be alone; and the folder is deleted whenever it can be.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_comes_and_goes_and_whatever_becomes_of_the_folder_one_is_in() {
    const TURNS: usize = 500;
    const DELETIONS: usize = 10;
    let _turn = TURN.lock().await;
    let server = tokio::task::block_in_place(|| Server::start(3)).unwrap();
    let (inside, last) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicU64::new(0)));
    let (turns, over) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let mut users = tokio::task::JoinSet::new();
    // Each at a member of its own, which tells of changes and answers as it comes to know of them.
    for address in server.addresses() {
        let engine: Arc<dyn Engine> =
            ZooKeeper::from_url(&format!("zookeeper://{address}/solitude")).unwrap().into();
        let session = Session::builder(engine).ttl(Duration::from_secs(20)).open().await.unwrap();
        let (mutex, inside, last) = (session.mutex("x").unwrap(), inside.clone(), last.clone());
        let (turns, over) = (turns.clone(), over.clone());
        users.spawn(async move {
            while !over.load(Ordering::SeqCst) {
                let guard = mutex.lock().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two are in");
                let fence = guard.fence().unwrap().get();
                assert!(fence > last.swap(fence, Ordering::SeqCst), "a fence fell");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await;
                turns.fetch_add(1, Ordering::SeqCst);
                // Some turns in a row, and then a while for the others.
                if fastrand::u8(..4) == 0 {
                    tokio::time::sleep(Duration::from_millis(fastrand::u64(..20))).await;
                }
            }
            session
        });
    }
    let other = stranger(&server).await;
    let enough = async {
        let mut deleted = 0;
        while deleted < DELETIONS || turns.load(Ordering::SeqCst) < TURNS {
            deleted += usize::from(other.delete(FOLDER, None).await.is_ok());
            let pause = Duration::from_millis(fastrand::u64(..10));
            // None of them ends by itself.
            if let Ok(Some(user)) = tokio::time::timeout(pause, users.join_next()).await {
                drop(user.unwrap());
            }
        }
    };
    tokio::time::timeout(2 * SOON, enough).await.expect("so many turns and deletions do not come");
    over.store(true, Ordering::SeqCst);
    while let Some(user) = tokio::time::timeout(SOON, users.join_next()).await.expect("one does not end") {
        drop(user.unwrap());
    }
}
