//! Many who wait for one lock: all are served, in order, and nobody is woken in vain.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod lab;

use std::{sync::Arc, time::Duration};

use bramah_core::{
    About, Claim, ClaimId, Engine, Exit, Keep, Keeper, Name, Opening, Session, SessionId, Standing, Wait,
    Wake,
};
use bramah_lab::{Etcd as Server, servers::Flavor};
use lab::{SOON, engine, until_free, url};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};

/// So many that a line is not read as a whole any more.
const CROWD: usize = 300;

async fn enter(engine: &Arc<dyn Engine>, name: &str) -> (Arc<Claim>, Option<Wake>) {
    let (session, ttl) = (SessionId::random().unwrap(), Duration::from_secs(60));
    engine.open(Arc::new(Opening::new(session, ttl, Keep::Process, About::this_process()))).await.unwrap();
    let claim = Arc::new(Claim {
        id: ClaimId { session, seq: 1 },
        name: Name::new(name).unwrap(),
        capacity: 1,
        weight: 1,
        wait: Wait::Line,
        again: false,
        floor: None,
        ttl,
        lease: None,
        note: "".into(),
    });
    match engine.claim(claim.clone()).await.unwrap() {
        Standing::Held { .. } => (claim, None),
        Standing::Queued { wake, .. } => (claim, Some(wake)),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_is_served_in_order_and_each_release_wakes_one() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let engine = engine(&url(&server, &[0]));
    let (tell, mut told) = mpsc::unbounded_channel();
    let hear = |number: usize, wake: Wake| {
        let tell = tell.clone();
        tokio::spawn(async move {
            wake.await;
            let _ = tell.send(number);
        });
    };
    let mut claims = Vec::new();
    for number in 0..CROWD {
        let (claim, wake) = enter(&engine, "x").await;
        assert_eq!(wake.is_none(), number == 0, "the first holds it, and all others wait");
        if let Some(wake) = wake {
            hear(number, wake);
        }
        claims.push(claim);
    }
    // One that asks without having been told waits on, and one that gives up is no reason for anybody else to ask.
    let Standing::Queued { wake, .. } = engine.claim(Arc::new(claims[200].asking())).await.unwrap() else {
        panic!("it is not its turn")
    };
    hear(200, wake);
    engine.withdraw(claims[100].clone(), Exit::Own).await.unwrap();
    let mut wakes = 0;
    let mut turn = 0;
    let mut last = 0;
    loop {
        let mut next = turn + 1;
        if next == 100 {
            next += 1;
        }
        engine.withdraw(claims[turn].clone(), Exit::Own).await.unwrap();
        if next == CROWD {
            break;
        }
        loop {
            let number = timeout(SOON, told.recv()).await.expect("nobody is woken").unwrap();
            // A wake ends with its claim, and with the next question about it.
            if number <= turn || number == 100 || (number == 200 && next < 200) {
                continue;
            }
            wakes += 1;
            match engine.claim(Arc::new(claims[number].asking())).await.unwrap() {
                Standing::Held { fence, .. } => {
                    assert_eq!(number, next, "first come, first served");
                    assert!(fence.unwrap().get() > last, "fences rise");
                    last = fence.unwrap().get();
                    break;
                }
                Standing::Queued { wake, .. } => hear(number, wake),
                other => panic!("{number}: {other:?}"),
            }
        }
        turn = next;
    }
    assert!(wakes <= CROWD, "{wakes} were woken by {CROWD} releases");
    until_free(&server);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_sessions_of_a_process_share_their_threads() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let (engine, keeper) = (engine(&url(&server, &[0])), Keeper::spawn().unwrap());
    let open = || Session::builder(engine.clone()).ttl(Duration::from_secs(30)).keeper(keeper.clone()).open();
    let first = open().await.unwrap();
    let guard = first.mutex("x").unwrap().lock().await.unwrap();
    let before = threads();
    let mut tasks = JoinSet::new();
    for _ in 0..100 {
        let session = open().await.unwrap();
        tasks.spawn(async move {
            session.mutex("x").unwrap().lock().await.unwrap().release().await;
            session.close(SOON).await
        });
    }
    lab::waiting(&first, "x", 100).await;
    assert_eq!(threads(), before, "a session has no thread of its own");
    guard.release().await;
    while let Some(closed) = tasks.join_next().await {
        assert_eq!(closed.unwrap().left, []);
    }
    lab::settled(&server, [first]).await;
}

/// Those that serve locks: a runtime may start and end others as it likes.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default().trim().to_owned()
    };
    let mut names: Vec<String> = tasks.map(name).filter(|name| name.starts_with("bramah")).collect();
    names.sort();
    names
}
