//! Another server takes over.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod stage;

use std::time::Duration;

use bramah_core::ErrorKind;
use bramah_lab::{How, Postgres as Server};

use crate::stage::{SOON, lock, ready, session};

/// A server, and a standby that has every commit before it is answered.
async fn followed() -> (Server, Server) {
    let server = ready(&[]).await;
    let standby = server.standby().unwrap();
    server.sql("ALTER SYSTEM SET synchronous_standby_names = '*'").unwrap();
    server.sql("SELECT pg_reload_conf()").unwrap();
    let sync =
        || match server.sql("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'")?.as_str() {
            "1" => Ok(()),
            _ => Err("it does not follow yet".to_owned()),
        };
    bramah_lab::until("the standby to be synchronous", SOON, sync).unwrap();
    (server, standby)
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_failover_to_a_standby_that_had_everything_fences_rise() {
    let (server, standby) = followed().await;
    let ttl = Duration::from_secs(2);
    let first = session(&server.url(), ttl).await;
    let mut last = None;
    for _ in 0..20 {
        let guard = lock(&first, "failover").await;
        last = last.max(guard.fence());
        guard.release().await;
    }
    let guard = lock(&first, "failover").await;
    last = last.max(guard.fence());
    server.stop(How::Immediate).unwrap();
    standby.promote().unwrap();
    let second = session(&standby.url(), ttl).await;
    // The lock is known there, so it is not given before its time is up.
    let next = lock(&second, "failover").await;
    assert!(!guard.is_held(), "two believe to hold it");
    assert!(next.fence() > last, "{:?} after {last:?}", next.fence());
    next.release().await;
}

/// In session mode the locks are in the memory of the server that has gone, and the fences in a table.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_failover_session_mode_knows_no_lock_and_every_fence() {
    let (server, standby) = followed().await;
    let url = |server: &Server| format!("{}?mode=session", server.url());
    let ttl = Duration::from_secs(30);
    let first = session(&url(&server), ttl).await;
    for _ in 0..5 {
        lock(&first, "failover").await.release().await;
    }
    let guard = lock(&first, "failover").await;
    server.stop(How::Immediate).unwrap();
    standby.promote().unwrap();
    let second = session(&url(&standby), ttl).await;
    let next = second.mutex("failover").unwrap().try_lock().await.unwrap().expect("nobody has it there");
    assert!(next.fence() > guard.fence(), "{:?} after {:?}", next.fence(), guard.fence());
    tokio::time::timeout(SOON, guard.lost()).await.expect("the first one does not learn of it");
    next.release().await;
}

/// The negative control: what was not received is forgotten, the hold and its fence. Numbers are written ahead by 32.
#[tokio::test(flavor = "multi_thread")]
async fn after_a_failover_to_a_standby_that_lags_a_lock_is_given_twice_and_fences_repeat() {
    let server = ready(&[]).await;
    let standby = server.standby().unwrap();
    let ttl = Duration::from_secs(60);
    let first = session(&server.url(), ttl).await;
    let early = lock(&first, "early").await;
    let written = server.sql("SELECT pg_current_wal_insert_lsn()").unwrap();
    let replayed = || match standby.sql(&format!("SELECT pg_last_wal_replay_lsn() >= '{written}'"))?.as_str()
    {
        "t" => Ok(()),
        _ => Err("it has not".to_owned()),
    };
    bramah_lab::until("the standby to have what was written", SOON, replayed).unwrap();
    // It goes on, and is not followed any more.
    standby.sql("ALTER SYSTEM SET primary_conninfo = ''").unwrap();
    standby.sql("SELECT pg_reload_conf()").unwrap();
    let alone = || match server.sql("SELECT count(*) FROM pg_stat_replication")?.as_str() {
        "0" => Ok(()),
        _ => Err("it follows".to_owned()),
    };
    bramah_lab::until("the standby to lag", SOON, alone).unwrap();
    for _ in 0..40 {
        lock(&first, "late").await.release().await;
    }
    let late = lock(&first, "late").await;
    server.stop(How::Immediate).unwrap();
    standby.promote().unwrap();
    let second = session(&standby.url(), ttl).await;
    assert!(second.mutex("early").unwrap().try_lock().await.unwrap().is_none(), "what it had got is kept");
    let again =
        second.mutex("late").unwrap().try_lock().await.unwrap().expect("what it had not got is unknown");
    assert!(late.is_held(), "the first one cannot know");
    assert!(again.fence() <= late.fence(), "{:?} after {:?}", again.fence(), late.fence());
    assert!(again.fence() > early.fence());
    again.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_is_refused_until_it_is_promoted() {
    let server = ready(&[]).await;
    let standby = server.standby().unwrap();
    let open = async || {
        let engine: std::sync::Arc<dyn bramah_core::Engine> =
            bramah_postgres::Postgres::from_url(&standby.url()).unwrap().into();
        bramah_core::Session::builder(engine).open().await
    };
    let ready = || match standby.sql("SELECT max(version) FROM bramah_schema")?.as_str() {
        "3" => Ok(()),
        _ => Err("no tables yet".to_owned()),
    };
    bramah_lab::until("the tables on the standby", SOON, ready).unwrap();
    let error = open().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("point the url at the primary"), "{error}");
    server.stop(How::Immediate).unwrap();
    standby.promote().unwrap();
    open().await.unwrap();
}
