//! Real failures of a real server, through the public API.
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
use bramah_lab::{Fault, How, Postgres as Server, Proxy};
use bramah_postgres::Postgres;

use crate::stage::{SOON, lock, lock_within, ready, session, until_waiting};

/// Eight tasks lock and release while `harm` is done again and again.
async fn counts_under(server: &Server, harm: impl Fn(&Server), times: usize) {
    let sessions = [
        session(&server.url(), Duration::from_secs(5)).await,
        session(&server.url(), Duration::from_secs(5)).await,
    ];
    bramah_conformance::counts_under(sessions, || harm(server), times).await.unwrap();
    let left =
        || match server.sql("SELECT count(*) FROM bramah_claims WHERE until > clock_timestamp()")?.as_str() {
            "0" => Ok(()),
            left => Err(format!("{left} claims are left")),
        };
    bramah_lab::until("empty lines", SOON, left).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn backends_that_are_terminated_cost_nobody_the_count() {
    let server = ready(&[]).await;
    let harm = |server: &Server| {
        server
            .sql("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'bramah'")
            .map(drop)
            .unwrap();
    };
    counts_under(&server, harm, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_that_are_cancelled_leave_nothing_behind() {
    let server = ready(&[]).await;
    let harm = |server: &Server| {
        // Whatever step each of them is at.
        for _ in 0..5 {
            server
                .sql("SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE application_name = 'bramah' AND state = 'active'")
                .map(drop)
                .unwrap();
        }
    };
    counts_under(&server, harm, 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_restarted_forgets_no_lock() {
    let server = ready(&[]).await;
    // A server that has just started may take long on a busy machine, and that is not the point.
    let url = format!("{}?timeout=20s&connect_timeout=20s", server.url());
    let (holder, other) =
        (session(&url, Duration::from_secs(60)).await, session(&url, Duration::from_secs(60)).await);
    for how in [How::Fast, How::Immediate] {
        let guard = lock(&holder, "kept").await;
        let fence = guard.fence().unwrap();
        server.stop(how).unwrap();
        let error = other.mutex("kept").unwrap().try_lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        server.start_again().unwrap();
        assert!(other.mutex("kept").unwrap().try_lock().await.unwrap().is_none(), "the lock was forgotten");
        assert!(guard.is_held());
        guard.confirm().await.unwrap();
        guard.release().await;
        let next = lock(&other, "kept").await;
        assert!(next.fence().unwrap() > fence);
        next.release().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_that_is_cut_off_knows_before_the_next_one_is_granted() {
    let server = ready(&[]).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_frozen_is_unavailable_in_time() {
    let server = ready(&[]).await;
    let session = session(&server.url(), Duration::from_secs(6)).await;
    lock(&session, "before").await.release().await;
    server.freeze().unwrap();
    let error = session.mutex("frozen").unwrap().try_lock().await.unwrap_err();
    server.thaw().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("did not answer"), "{error}");
    lock(&session, "frozen").await.release().await;
}

/// 10,000 held and 500 waiting, within the limits that a server has if nobody says more.
#[tokio::test(flavor = "multi_thread")]
async fn many_claims_need_few_connections() {
    let server = ready(&[]).await;
    let session = session(&server.url(), Duration::from_secs(60)).await;
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
    assert_eq!(server.sql("SELECT count(*) FROM bramah_claims WHERE held").unwrap(), "10000");
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
    let used = server.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'bramah'").unwrap();
    assert!(used.parse::<u32>().unwrap() <= 13, "{used} connections");
    first.release().await;
    while let Some(done) = waiters.join_next().await {
        done.unwrap();
    }
    assert_eq!(counter.load(Ordering::SeqCst), 500);
    assert!(guards.iter().all(Guard::is_held), "a lock was lost beside the others");
    drop(guards);
    assert_eq!(session.close(Duration::from_secs(30)).await.left, []);
}

/// Where a snapshot is older than the name's lock, two could see the same line as empty.
#[tokio::test(flavor = "multi_thread")]
async fn transactions_of_another_level_are_refused_by_the_functions_and_ours_say_which() {
    let server = ready(&[]).await;
    let id = "'00000000000000000000000000000001'";
    for call in [
        format!("bramah_leave('a', {id}, 1, NULL, NULL)"),
        format!("bramah_open({id}, '')"),
        format!("bramah_renew({id}, '{{1}}', '{{1000}}', '{{1000}}', 0, 9)"),
        "bramah_dead()".to_owned(),
    ] {
        let refused =
            server.sql(&format!("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT {call}")).unwrap_err();
        assert!(
            refused.contains("bramah needs transactions that read what was committed"),
            "{call}: {refused}"
        );
    }
    server.sql("ALTER ROLE bramah SET default_transaction_isolation = 'serializable'").unwrap();
    counts_under(&server, |_| (), 3).await;
    // Renewals have connections of their own.
    let session = session(&server.url(), Duration::from_secs(3)).await;
    let guard = lock(&session, "renewed").await;
    let until = server.sql("SELECT until FROM bramah_claims WHERE name = 'renewed'").unwrap();
    let renewed = || {
        let later = format!("SELECT until > '{until}'::timestamptz + interval '6 s' FROM bramah_claims");
        match server.sql(&later)?.as_str() {
            "t" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    bramah_lab::until("two ttls of renewals", SOON, renewed).unwrap();
    assert!(guard.is_held());
    guard.release().await;
}

/// A cancelled statement was rolled back, and a session that opens has nobody else who would repeat it.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_opens_although_its_first_statement_is_cancelled() {
    let server = ready(&[]).await;
    // The first that enters a session is cancelled in the midst of it, and then the second, and so on.
    server
        .sql(
            "CREATE SEQUENCE hits; \
             CREATE FUNCTION hit() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$ BEGIN \
               IF nextval('hits') % 2 = 1 THEN PERFORM pg_cancel_backend(pg_backend_pid()); PERFORM pg_sleep(30); END IF; \
               RETURN NEW; END $$; \
             CREATE TRIGGER hit BEFORE INSERT ON bramah_sessions FOR EACH ROW EXECUTE FUNCTION hit()",
        )
        .unwrap();
    for (mode, hits) in [("table", "2"), ("session", "4")] {
        let engine: Arc<dyn Engine> =
            Postgres::from_url(&format!("{}?mode={mode}&timeout=20s", server.url())).unwrap().into();
        let session = Session::builder(engine).open().await.unwrap();
        assert_eq!(server.sql("SELECT last_value FROM hits").unwrap(), hits, "{mode}");
        lock(&session, "a").await.release().await;
        assert_eq!(session.close(SOON).await.left, []);
    }
}
