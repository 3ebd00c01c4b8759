//! What is told at once, and what is cleaned up at once: observers, sessions that nobody waited for, claims that were given up.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::{sync::Arc, time::Duration};

use bramah_core::{
    About, Claim, ClaimId, Clock, Engine, Exit, Fence, Keep, Look, Name, Opening, Reply, Scope, SessionId,
    Standing, Wait,
};
use bramah_lab::{Fault, Loss, Proxy, ZooKeeper as Server};
use bramah_zookeeper::{Config, ZooKeeper};
use tokio::time::timeout;
use zookeeper_client::Client;

const SOON: Duration = Duration::from_secs(40);

fn engine(address: &str) -> Arc<dyn Engine> {
    let url = format!("zookeeper://{address}/prompt?connect_timeout=20s");
    ZooKeeper::new(&Config::from_url(&url).unwrap()).unwrap().into()
}

fn opening(session: SessionId, ttl: Duration) -> Arc<Opening> {
    Arc::new(Opening::new(session, ttl, Keep::Process, About::this_process()))
}

fn claim(session: SessionId, seq: u64, name: &str, capacity: u32) -> Claim {
    Claim {
        id: ClaimId { session, seq },
        name: Name::new(name).unwrap(),
        capacity,
        weight: capacity,
        wait: Wait::Line,
        again: false,
        floor: None,
        ttl: Duration::from_secs(8),
        lease: None,
        note: "".into(),
    }
}

fn fence_of(standing: &Standing) -> Fence {
    match standing {
        Standing::Held { fence: Some(fence), .. } => *fence,
        other => panic!("{other:?}"),
    }
}

/// A session that holds all permits of `pool` and was not told, while the floor is at 2^60.
struct Unheard {
    server: Server,
    engine: Arc<dyn Engine>,
    session: SessionId,
    whole: Claim,
    _proxy: Proxy,
}

const FLOOR: Fence = Fence::new(1 << 60);

impl Unheard {
    async fn begin() -> Self {
        let server = Server::start(1).unwrap();
        let proxy = Proxy::to(&server.addresses()[0]).unwrap();
        let (engine, session) = (engine(&proxy.address()), SessionId::random().unwrap());
        engine.open(opening(session, Duration::from_secs(20))).await.unwrap();
        let held = claim(session, 1, "m", 1);
        fence_of(&engine.claim(Arc::new(held.clone())).await.unwrap());
        let raised = engine.claim(Arc::new(Claim { floor: Some(FLOOR), ..held.asking() })).await.unwrap();
        assert_eq!(fence_of(&raised), FLOOR);
        let mut lost = false;
        let draws = |bytes: &[u8]| bytes.windows(6).any(|window| window == b"lease-");
        // Reset, and not stalled: a connection that is silent for most of the session's time may cost the session on a busy machine.
        proxy.lose_replies_matching(Loss::Kill, move |bytes| {
            let first = !lost && draws(bytes);
            lost |= first;
            first
        });
        let whole = claim(session, 2, "pool", 3);
        let error = engine.claim(Arc::new(whole.clone())).await.expect_err("its answer was lost");
        assert!(error.kind().is_transient(), "{error}");
        proxy.lose_nothing();
        Self { server, engine, session, whole, _proxy: proxy }
    }
}

/// The answer, once the connection is there again.
async fn answered<T>(call: impl Fn() -> Reply<T>) -> T {
    let calls = async {
        loop {
            match call().await {
                Ok(answer) => return answer,
                Err(error) => assert!(error.kind().is_transient(), "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(SOON, calls).await.expect("an answer")
}

/// The floor was raised for another lock: fences are compared over all of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_permits_whose_answer_was_lost_have_a_fence_above_the_floor() {
    let Unheard { server: _server, engine, session, whole, _proxy } = Unheard::begin().await;
    let fence = fence_of(&answered(|| engine.claim(Arc::new(whole.asking()))).await);
    assert!(fence > FLOOR, "{fence:?} is not above {FLOOR:?}");
    let again = fence_of(&engine.claim(Arc::new(whole.asking())).await.unwrap());
    assert!(again >= fence);
    engine.withdraw(Arc::new(whole), Exit::Own).await.unwrap();
    engine.close(session).await.unwrap();
}

/// What is about to leave needs no fence, and to mint one could fail.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permits_whose_answer_was_lost_leave_without_a_fence() {
    let Unheard { server, engine, session, whole, _proxy } = Unheard::begin().await;
    let raw = Client::connect(&server.connect_string()).await.unwrap();
    let held = raw.list_children("/prompt/pool/leases").await.unwrap();
    assert_eq!(held.len(), 3, "it does not hold what it was not told of");
    answered(|| engine.withdraw(Arc::new(whole.clone()), Exit::Own)).await;
    assert_eq!(raw.list_children("/prompt/pool/leases").await.unwrap(), [""; 0]);
    let (floor, _) = raw.get_data("/prompt/%bramah/floor").await.unwrap();
    assert_eq!(String::from_utf8_lossy(&floor), FLOOR.get().to_string(), "a fence was minted for it");
    engine.close(session).await.unwrap();
}

/// The shortest of several, as a busy machine makes any of them long. One that is polled for takes 200 ms each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_watches_one_lock_is_told_of_each_change_at_once() {
    let server = Server::start(1).unwrap();
    let (engine, session) = (engine(&server.connect_string()), SessionId::random().unwrap());
    engine.open(opening(session, Duration::from_secs(8))).await.unwrap();
    let clock = Clock::boot();
    for (name, capacity) in [("leader", 1), ("pool", 3)] {
        let scope = Scope::Exact(Name::new(name).unwrap());
        let mut shortest = [Duration::MAX; 3];
        for round in 0..8 {
            let held = claim(session, round * 10 + u64::from(capacity), name, capacity);
            for (step, shortest) in shortest.iter_mut().enumerate() {
                let survey = engine.survey(&scope, Look::Watching).await.unwrap();
                // What is told of must be the change below, so the watch is set by now.
                tokio::time::sleep(Duration::from_millis(30)).await;
                let start = clock.now();
                match step {
                    0 => drop(engine.claim(Arc::new(held.clone())).await.unwrap()),
                    1 => {
                        let note = format!("round {round}").into();
                        drop(engine.claim(Arc::new(Claim { note, ..held.asking() })).await.unwrap());
                    }
                    _ => engine.withdraw(Arc::new(held.clone()), Exit::Own).await.unwrap(),
                }
                timeout(SOON, survey.wake).await.expect("told");
                *shortest = clock.now().since(start).min(*shortest);
            }
        }
        assert!(shortest.iter().all(|took| *took < Duration::from_millis(100)), "{name}: {shortest:?}");
    }
    engine.close(session).await.unwrap();
}

/// How many connections the server has, but for the one that asks.
fn connections(server: &Server) -> usize {
    let told = server.ask(0, "mntr").unwrap();
    let line = told.lines().find(|line| line.starts_with("zk_num_alive_connections")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Its ttl is ten minutes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_nobody_waited_for_is_closed() {
    let server = Server::with(1, &[("maxSessionTimeout", "1200000")]).unwrap();
    let engine = engine(&server.connect_string());
    let before = connections(&server);
    for polled in [false, true] {
        let mut reply = engine.open(opening(SessionId::random().unwrap(), Duration::from_secs(600)));
        if polled {
            let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(std::pin::Pin::new(&mut reply).poll(&mut cx).is_pending());
        }
        drop(reply);
    }
    let kept = SessionId::random().unwrap();
    engine.open(opening(kept, Duration::from_secs(600))).await.unwrap();
    let closed = || match connections(&server) {
        count if count == before + 1 => Ok(()),
        count => Err(format!("{count} connections, {before} before")),
    };
    bramah_lab::until("only the session that was waited for", SOON, closed).unwrap();
    // That one is not touched, nor one that was opened twice and waited for once.
    drop(engine.open(opening(kept, Duration::from_secs(600))));
    let held = engine.claim(Arc::new(claim(kept, 1, "x", 1))).await.unwrap();
    assert!(matches!(held, Standing::Held { .. }));
    assert_eq!(connections(&server), before + 1);
    engine.close(kept).await.unwrap();
}

/// A question takes a write. Whoever comes next must not wait for the answer that nobody wants.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_is_given_back_while_a_question_about_it_is_under_way() {
    let server = Server::start(1).unwrap();
    let proxy = Proxy::to(&server.addresses()[0]).unwrap();
    let (direct, delayed) = (engine(&server.connect_string()), engine(&proxy.address()));
    let (a, b) = (SessionId::random().unwrap(), SessionId::random().unwrap());
    direct.open(opening(a, Duration::from_secs(20))).await.unwrap();
    delayed.open(opening(b, Duration::from_secs(20))).await.unwrap();
    direct.claim(Arc::new(claim(a, 1, "x", 1))).await.unwrap();
    let waiting = claim(b, 1, "x", 1);
    let standing = delayed.claim(Arc::new(waiting.clone())).await.unwrap();
    assert!(matches!(standing, Standing::Queued { .. }), "{standing:?}");
    proxy.replies(Fault::Hold);
    // Calls of one engine are begun in their order.
    let question = tokio::spawn(delayed.claim(Arc::new(waiting.asking())));
    let withdrawal = tokio::spawn(delayed.withdraw(Arc::new(waiting), Exit::Own));
    let alone = async {
        let scope = Scope::Exact(Name::new("x").unwrap());
        while direct.survey(&scope, Look::Once).await.unwrap().lines[0].places.len() != 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    // Both calls end for their callers after a third of the ttl; the answers are held for longer.
    timeout(SOON, alone).await.expect("its place is free");
    proxy.replies(Fault::Pass);
    drop((question.await, withdrawal.await));
    delayed.close(b).await.unwrap();
    direct.close(a).await.unwrap();
}
