//! What is bounded and kept apart, and what is cleared away.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod stage;

use std::{sync::Arc, time::Duration};

use bramah_lab::MariaDb as Server;

use crate::stage::{SOON, connections, flavors, lock, ready, session};

/// Somebody has all stripes, and many names are asked for: every connection for calls waits there.
struct Jam {
    server: Arc<Server>,
    visit: std::thread::JoinHandle<Result<String, String>>,
    askers: tokio::task::JoinSet<()>,
}

impl Jam {
    /// Those who ask have much time, and keep their connections for as long.
    async fn begin(server: &Arc<Server>, url: &str, pool: usize) -> Self {
        let session = session(url, Duration::from_secs(60)).await;
        let visitor = server.clone();
        let visit = std::thread::spawn(move || {
            visitor.sql(
                "START TRANSACTION; SELECT COUNT(*) FROM (SELECT stripe FROM bramah_stripes FOR UPDATE) s; \
                 DO SLEEP(60); COMMIT",
            )
        });
        let asleep = || match server.sql("SHOW PROCESSLIST")?.contains("DO SLEEP(60)") {
            true => Ok(()),
            false => Err("not yet".to_owned()),
        };
        bramah_lab::until("somebody to have the stripe", SOON, asleep).unwrap();
        let mut askers = tokio::task::JoinSet::new();
        for n in 0..64 {
            let mutex = session.mutex(format!("jam/{n}")).unwrap();
            askers.spawn(async move {
                loop {
                    let asked = mutex.try_lock().await;
                    assert!(!matches!(asked, Ok(Some(_))), "it is given while its stripe is taken");
                }
            });
        }
        let jam = Self { server: server.clone(), visit, askers };
        jam.is_full(pool);
        jam
    }

    /// Waits until every connection waits: one whose time is up is taken by the next, a moment later.
    fn is_full(&self, pool: usize) {
        let full = || {
            let waiting = self.waiting();
            if waiting >= pool { Ok(()) } else { Err(format!("{waiting} wait")) }
        };
        bramah_lab::until("every connection to wait", SOON, full).unwrap();
    }

    /// How many calls are under way.
    fn waiting(&self) -> usize {
        self.server
            .sql("SHOW PROCESSLIST")
            .unwrap()
            .lines()
            .filter(|row| row.contains("INSERT INTO bramah_stripes") || row.contains("CALL bramah_enter"))
            .count()
    }

    async fn end(mut self) {
        self.askers.abort_all();
        while let Some(ended) = self.askers.join_next().await {
            assert!(ended.unwrap_err().is_cancelled(), "one that asked has failed");
        }
        let rows = self.server.sql("SHOW PROCESSLIST").unwrap();
        let sleeper =
            rows.lines().find(|row| row.contains("SLEEP(60)")).and_then(|row| row.split('\t').next());
        self.server.sql(&format!("KILL {}", sleeper.unwrap())).unwrap();
        self.visit.join().unwrap().unwrap_err();
    }
}

/// Renewals have connections that calls cannot take.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_kept_while_every_connection_for_calls_is_taken() {
    for flavor in flavors() {
        let server = Arc::new(ready(flavor, &[]).await);
        let url = format!("{}?pool=2&timeout=20s", server.url());
        let session = session(&url, Duration::from_secs(3)).await;
        let guard = lock(&session, "kept").await;
        let jam = Jam::begin(&server, &url, 2).await;
        let expires = || -> Result<i64, String> {
            let expires = server.sql("SELECT expires FROM bramah_claims WHERE name = 'kept'")?;
            expires.parse().map_err(|_| format!("no claim: {expires}"))
        };
        let before = expires().unwrap();
        let renewed = || {
            let ahead = expires()? - before;
            if ahead > 6_000_000 { Ok(()) } else { Err(format!("{ahead} us ahead")) }
        };
        bramah_lab::until("two ttls of renewals", SOON, renewed).unwrap();
        jam.is_full(2);
        assert!(guard.is_held());
        jam.end().await;
        guard.release().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_never_more_connections_than_the_pool_and_those_that_renew() {
    for flavor in flavors() {
        let server = Arc::new(ready(flavor, &[]).await);
        let url = format!("{}?pool=3&timeout=20s", server.url());
        let jam = Jam::begin(&server, &url, 3).await;
        for _ in 0..20 {
            let used = connections(&server).len();
            assert!((3..=3 + 4).contains(&used), "{used} connections");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        jam.end().await;
    }
}

/// Sixty processes died a while ago, each with a lock and one behind it: more than one sweep takes.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_dead_have_left_is_cleared_away_by_those_who_open() {
    for flavor in flavors() {
        let server = ready(flavor, &[]).await;
        let mut text = String::new();
        for n in 1..=60 {
            text += &format!("CALL bramah_open(UNHEX('{n:032x}'), 'dead');");
            for seq in 1..=2 {
                text += &format!(
                    "CALL bramah_enter('dead/{n}', UNHEX('{n:032x}'), {seq}, 1, 1, 30000, 30000, NULL, '', 'l');"
                );
            }
        }
        text += "UPDATE bramah_claims SET expires = expires - 60000000; UPDATE bramah_sessions SET expires = expires - 7200000000;";
        server.sql(&text).unwrap();
        let left = || server.sql("SELECT COUNT(*) FROM bramah_claims").unwrap();
        assert_eq!(left(), "120");
        let opened = [session(&server.url(), SOON).await, session(&server.url(), SOON).await];
        assert_eq!(left(), "0");
        let dead = || server.sql("SELECT COUNT(*) FROM bramah_sessions WHERE about = 'dead'").unwrap();
        assert_eq!(dead(), "0");
        drop(opened);
    }
}

/// The time there.
const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))";

#[tokio::test(flavor = "multi_thread")]
async fn records_of_breaks_are_kept_for_a_week_and_then_cleared_away_a_few_at_a_time() {
    for flavor in flavors() {
        let server = ready(flavor, &[]).await;
        for (what, count, days) in [("old", 120, 8_u64), ("young", 10, 6)] {
            let age = days * 24 * 3600 * 1_000_000;
            let rows: Vec<String> = (1..=count)
                .map(|n| format!("('{what}/{n}', UNHEX(LPAD('1', 32, '0')), {n}, 'ana', '', {NOW} - {age})"))
                .collect();
            server.sql(&format!("INSERT INTO bramah_breaks VALUES {}", rows.join(", "))).unwrap();
        }
        let left = |what: &str| {
            server.sql(&format!("SELECT COUNT(*) FROM bramah_breaks WHERE name LIKE '{what}/%'")).unwrap()
        };
        for (mode, expected) in [("table", "70"), ("session", "20"), ("table", "0")] {
            let opened = session(&format!("{}?mode={mode}", server.url()), SOON).await;
            assert_eq!((left("old").as_str(), left("young").as_str()), (expected, "10"), "{flavor}, {mode}");
            drop(opened);
        }
    }
}

/// A floor below the tickets says nothing any more. One above them does, and so does one of a line in which an older ticket waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_floor_is_removed_when_no_fence_below_it_can_be_given() {
    for flavor in flavors() {
        let server = ready(flavor, &[]).await;
        let holder = session(&server.url(), SOON).await;
        let guard = lock(&holder, "busy").await;
        server.sql("ALTER TABLE bramah_claims AUTO_INCREMENT = 1001").unwrap();
        let last = lock(&holder, "last").await;
        assert_eq!(last.fence().unwrap().get(), 1001);
        server
            .sql("INSERT INTO bramah_floors VALUES ('old', 1001), ('new', 1002), ('busy', 500), ('entering', 500)")
            .unwrap();
        // Somebody is entering, and has drawn a ticket that nobody sees yet.
        let mut console = server.console().unwrap();
        let entering =
            "BEGIN; SELECT 1 FROM bramah_stripes WHERE stripe = CRC32('entering') % 1024 FOR UPDATE;";
        assert_eq!(console.ask(entering).unwrap(), "1");
        let floors = || server.sql("SELECT name FROM bramah_floors ORDER BY name").unwrap();
        drop(session(&server.url(), SOON).await);
        assert_eq!(floors(), "busy\nentering\nnew", "{flavor}");
        assert_eq!(console.ask("COMMIT; SELECT 2;").unwrap(), "2");
        drop(session(&server.url(), SOON).await);
        assert_eq!(floors(), "busy\nnew", "{flavor}");
        guard.release().await;
        // The next fences are above what was asked for, with or without a floor.
        for (name, floor) in [("old", 1001), ("new", 1002), ("busy", 500)] {
            let guard = lock(&holder, name).await;
            assert!(guard.fence().unwrap().get() > floor, "{flavor}, {name}");
            guard.release().await;
        }
        last.release().await;
    }
}
