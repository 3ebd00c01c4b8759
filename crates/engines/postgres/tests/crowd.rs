//! Long lines: everybody is served in order, an ask costs the same whatever the length, and idle waiters cost next to nothing.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod stage;

use std::time::Duration;

use bramah_conformance::Crowd;
use bramah_lab::Postgres as Server;

use crate::stage::{SOON, ready, session, until_waiting};

const TTL: Duration = Duration::from_secs(30);

/// What a table has behind it whose rows come and go: statistics that say that it is empty.
async fn used() -> Server {
    let server = ready(&[("log_statement", "all")]).await;
    server.sql("VACUUM ANALYZE bramah_claims").unwrap();
    server
}

/// Engines of one process share their connections only if their urls are the same: these are like those of four processes.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_four_processes_is_served_in_order_and_without_an_error() {
    const CROWD: usize = 1_200;
    let server = used().await;
    for listen in ["on", "off"] {
        let mut sessions = Vec::new();
        for pool in 5..9 {
            let url = format!("{}?pool={pool}&listen={listen}", server.url());
            sessions.push(session(&url, TTL).await);
        }
        let crowd = Crowd::enter(&sessions, "crowd", CROWD).await.unwrap();
        until_waiting(&server, CROWD);
        crowd.serve().await.unwrap();
        for session in sessions {
            assert_eq!(session.close(SOON).await.left, []);
        }
    }
}

/// Rows that a call reads, in a connection whose plans are from when the table was almost empty.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_reads_as_much_of_a_long_line_as_of_a_short_one() {
    let server = used().await;
    let fill = |name: &str, session: u8, count: usize| {
        server
            .sql(&format!(
                "INSERT INTO bramah_claims (name, session, seq, capacity, weight, held, entered, granted, until, ttl, kept, note) \
                 SELECT '{name}', '000000000000000000000000000000{session:02}', n, 1, 1, n = 1, clock_timestamp(), clock_timestamp(), \
                        clock_timestamp() + interval '1 hour', 3600000, 3600000, '' FROM generate_series(1, {count}) n"
            ))
            .unwrap();
    };
    let mut console = server.console().unwrap();
    let mut read = |call: &str| -> u64 {
        let mut ask = |text: &str| console.ask(text).unwrap();
        let count = "SELECT sum(seq_tup_read + idx_tup_fetch) FROM pg_stat_xact_user_tables WHERE relname = 'bramah_claims';";
        let before: u64 = ask(&format!("BEGIN; {count}")).parse().unwrap();
        assert_eq!(ask(&format!("SELECT 'called' FROM {call};")), "called");
        let after: u64 = ask(&format!("{count} ROLLBACK;")).parse().unwrap();
        after - before
    };
    let session = |session: u8| format!("'000000000000000000000000000000{session:02}'");
    let calls = |name: &str, of: u8, last: usize| {
        let session = session(of);
        [
            format!("bramah_ask('{name}', {session}, {last}, 1000, 1000, '', NULL)"),
            format!("bramah_ask('{name}', {session}, 1, 1000, 1000, '', NULL)"),
            format!("bramah_enter('{name}', {session}, 9999, 1, 1, 1000, 1000, NULL, '', 'l')"),
            format!("bramah_leave('{name}', {session}, 1, NULL, NULL)"),
            format!("bramah_leave('{name}', {session}, {last}, NULL, NULL)"),
        ]
    };
    // What is rolled back stays in the table for a while, so each line is measured once.
    fill("warm", 3, 10);
    for _ in 0..10 {
        for call in calls("warm", 3, 10) {
            read(&call);
        }
    }
    fill("short", 1, 10);
    let few: Vec<u64> = calls("short", 1, 10).iter().map(|call| read(call)).collect();
    fill("long", 2, 5_000);
    for ((call, few), short) in calls("long", 2, 5_000).iter().zip(few).zip(calls("short", 1, 10)) {
        let many = read(call);
        assert!(many <= few + 32, "{call} reads {many} rows, {short} {few}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_waiters_of_a_process_are_one_question() {
    const CROWD: usize = 1_000;
    let server = used().await;
    let session = session(&server.url(), TTL).await;
    let crowd = Crowd::enter(std::slice::from_ref(&session), "idle", CROWD).await.unwrap();
    until_waiting(&server, CROWD);
    let said = |what: &str| server.log().matches(what).count();
    let rounds = |count: usize| {
        let enough = said("bramah_renew(") + count;
        bramah_lab::until("renewals", SOON, || {
            if said("bramah_renew(") >= enough { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .unwrap();
    };
    // The first waiter may learn only now that it is the first.
    rounds(2);
    let before = said("statement: ");
    rounds(4);
    let statements = said("statement: ") - before;
    assert!(statements <= 20, "{statements} statements for {CROWD} idle waiters in four rounds of renewals");
    crowd.serve().await.unwrap();
}
