//! What is bounded and kept apart, and what is cleared away.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod stage;

use std::{sync::Arc, time::Duration};

use bramah_core::ErrorKind;
use bramah_lab::Postgres as Server;
use bramah_postgres::Postgres;

use crate::stage::{SOON, lock, ready, session};

/// Somebody has the locks of many names, and all of them are asked for: every connection for calls waits there.
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
                "BEGIN; SELECT pg_advisory_xact_lock(1651663213, hashtext('jam/' || n)) FROM generate_series(0, 63) n; \
                 SELECT pg_sleep(60); COMMIT",
            )
        });
        let asleep = || match server
            .sql("SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")?
            .as_str()
        {
            "1" => Ok(()),
            _ => Err("not yet".to_owned()),
        };
        bramah_lab::until("somebody to have the name", SOON, asleep).unwrap();
        let mut askers = tokio::task::JoinSet::new();
        for n in 0..64 {
            let mutex = session.mutex(format!("jam/{n}")).unwrap();
            askers.spawn(async move {
                loop {
                    let asked = mutex.try_lock().await;
                    assert!(!matches!(asked, Ok(Some(_))), "it is given while its name is taken");
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

    /// How many calls wait for the name.
    fn waiting(&self) -> usize {
        let text = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'bramah' AND wait_event = 'advisory'";
        self.server.sql(text).unwrap().parse().unwrap()
    }

    async fn end(mut self) {
        self.askers.abort_all();
        while let Some(ended) = self.askers.join_next().await {
            assert!(ended.unwrap_err().is_cancelled(), "one that asked has failed");
        }
        let text =
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        assert_eq!(self.server.sql(text).unwrap(), "1");
        self.visit.join().unwrap().unwrap_err();
    }
}

/// Renewals have connections that calls cannot take.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_is_kept_while_every_connection_for_calls_is_taken() {
    let server = Arc::new(ready(&[]).await);
    let url = format!("{}?pool=2&timeout=20s", server.url());
    let session = session(&url, Duration::from_secs(3)).await;
    let guard = lock(&session, "kept").await;
    let jam = Jam::begin(&server, &url, 2).await;
    let until = || server.sql("SELECT until FROM bramah_claims WHERE name = 'kept'");
    let before = until().unwrap();
    let renewed = || {
        let question = format!(
            "SELECT until > '{before}'::timestamptz + interval '6 s' FROM bramah_claims WHERE name = 'kept'"
        );
        match server.sql(&question)?.as_str() {
            "t" => Ok(()),
            other => Err(format!("{other:?}")),
        }
    };
    bramah_lab::until("two ttls of renewals", SOON, renewed).unwrap();
    jam.is_full(2);
    assert!(guard.is_held());
    jam.end().await;
    guard.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn there_are_never_more_connections_than_the_pool_those_that_renew_and_one_that_listens() {
    let server = Arc::new(ready(&[]).await);
    let url = format!("{}?pool=3&timeout=20s", server.url());
    let jam = Jam::begin(&server, &url, 3).await;
    for _ in 0..20 {
        let used =
            server.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'bramah'").unwrap();
        assert!((3..=3 + 4 + 1).contains(&used.parse().unwrap()), "{used} connections");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    jam.end().await;
}

/// Sixty processes died a while ago, each with a lock and one behind it: more than one sweep takes.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_dead_have_left_is_cleared_away_by_those_who_open() {
    let server = ready(&[]).await;
    server
        .sql(
            "SELECT bramah_open(lpad(to_hex(n), 32, '0')::uuid, 'dead'), \
                    bramah_enter('dead/' || n, lpad(to_hex(n), 32, '0')::uuid, 1, 1, 1, 30000, 30000, NULL, '', 'l'), \
                    bramah_enter('dead/' || n, lpad(to_hex(n), 32, '0')::uuid, 2, 1, 1, 30000, 30000, NULL, '', 'l') \
               FROM generate_series(1, 60) n; \
             UPDATE bramah_claims SET until = until - interval '1 minute'; \
             UPDATE bramah_sessions SET until = until - interval '2 hours'",
        )
        .unwrap();
    let left = || server.sql("SELECT count(*) FROM bramah_claims").unwrap();
    assert_eq!(left(), "120");
    let opened = [session(&server.url(), SOON).await, session(&server.url(), SOON).await];
    assert_eq!(left(), "0");
    assert_eq!(server.sql("SELECT count(*) FROM bramah_sessions WHERE about = 'dead'").unwrap(), "0");
    drop(opened);
}

/// Each line of the dead takes half a second, and there are more than a session waits for that opens.
#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_that_takes_long_is_left_to_the_next_one() {
    let server = ready(&[]).await;
    server
        .sql(
            "SELECT bramah_enter('dead/' || n, lpad(to_hex(n), 32, '0')::uuid, 1, 1, 1, 30000, 30000, NULL, '', 'l') \
               FROM generate_series(1, 30) n; \
             UPDATE bramah_claims SET until = until - interval '1 minute'; \
             CREATE OR REPLACE FUNCTION bramah_nudge(p_name text) RETURNS void LANGUAGE sql AS $$ \
               SELECT pg_sleep(0.5); DELETE FROM bramah_claims WHERE name = p_name $$",
        )
        .unwrap();
    let opened = session(&format!("{}?timeout=2s", server.url()), SOON).await;
    let left = server.sql("SELECT count(*) FROM bramah_claims").unwrap().parse::<usize>().unwrap();
    assert!(left >= 30 - 4, "in two seconds four are cleared away, and not {}", 30 - left);
    drop(opened);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_init_at_once_do_not_collide() {
    let server = Server::start().unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 1..=6 {
        let postgres = Postgres::from_url(&format!("{}?pool={n}", server.url())).unwrap();
        tasks.spawn(async move { postgres.init().await });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap().unwrap();
    }
    let session = session(&server.url(), SOON).await;
    lock(&session, "ready").await.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_breaks_are_kept_for_a_week_and_then_cleared_away_a_few_at_a_time() {
    let server = ready(&[]).await;
    server
        .sql(
            "INSERT INTO bramah_breaks SELECT 'old/' || n, gen_random_uuid(), n, 'ana', '', clock_timestamp() - interval '8 days' \
               FROM generate_series(1, 120) n; \
             INSERT INTO bramah_breaks SELECT 'young/' || n, gen_random_uuid(), n, 'ana', '', clock_timestamp() - interval '6 days' \
               FROM generate_series(1, 10) n",
        )
        .unwrap();
    let left = |what: &str| {
        server.sql(&format!("SELECT count(*) FROM bramah_breaks WHERE name LIKE '{what}/%'")).unwrap()
    };
    for (mode, expected) in [("table", "70"), ("session", "20"), ("table", "0")] {
        let opened = session(&format!("{}?mode={mode}", server.url()), SOON).await;
        assert_eq!((left("old").as_str(), left("young").as_str()), (expected, "10"), "{mode}");
        drop(opened);
    }
}

/// A floor below the tickets says nothing any more. One above them does, and so does one of a line in which an older ticket waits.
#[tokio::test(flavor = "multi_thread")]
async fn a_floor_is_removed_when_no_fence_below_it_can_be_given() {
    let server = ready(&[]).await;
    let holder = session(&server.url(), SOON).await;
    let guard = lock(&holder, "busy").await;
    server.sql("SELECT setval('bramah_claims_ticket_seq', 1000)").unwrap();
    let last = lock(&holder, "last").await;
    assert_eq!(last.fence().unwrap().get(), 1001);
    server
        .sql(
            "INSERT INTO bramah_floors VALUES ('old', 1001), ('new', 1002), ('busy', 500), ('entering', 500)",
        )
        .unwrap();
    // Somebody is entering, and has drawn a ticket that nobody sees yet.
    let mut console = server.console().unwrap();
    let entering = "BEGIN; SELECT pg_advisory_xact_lock(1651663213, hashtext('entering'))::text;";
    assert_eq!(console.ask(entering).unwrap(), "");
    let floors = || server.sql("SELECT name FROM bramah_floors ORDER BY name").unwrap();
    drop(session(&server.url(), SOON).await);
    assert_eq!(floors(), "busy\nentering\nnew");
    console.ask("COMMIT; SELECT 1;").unwrap();
    drop(session(&server.url(), SOON).await);
    assert_eq!(floors(), "busy\nnew");
    guard.release().await;
    // The next fences are above what was asked for, with or without a floor.
    let fence = async |name: &str| {
        let guard = lock(&holder, name).await;
        let fence = guard.fence().unwrap().get();
        guard.release().await;
        fence
    };
    assert!(fence("old").await > 1001 && fence("new").await > 1002 && fence("busy").await > 500);
    last.release().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_the_database_cannot_hold_is_invalid() {
    let server = Server::start().unwrap();
    for encoding in ["LATIN1", "SQL_ASCII"] {
        server
            .sql(&format!(
                "CREATE DATABASE {encoding} OWNER bramah ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
            ))
            .unwrap();
        for mode in ["table", "session"] {
            let url = server.url();
            let url = url.strip_suffix("bramah").unwrap();
            let url = format!("{url}{}?mode={mode}", encoding.to_lowercase());
            Postgres::from_url(&url).unwrap().init().await.unwrap();
            let session = session(&url, SOON).await;
            for name in ["é", "€"] {
                match session.mutex(name).unwrap().try_lock().await {
                    Ok(guard) => drop(guard.unwrap().release().await),
                    Err(error) => {
                        assert!((encoding, name) == ("LATIN1", "€"), "{encoding}, {name}: {error}");
                        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
                        assert!(error.to_string().contains("the encoding of this database"), "{error}");
                    }
                }
            }
            assert_eq!(session.close(SOON).await.left, []);
        }
    }
}
