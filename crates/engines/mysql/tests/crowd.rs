//! Long lines: everybody is served in order, an ask costs the same whatever the length, and idle waiters cost next to nothing.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod stage;

use std::time::Duration;

use bramah_conformance::Crowd;
use bramah_lab::MariaDb as Server;

use crate::stage::{SOON, flavors, lock, ready, session, until_waiting};

const TTL: Duration = Duration::from_secs(30);

/// Engines of one process share their connections only if their urls are the same: these are like those of four processes.
#[tokio::test(flavor = "multi_thread")]
async fn a_crowd_of_four_processes_is_served_in_order_and_without_an_error() {
    const CROWD: usize = 1_200;
    for flavor in flavors() {
        let server = ready(flavor, &[]).await;
        let mut sessions = Vec::new();
        for pool in 5..9 {
            sessions.push(session(&format!("{}?pool={pool}", server.url()), TTL).await);
        }
        let crowd = Crowd::enter(&sessions, "crowd", CROWD).await.unwrap();
        until_waiting(&server, CROWD);
        crowd.serve().await.unwrap();
        for session in sessions {
            assert_eq!(session.close(SOON).await.left, []);
        }
    }
}

/// How many rows a connection has read.
fn handled(server: &Server, call: &str) -> u64 {
    let rows =
        server.sql(&format!("FLUSH STATUS; {call}; SHOW SESSION STATUS LIKE 'Handler_read_%'")).unwrap();
    let counts = rows
        .lines()
        .filter_map(|row| row.strip_prefix("Handler_read_")?.split('\t').nth(1)?.parse::<u64>().ok());
    counts.sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_reads_as_much_of_a_long_line_as_of_a_short_one() {
    for flavor in flavors() {
        let server = ready(flavor, &[]).await;
        let fill = |name: &str, session: u8, count: usize| {
            let now = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))";
            let rows: Vec<String> = (1..=count)
                .map(|n| {
                    format!(
                        "('{name}', UNHEX(LPAD('{session}', 32, '0')), {n}, 1, 1, {}, {now}, {now}, {now} + 3600000000, 3600000, 3600000, '')",
                        u8::from(n == 1)
                    )
                })
                .collect();
            for rows in rows.chunks(500) {
                server
                    .sql(&format!(
                        "INSERT INTO bramah_claims \
                         (name, session, seq, capacity, weight, held, entered, granted, expires, ttl, kept, note) VALUES {}",
                        rows.join(", ")
                    ))
                    .unwrap();
            }
        };
        let calls = |name: &str, session: u8, last: usize| {
            let session = format!("UNHEX(LPAD('{session}', 32, '0'))");
            [
                format!("CALL bramah_ask('{name}', {session}, {last}, 3600000, 3600000, '', NULL)"),
                format!("CALL bramah_ask('{name}', {session}, 1, 3600000, 3600000, '', NULL)"),
                format!(
                    "CALL bramah_enter('{name}', {session}, 9999, 1, 1, 3600000, 3600000, NULL, '', 'l')"
                ),
                format!("CALL bramah_leave('{name}', {session}, {last}, NULL, NULL)"),
                format!("CALL bramah_leave('{name}', {session}, 1, NULL, NULL)"),
            ]
        };
        fill("short", 1, 10);
        fill("long", 2, 5_000);
        for (short, long) in calls("short", 1, 10).iter().zip(calls("long", 2, 5_000)) {
            let (few, many) = (handled(&server, short), handled(&server, &long));
            assert!(few > 0 && many <= few + 64, "{flavor:?}: {long} reads {many} rows, {short} {few}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_waiters_of_a_process_are_one_question() {
    const CROWD: usize = 1_000;
    for flavor in flavors() {
        let server = ready(flavor, &[]).await;
        let session = session(&server.url(), TTL).await;
        let crowd = Crowd::enter(std::slice::from_ref(&session), "idle", CROWD).await.unwrap();
        until_waiting(&server, CROWD);
        let counted = |what: &str| -> u64 {
            let row = server.sql(&format!("SHOW GLOBAL STATUS LIKE '{what}'")).unwrap();
            row.split('\t').nth(1).unwrap().parse().unwrap()
        };
        // A renewal is one call, and its answer one row of a waiter: so many rounds have been.
        let expires = || -> u64 {
            server.sql("SELECT MIN(expires) FROM bramah_claims WHERE held = 0").unwrap().parse().unwrap()
        };
        let rounds = |count: u64| {
            for _ in 0..count {
                let last = expires();
                bramah_lab::until("a renewal", SOON, || {
                    if expires() > last { Ok(()) } else { Err("not yet".to_owned()) }
                })
                .unwrap();
            }
        };
        rounds(2);
        let before = counted("Com_call_procedure");
        rounds(4);
        let calls = counted("Com_call_procedure") - before;
        assert!(
            (4..=12).contains(&calls),
            "{calls} calls for {CROWD} idle waiters in four rounds of renewals"
        );
        crowd.serve().await.unwrap();
    }
}

/// Nobody tells a waiter behind the first, and it does not ask: the renewal finds it out.
#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_behind_the_first_learns_that_the_server_does_not_answer() {
    for flavor in flavors() {
        let server = ready(flavor, &[]).await;
        let mut sessions = Vec::new();
        for _ in 0..3 {
            sessions.push(session(&server.url(), TTL).await);
        }
        let guard = lock(&sessions[0], "behind").await;
        let mut waiters = tokio::task::JoinSet::new();
        for (ahead, session) in sessions[1..].iter().enumerate() {
            let mutex = session.mutex("behind").unwrap();
            waiters.spawn(async move { mutex.lock().await.unwrap().release().await });
            until_waiting(&server, ahead + 1);
        }
        server.freeze().unwrap();
        let told = || sessions[2].hindrance().map(|_| ()).ok_or_else(|| "not told".to_owned());
        let told = bramah_lab::until("the last waiter to learn of it", SOON, told);
        server.thaw().unwrap();
        told.unwrap();
        guard.release().await;
        waiters.abort_all();
    }
}
