//! Real failures of real servers, through the public API.
//!
//! What is asked of each: nobody holds beside another, fences rise, a loss is told before the next grant, and nothing is left
//! behind.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod stage;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bramah_core::{Engine, ErrorKind, Guard, Session};
use bramah_lab::{Fault, MariaDb as Server, Proxy, servers::Flavor};
use bramah_mysql::MySql;
use tokio::runtime::Handle;

use crate::stage::{SOON, connections, flavors, lock, lock_within, ready, session, until_waiting};

/// Eight tasks lock and release while `harm` is done again and again.
async fn counts_under(server: &Server, harm: impl Fn(&Server), times: usize) {
    let sessions = [
        session(&server.url(), Duration::from_secs(5)).await,
        session(&server.url(), Duration::from_secs(5)).await,
    ];
    bramah_conformance::counts_under(sessions, || harm(server), times).await.unwrap();
    let left = || match server.sql("SELECT COUNT(*) FROM bramah_locks")?.as_str() {
        "0" => Ok(()),
        left => Err(format!("{left} claims are left")),
    };
    bramah_lab::until("empty lines", SOON, left).unwrap();
}

/// Kills whatever each connection is at. One may have ended by itself.
fn kill(server: &Server, what: &str) {
    for connection in connections(server) {
        let _ = server.sql(&format!("KILL {what} {connection}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_are_killed_cost_nobody_the_count() {
    for flavor in flavors() {
        counts_under(&ready(flavor, &[]).await, |server| kill(server, "CONNECTION"), 8).await;
    }
}

/// On MySQL a procedure is missing for a moment, which is told.
#[tokio::test(flavor = "multi_thread")]
async fn who_runs_init_meanwhile_costs_nobody_the_count() {
    let harm = |server: &Server| {
        let init = async { MySql::from_url(&server.url()).unwrap().init().await.unwrap() };
        tokio::task::block_in_place(|| Handle::current().block_on(init));
    };
    counts_under(&ready(Flavor::MariaDb, &[]).await, harm, 8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_are_killed_leave_nothing_behind() {
    for flavor in flavors() {
        let harm = |server: &Server| (0..3).for_each(|_| kill(server, "QUERY"));
        counts_under(&ready(flavor, &[]).await, harm, 8).await;
    }
}

/// A procedure that is killed asks no handler: its transaction stays open, with the stripe that it has, until its connection
/// ends.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_killed_in_its_midst_keeps_no_stripe() {
    for flavor in flavors() {
        let server = Arc::new(ready(flavor, &[]).await);
        let ttl = Duration::from_secs(60);
        let (holder, other) = (session(&server.url(), ttl).await, session(&server.url(), ttl).await);
        let guard = lock(&holder, "slow").await;
        // Somebody else has the claim's row, so that the release waits for it after it has got the stripe.
        let visitor = server.clone();
        let visit = std::thread::spawn(move || {
            visitor.sql("START TRANSACTION; SELECT ticket FROM bramah_claims FOR UPDATE; DO SLEEP(3); COMMIT")
        });
        let seen = |signs: [&str; 2]| {
            let look = || {
                let rows = server.sql("SHOW PROCESSLIST")?;
                let row = rows.lines().find(|row| signs.iter().any(|sign| row.contains(sign)));
                let id = row.and_then(|row| row.split('\t').next());
                id.map(str::to_owned).ok_or_else(|| format!("not yet: {rows}"))
            };
            bramah_lab::until("a connection at that", SOON, look).unwrap()
        };
        seen(["User sleep", "DO SLEEP"]);
        let release = tokio::spawn(guard.release());
        let call = seen(["DELETE FROM bramah_claims", "CALL bramah_leave"]);
        server.sql(&format!("KILL QUERY {call}")).unwrap();
        visit.join().unwrap().unwrap();
        release.await.unwrap();
        lock(&other, "slow").await.release().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_forgets_no_lock_and_no_fence() {
    for flavor in flavors() {
        let server = ready(flavor, &[]).await;
        let ttl = Duration::from_secs(30);
        let (holder, other) = (session(&server.url(), ttl).await, session(&server.url(), ttl).await);
        for is_killed in [false, true] {
            let end = || if is_killed { server.kill() } else { server.stop().unwrap() };
            let guard = lock(&holder, "kept").await;
            let fence = guard.fence().unwrap();
            end();
            let error = other.mutex("kept").unwrap().try_lock().await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
            server.start_again().unwrap();
            assert!(
                other.mutex("kept").unwrap().try_lock().await.unwrap().is_none(),
                "the lock was forgotten"
            );
            assert!(guard.is_held());
            guard.confirm().await.unwrap();
            guard.release().await;
            let next = lock(&other, "kept").await;
            assert!(next.fence().unwrap() > fence);
            let fence = next.fence().unwrap();
            next.release().await;
            // The table is empty now, and the next ticket is still not an old one.
            assert_eq!(server.sql("SELECT COUNT(*) FROM bramah_claims").unwrap(), "0");
            end();
            server.start_again().unwrap();
            let next = lock(&holder, "kept").await;
            assert!(next.fence().unwrap() > fence, "{:?} after {fence:?}", next.fence());
            next.release().await;
        }
    }
}

/// The holder is cut off by the end of its server, which comes back only after the ttl.
#[tokio::test(flavor = "multi_thread")]
async fn a_holder_whose_server_is_away_for_too_long_knows_before_the_next_one_is_granted() {
    for flavor in flavors() {
        let server = ready(flavor, &[]).await;
        let ttl = Duration::from_secs(2);
        let (holder, other) = (session(&server.url(), ttl).await, session(&server.url(), ttl).await);
        let guard = lock(&holder, "away").await;
        server.kill();
        tokio::time::timeout(SOON, guard.lost()).await.expect("the loss is not told");
        server.start_again().unwrap();
        let next = lock(&other, "away").await;
        assert!(!guard.is_held() && next.fence() > guard.fence());
        next.release().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_cut_off_knows_before_the_next_one_is_granted() {
    for flavor in flavors() {
        let server = ready(flavor, &[]).await;
        let proxy = Proxy::to(&server.address()).unwrap();
        let ttl = Duration::from_secs(2);
        let far = session(&server.url_at(&proxy.address()), ttl).await;
        let near = session(&server.url(), ttl).await;
        let guard = lock(&far, "cut").await;
        let fence = guard.fence().unwrap();
        // Frozen: nothing passes, and nobody is told that it does not.
        proxy.requests(Fault::Hold);
        proxy.replies(Fault::Hold);
        let next = lock(&near, "cut").await;
        assert!(!guard.is_held(), "two believe to hold it");
        assert!(next.fence().unwrap() > fence);
        next.release().await;
        proxy.requests(Fault::Pass);
        proxy.replies(Fault::Pass);
        // The same session locks again, over new connections.
        lock(&far, "cut").await.release().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_frozen_is_unavailable_in_time() {
    for flavor in flavors() {
        let server = ready(flavor, &[]).await;
        let session = session(&server.url(), Duration::from_secs(6)).await;
        lock(&session, "before").await.release().await;
        server.freeze().unwrap();
        let error = session.mutex("frozen").unwrap().try_lock().await.unwrap_err();
        server.thaw().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("did not answer"), "{error}");
        lock(&session, "frozen").await.release().await;
    }
}

/// 10,000 held and 500 waiting, within the limits that a server has if nobody says more.
#[tokio::test(flavor = "multi_thread")]
async fn many_claims_need_few_connections() {
    for flavor in flavors() {
        let server = ready(flavor, &[("innodb_flush_log_at_trx_commit", "2"), ("sync_binlog", "0")]).await;
        let session = session(&server.url(), Duration::from_secs(30)).await;
        let mut guards = Vec::new();
        let mut tasks = tokio::task::JoinSet::new();
        for lane in 0..50 {
            let session = session.clone();
            tasks.spawn(async move {
                let mut held = Vec::new();
                for n in 0..200 {
                    held.push(lock(&session, &format!("many/{lane}/{n}")).await);
                }
                held
            });
        }
        while let Some(held) = tasks.join_next().await {
            guards.extend(held.unwrap());
        }
        assert_eq!(server.sql("SELECT COUNT(*) FROM bramah_claims WHERE held").unwrap(), "10000");
        let first = lock(&session, "one").await;
        let counter = Arc::new(AtomicU64::new(0));
        let mut waiters = tokio::task::JoinSet::new();
        for _ in 0..500 {
            let (session, counter) = (session.clone(), counter.clone());
            waiters.spawn(async move {
                // The last one waits for all the others.
                let guard = lock_within(SOON * 12, &session, "one").await;
                counter.fetch_add(1, Ordering::SeqCst);
                guard.release().await;
            });
        }
        until_waiting(&server, 500);
        let used = connections(&server).len();
        assert!(used <= 12, "{used} connections");
        first.release().await;
        while let Some(done) = waiters.join_next().await {
            done.unwrap();
        }
        assert_eq!(counter.load(Ordering::SeqCst), 500);
        assert!(guards.iter().all(Guard::is_held), "a lock was lost beside the others");
        drop(guards);
        assert_eq!(session.close(Duration::from_secs(60)).await.left, []);
    }
}

/// A killed statement has left nothing, and a session that opens has nobody else who would repeat it.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_opens_although_its_statements_are_killed() {
    for flavor in flavors() {
        let server = ready(flavor, &[]).await;
        // The first two that enter a session are killed in the midst of it, the third is not, and so on: over a connection that was idle
        // and over a new one. The count outlives a rollback.
        server
            .sql(
                "CREATE TABLE hits (n INT NOT NULL AUTO_INCREMENT PRIMARY KEY);\n\
                 DELIMITER ----\n\
                 CREATE TRIGGER hit BEFORE INSERT ON bramah_sessions FOR EACH ROW BEGIN \
                   INSERT INTO hits VALUES (NULL); \
                   IF LAST_INSERT_ID() % 3 > 0 THEN KILL QUERY CONNECTION_ID(); DO SLEEP(30); END IF; END\n----\n",
            )
            .unwrap();
        for (mode, hits) in [("table", "3"), ("session", "6")] {
            let engine: Arc<dyn Engine> =
                MySql::from_url(&format!("{}?mode={mode}&timeout=20s", server.url())).unwrap().into();
            let session = Session::builder(engine).open().await.unwrap();
            assert_eq!(server.sql("SELECT MAX(n) FROM hits").unwrap(), hits, "{flavor}, {mode}");
            lock(&session, "a").await.release().await;
            assert_eq!(session.close(SOON).await.left, []);
        }
    }
}
