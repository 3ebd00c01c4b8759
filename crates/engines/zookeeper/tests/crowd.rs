//! Many who wait for one lock: all are served, in order, and nobody is woken in vain.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{sync::Arc, time::Duration};

use bramah_core::{
    About, Claim, ClaimId, Engine, Exit, Keep, Look, Name, Opening, Scope, SessionId, Standing, Wait, Wake,
};
use bramah_lab::ZooKeeper as Server;
use bramah_zookeeper::{Config, ZooKeeper};
use tokio::{sync::mpsc, time::timeout};

const SOON: Duration = Duration::from_secs(40);

const CROWD: usize = 300;

/// So many stand in line, by turns of so many sessions.
async fn served(sessions: usize) {
    let server = Server::start(1).unwrap();
    let url = format!("zookeeper://{}/locks", server.connect_string());
    let engine: Arc<dyn Engine> = ZooKeeper::new(&Config::from_url(&url).unwrap()).unwrap().into();
    let (mut ids, mut ttl) = (Vec::new(), Duration::from_secs(30));
    for _ in 0..sessions {
        let session = SessionId::random().unwrap();
        let opening = Opening::new(session, ttl, Keep::Process, About::this_process());
        ttl = engine.open(Arc::new(opening)).await.unwrap();
        ids.push(session);
    }
    let claim = |number: usize| {
        Arc::new(Claim {
            id: ClaimId { session: ids[number % sessions], seq: number as u64 },
            name: Name::new("x").unwrap(),
            capacity: 1,
            weight: 1,
            wait: Wait::Line,
            again: false,
            floor: None,
            ttl,
            lease: None,
            note: "".into(),
        })
    };
    let claims: Vec<_> = (0..CROWD).map(claim).collect();
    let (tell, mut told) = mpsc::unbounded_channel();
    let hear = |number: usize, wake: Wake| {
        let tell = tell.clone();
        tokio::spawn(async move {
            wake.await;
            let _ = tell.send(number);
        });
    };
    for (number, claim) in claims.iter().enumerate() {
        match engine.claim(claim.clone()).await.unwrap() {
            Standing::Held { .. } => assert_eq!(number, 0, "one holds it"),
            Standing::Queued { wake, ahead, .. } => {
                assert_eq!(ahead, u32::try_from(number).ok());
                hear(number, wake);
            }
            other => panic!("{number}: {other:?}"),
        }
    }
    // One that asks without having been told waits on; one that gives up is a reason to ask for the one behind it alone.
    let Standing::Queued { wake, ahead, .. } = engine.claim(Arc::new(claims[200].asking())).await.unwrap()
    else {
        panic!("it is not its turn")
    };
    assert_eq!(ahead, Some(200));
    hear(200, wake);
    engine.withdraw(claims[100].clone(), Exit::Own).await.unwrap();
    let (mut wakes, mut last) = (0, 0);
    let order: Vec<usize> = (0..CROWD).filter(|number| *number != 100).collect();
    for turn in order.windows(2) {
        let [holder, next] = *turn else { break };
        engine.withdraw(claims[holder].clone(), Exit::Own).await.unwrap();
        loop {
            let number = timeout(SOON, told.recv()).await.expect("nobody is woken").unwrap();
            // A wake may end with its claim.
            if number <= holder || number == 100 {
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
    }
    assert!(wakes <= CROWD, "{wakes} were woken by {CROWD} releases");
    engine.withdraw(claims[CROWD - 1].clone(), Exit::Own).await.unwrap();
    let left = engine.survey(&Scope::All, Look::Once).await.unwrap();
    assert!(left.lines.is_empty(), "{:?}", left.lines);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_one_session_is_served_in_order_and_each_release_wakes_one() {
    served(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_several_sessions_is_served_in_order_and_each_release_wakes_one() {
    served(6).await;
}
