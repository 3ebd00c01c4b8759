//! Grants that count only when replicas have them.

use std::sync::Arc;

use bramah_core::{
    About, Claim, ClaimId, Engine, ErrorKind, Exit, Keep, Name, Opening, Release, Session, SessionId,
    Standing, Wait,
};
use bramah_lab::{
    Fault, Loss, Proxy, Redis as Server, Replicated, Signal,
    servers::{self, Flavor},
};

use bramah_redis::Redis;

use crate::rig::*;

/// A master, and two replicas that follow it through proxies.
struct Group {
    master: Server,
    replicas: [(Server, Proxy); 2],
}

impl Group {
    async fn start() -> Self {
        let master = server(&[]);
        let replicas = [(); 2].map(|()| {
            let proxy = Proxy::to(&master.address()).unwrap();
            let of = format!("127.0.0.1 {}", proxy.port());
            (server(&[("replicaof", &of)]), proxy)
        });
        let group = Self { master, replicas };
        group.await_sync().await;
        group
    }

    /// Waits until the master knows that both have everything.
    async fn await_sync(&self) {
        let mut wire = self.master.wire().unwrap();
        wire.call(&["SET", "something", "", "PX", "1"]).unwrap();
        assert_eq!(wire.call(&["WAIT", "2", "4000"]).unwrap().text(), "2");
    }

    async fn open(&self, layout: Layout, policy: &str) -> Session {
        open(&layout.url(&format!("{}?replicas={policy}", self.master.url())), ms(2400)).await
    }

    fn cut(&self, replicas: usize) {
        for (_, proxy) in &self.replicas[..replicas] {
            proxy.replies(Fault::Drop);
        }
    }
}

const POLICIES: [&str; 4] = ["any", "majority", "all", "2"];

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn with_enough_replicas_a_grant_comes_at_once_and_after_waiting() {
    on_all(|layout| async move {
        let group = Group::start().await;
        for policy in POLICIES {
            let (a, b) = (group.open(layout, policy).await, group.open(layout, policy).await);
            let ledger = Ledger::strict();
            for _ in 0..3 {
                let held = ledger.lock(&mutex(&a, "shown")).await;
                let waiting = wait_for(&ledger, &mutex(&b, "shown"));
                await_line(&group.master, layout, "shown", 2).await;
                assert_eq!(held.release().await, Release::Released);
                let next = waiting.await.unwrap();
                assert!(next.confirm().await.unwrap());
                assert_eq!(next.release().await, Release::Released);
            }
            close_all([a, b], &[&group.master]).await;
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_grant_that_too_few_replicas_have_is_withdrawn_and_told() {
    on_all(|layout| async move {
        let group = Group::start().await;
        let mut sessions = Vec::new();
        for policy in POLICIES {
            let session = group.open(layout, policy).await;
            // Each has seen both replicas, so it knows how many there are to be.
            Ledger::strict().lock(&mutex(&session, "short")).await.release().await;
            sessions.push((policy, session));
        }
        for (cut, content) in [(1, &["any", "majority"][..]), (2, &[])] {
            group.cut(cut);
            for (policy, session) in &sessions {
                let lock = mutex(session, "short");
                if content.contains(policy) {
                    let guard = lock.try_lock().await.unwrap().expect("one is enough");
                    assert_eq!(guard.release().await, Release::Released);
                    continue;
                }
                let began = now();
                let error = lock.try_lock().await.expect_err("too few replicas");
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                assert!(error.to_string().contains(&format!("replicas={policy}")), "{error}");
                let error = lock.lock_within(ms(1600)).await.expect_err("too few replicas");
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
                // A try is answered within a third of the ttl, and a wait ends when it is over.
                assert!(now().since(began) < ms(2400 * 4 / 3), "{:?}", now().since(began));
                eventually("nothing but sessions", PATIENCE, || {
                    let left = leftovers(&group.master)?;
                    if left.iter().all(|key| key.starts_with("bramah:session:")) {
                        return Ok(());
                    }
                    Err(format!("{left:?}"))
                })
                .await;
            }
        }
        for (_, proxy) in &group.replicas {
            proxy.replies(Fault::Pass);
            // What was dropped is missing in the middle of the stream: they have to begin anew.
            proxy.sever();
        }
        for (_, session) in &sessions {
            Ledger::strict().persist(&mutex(session, "short")).await.release().await;
        }
        let sessions: Vec<_> = sessions.into_iter().unzip::<_, _, Vec<_>, Vec<_>>().1;
        close_all(sessions, &[&group.master]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_pushed_grant_that_too_few_replicas_have_is_no_grant() {
    on_all(|layout| async move {
        let group = Group::start().await;
        let (a, b) = (group.open(layout, "all").await, group.open(layout, "all").await);
        let ledger = Ledger::strict();
        Ledger::strict().lock(&mutex(&b, "other")).await.release().await;
        let held = ledger.lock(&mutex(&a, "pushed")).await;
        let waiting = tokio::spawn({
            let lock = mutex(&b, "pushed");
            async move { lock.lock_within(ms(6000)).await }
        });
        await_line(&group.master, layout, "pushed", 2).await;
        group.cut(2);
        assert_eq!(held.release().await, Release::Released);
        let error = waiting.await.unwrap().expect_err("too few replicas");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        close_all([a, b], &[&group.master]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_question_that_too_few_replicas_have_heard_of_does_not_cost_the_lock() {
    on_all(|layout| async move {
        let group = Group::start().await;
        let (a, b) = (group.open(layout, "all").await, group.open(layout, "none").await);
        let ledger = Ledger::strict();
        let held = ledger.lock(&mutex(&a, "asked")).await;
        group.cut(2);
        let error = held.confirm().await.expect_err("too few replicas");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        if let Some(guard) = mutex(&b, "asked").try_lock().await.unwrap() {
            drop(ledger.granted(guard));
        }
        assert!(held.is_held(), "the store has it, and it was renewed");
        assert_eq!(held.release().await, Release::Released);
        close_all([a, b], &[&group.master]).await;
    })
    .await;
}

/// The flavors that are there. Redis 7.0 and later servers differ in what WAIT waits for on a new connection.
fn flavors() -> Vec<Flavor> {
    let has = |flavor: &Flavor| servers::get(*flavor).map_err(|why| servers::missing(*flavor, &why)).is_ok();
    Flavor::REDIS.into_iter().filter(has).collect()
}

/// Has the proxy end the connection of the next claim together with its answer.
fn hang_up_after_the_grant(proxy: &Proxy) {
    let mut armed = true;
    proxy.lose_replies_matching(Loss::HangUp, move |request| {
        let has = |word: &[u8]| request.windows(word.len()).any(|part| part == word);
        let claims = has(b"EVALSHA") && has(b"moved");
        let hit = armed && claims;
        armed &= !claims;
        hit
    });
}

/// A grant over a connection that has ended is not vouched for by another one.
async fn no_grant_survives_its_connection(flavor: Flavor, layout: Layout, policy: &str, failover: bool) {
    let [group, other] = [(); 2].map(|()| Replicated::start(flavor, 1).unwrap());
    let proxy = Proxy::to(&group.master().address()).unwrap();
    let url = layout.url(&format!("redis://{}?replicas={policy}", proxy.address()));
    let session = open(&url, ms(6000)).await;
    let lock = mutex(&session, "moved");
    // The scripts are known, the connection is made, and the replica was seen.
    drop(lock.try_lock().await.unwrap().expect("one replica has it"));
    eventually("a free lock", PATIENCE, || match group.master().call(&["DBSIZE"])?.text().as_str() {
        "0" => Err("nothing was written".into()),
        _ if leftovers(group.master())?.iter().all(|key| key.starts_with("bramah:session:")) => Ok(()),
        _ => Err("it is held".into()),
    })
    .await;
    if failover {
        proxy.redirect(&other.master().address()).unwrap();
    } else {
        group.replicas()[0].signal(Signal::STOP).unwrap();
    }
    hang_up_after_the_grant(&proxy);
    let got = lock.try_lock().await;
    assert_eq!(proxy.counts().lost, 1, "{flavor:?} {layout:?} {policy}: nothing happened to the grant");
    let error = got.expect_err("a grant that no replica has");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    let _ = session.close(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_grant_whose_connection_ends_before_the_replicas_are_asked_is_no_grant() {
    for flavor in flavors() {
        on_all(move |layout| async move {
            for policy in ["any", "all"] {
                no_grant_survives_its_connection(flavor, layout, policy, false).await;
            }
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_grant_of_a_master_that_was_replaced_behind_its_address_is_no_grant() {
    for flavor in flavors() {
        on_all(move |layout| async move {
            for policy in ["any", "all"] {
                no_grant_survives_its_connection(flavor, layout, policy, true).await;
            }
        })
        .await;
    }
}

/// A question about a claim with a lease may write nothing, and on a new connection WAIT waits for nothing then.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_question_over_a_new_connection_does_not_take_frozen_replicas_at_their_word() {
    for flavor in flavors() {
        let group = Replicated::start(flavor, 1).unwrap();
        let proxy = Proxy::to(&group.master().address()).unwrap();
        let a = open(&format!("redis://{}?replicas=any", proxy.address()), ms(2400)).await;
        let b = open(&group.master().url(), ms(2400)).await;
        let held = mutex(&a, "leased").lease(PATIENCE).lock().await.unwrap();
        let waiting = tokio::spawn({
            let lock = mutex(&b, "leased");
            async move { lock.lock().await }
        });
        await_line(group.master(), Layout::Native, "leased", 2).await;
        assert!(held.confirm().await.unwrap());
        group.replicas()[0].signal(Signal::STOP).unwrap();
        proxy.sever();
        for _ in 0..3 {
            let error = held.confirm().await.expect_err("no replica was heard of");
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{flavor:?}: {error}");
        }
        group.replicas()[0].signal(Signal::CONT).unwrap();
        assert_eq!(held.release().await, Release::Released);
        assert_eq!(waiting.await.unwrap().unwrap().release().await, Release::Released);
        close_all([a, b], &[group.master()]).await;
    }
}

/// How many replicas `error` says there are, and how many it says are wanted.
fn counts(error: &bramah_core::Error) -> (u64, u64) {
    let text = error.to_string();
    let after = |mark: &str| {
        let (_, rest) = text.split_once(mark).unwrap_or_else(|| panic!("no {mark:?} in {text}"));
        rest.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{text}"))
    };
    (after(" has "), after(" asks for "))
}

/// The wait is shorter than the time that replicas have, and longer than that.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_without_replicas_is_unavailable_within_the_wait_and_never_busy_with_our_own_claim() {
    on_all(|layout| async move {
        let alone = server(&[]);
        for (policy, wanted) in [("any", 1), ("majority", 1), ("all", 1), ("2", 2)] {
            let url = layout.url(&format!("{}?replicas={policy}", alone.url()));
            let session = open(&url, ms(6000)).await;
            let lock = mutex(&session, "alone");
            let error = lock.try_lock().await.expect_err("no replica");
            assert_eq!((error.kind(), counts(&error)), (ErrorKind::Unavailable, (0, wanted)), "{error}");
            for wait in [ms(300), ms(1500)] {
                let began = now();
                let error = lock.lock_within(wait).await.expect_err("no replica");
                assert_eq!((error.kind(), counts(&error)), (ErrorKind::Unavailable, (0, wanted)), "{error}");
                let took = now().since(began);
                assert!(took < wait + ms(1500), "{policy}, {wait:?}: {took:?}");
            }
            let began = now();
            let closed = session.close(PATIENCE).await;
            assert!(closed.left.is_empty(), "{closed:?}");
            // Nothing is in doubt: the grants were withdrawn, and the server said so.
            assert!(now().since(began) < ms(3000), "{policy}: {:?}", now().since(began));
        }
        let stats = alone.call(&["INFO", "commandstats"]).unwrap().text();
        assert!(
            stats.contains("cmdstat_role:") && !stats.contains("cmdstat_wait:"),
            "nobody is waited for: {stats}"
        );
        await_nothing_left(&[&alone]).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_wait_that_ends_while_frozen_replicas_are_asked_is_not_busy_with_our_own_claim() {
    on_all(|layout| async move {
        let group = Group::start().await;
        for (policy, wanted) in [("any", 1), ("majority", 1), ("all", 2), ("2", 2)] {
            let session = group.open(layout, policy).await;
            // Both were seen.
            Ledger::strict().persist(&mutex(&session, "slow")).await.release().await;
            for (replica, _) in &group.replicas {
                replica.signal(Signal::STOP).unwrap();
            }
            // Replicas have 400 ms to confirm.
            let error = mutex(&session, "slow").lock_within(ms(200)).await.expect_err("frozen replicas");
            for (replica, _) in &group.replicas {
                replica.signal(Signal::CONT).unwrap();
            }
            assert_eq!((error.kind(), counts(&error)), (ErrorKind::Unavailable, (2, wanted)), "{error}");
            assert!(error.to_string().contains(&format!("replicas={policy}")), "{error}");
            close_all([session], &[&group.master]).await;
        }
    })
    .await;
}

/// A withdrawal that was not answered may arrive late, and would end the same claim if that were entered again.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_claim_whose_withdrawal_was_not_answered_is_not_entered_again() {
    on_all(|layout| async move {
        let alone = server(&[]);
        let proxy = Proxy::to(&alone.address()).unwrap();
        let url = layout.url(&format!("redis://{}?replicas=any", proxy.address()));
        let engine: Arc<dyn Engine> = Arc::new(Redis::from_url(&url).unwrap());
        let (session, ttl) = (SessionId::random().unwrap(), ms(3000));
        let opening = Opening::new(session, ttl, Keep::Nobody, About::this_process());
        engine.open(Arc::new(opening)).await.unwrap();
        let claim = |seq| {
            Arc::new(Claim {
                id: ClaimId { session, seq },
                name: Name::new("late").unwrap(),
                capacity: 1,
                weight: 1,
                wait: Wait::No,
                again: false,
                floor: None,
                ttl,
                lease: None,
                note: "".into(),
            })
        };
        // The scripts are known after that, and the grant was withdrawn.
        let error = engine.claim(claim(1)).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Unavailable && error.had_no_effect(), "{error}");
        let mut asked = false;
        proxy.lose_replies_matching(Loss::Stall, move |request| {
            let has = |word: &[u8]| request.windows(word.len()).any(|part| part == word);
            let lose = asked && has(b"late");
            asked |= has(b"ROLE");
            lose
        });
        let error = engine.claim(claim(2)).await.unwrap_err();
        assert!(error.kind() == ErrorKind::Unavailable && !error.had_no_effect(), "{error}");
        proxy.lose_nothing();
        let again = engine.claim(claim(2)).await;
        assert!(matches!(again, Ok(Standing::Gone)), "{again:?}");
        engine.withdraw(claim(2), Exit::Own).await.unwrap();
        engine.close(session).await.unwrap();
    })
    .await;
}
