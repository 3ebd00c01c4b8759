//! What a renewal costs, how long rows about sessions are kept, when connections that rest are closed, and how older tables become ours.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod stage;

use std::{fmt::Write, sync::Arc, time::Duration};

use bramah_core::{
    About, Claim, ClaimId, Engine, ErrorKind, Keep, Look, Name, Opening, Scope, Session, SessionId, Wait,
};
use bramah_lab::{Postgres as Server, Proxy};
use bramah_postgres::Postgres;

use crate::stage::{SOON, lock, ready, session};

const HOUR: Duration = Duration::from_secs(3600);

/// What `bramah init` wrote before, by version.
const OLDER: [(&str, &str); 2] =
    [("1", include_str!("version1/postgres.sql")), ("2", include_str!("version2/postgres.sql"))];

/// Who is behind the holder of a lock.
async fn owner(engine: &Arc<dyn Engine>, name: &str) -> Option<Arc<About>> {
    let survey = engine.survey(&Scope::Exact(Name::new(name).unwrap()), Look::Once).await.unwrap();
    survey.lines[0].places[0].about.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_of_a_lock_that_was_left_is_known_until_it_ends() {
    let server = ready(&[]).await;
    let engine: Arc<dyn Engine> = Postgres::from_url(&server.url()).unwrap().into();
    let holder = Session::builder(engine.clone()).ttl(4 * HOUR).keep(Keep::Nobody).open().await.unwrap();
    let left = holder.mutex("freeze").unwrap().lock().await.unwrap().leave().await.unwrap();
    drop(holder);
    let later = |interval: &str| {
        server.sql(&format!("UPDATE bramah_sessions SET until = until - interval '{interval}'")).unwrap();
    };
    // Three times, as if hours had passed in between.
    for _ in 0..3 {
        later("2 hours");
        drop(session(&server.url(), SOON).await);
        assert!(owner(&engine, "freeze").await.is_some(), "its owner is unknown");
    }
    let known = || server.sql("SELECT count(*) FROM bramah_sessions").unwrap();
    let until =
        "SELECT bool_and(s.until >= c.until) FROM bramah_sessions s JOIN bramah_claims c USING (session)";
    assert_eq!(server.sql(until).unwrap(), "t", "its owner would be looked for again before it ends");
    assert!(left.release().await.unwrap());
    later("6 hours");
    let last = session(&server.url(), SOON).await;
    assert_eq!(known(), "1", "more than the last one is known");
    drop(last);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_session_leaves_no_row_behind() {
    let server = ready(&[]).await;
    for mode in ["table", "session"] {
        // With the default, a machine that stands still for two seconds would leave it to the next session that opens.
        let session = session(&format!("{}?mode={mode}&timeout=30s", server.url()), SOON).await;
        lock(&session, "one").await.release().await;
        assert_eq!(server.sql("SELECT count(*) FROM bramah_sessions").unwrap(), "1", "{mode}");
        assert_eq!(session.close(SOON).await.left, []);
        assert_eq!(server.sql("SELECT count(*) FROM bramah_sessions").unwrap(), "0", "{mode}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_opens_reads_few_of_many_rows_about_others() {
    let server = ready(&[]).await;
    server
        .sql(
            "INSERT INTO bramah_sessions SELECT gen_random_uuid(), 'lives', clock_timestamp() + interval '1 hour' \
               FROM generate_series(1, 20000); \
             INSERT INTO bramah_sessions SELECT gen_random_uuid(), 'dead', clock_timestamp() - interval '1 hour' \
               FROM generate_series(1, 120); \
             INSERT INTO bramah_watchers SELECT 'w/' || n, gen_random_uuid(), clock_timestamp() + interval '1 hour' \
               FROM generate_series(1, 20000) n; \
             ANALYZE bramah_sessions, bramah_watchers",
        )
        .unwrap();
    let count = |what: &str| -> u64 {
        let text = format!(
            "SELECT coalesce(sum({what}), 0) FROM pg_stat_user_tables WHERE relname IN ('bramah_sessions', 'bramah_watchers')"
        );
        server.sql(&text).unwrap().parse().unwrap()
    };
    let dead = || server.sql("SELECT count(*) FROM bramah_sessions WHERE about = 'dead'").unwrap();
    let (before, used) = (count("seq_tup_read"), count("idx_scan"));
    let opened = session(&server.url(), SOON).await;
    // Told by the server a while later, all of it together.
    let told = || if count("idx_scan") > used { Ok(()) } else { Err("not yet".to_owned()) };
    bramah_lab::until("the server's count of what was read", SOON, told).unwrap();
    assert!(count("seq_tup_read") - before < 20_000, "it has read a whole table");
    assert_eq!(dead(), "70", "a bounded number is cleared away");
    drop(opened);
}

/// A round of renewals for many claims has each of them once in its answers.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_renewal_answers_grows_with_the_claims_and_not_with_their_square() {
    const CLAIMS: u64 = 4_000;
    let server = ready(&[]).await;
    let proxy = Proxy::to(&server.address()).unwrap();
    let url = format!("{}?listen=off&timeout=30s", server.url_at(&proxy.address()));
    let engine: Arc<dyn Engine> = Postgres::from_url(&url).unwrap().into();
    let session = SessionId::random().unwrap();
    let opening = Opening::new(session, HOUR, Keep::Nobody, About::this_process());
    engine.open(Arc::new(opening)).await.unwrap();
    let claims = entered(&server, session, CLAIMS);
    let strays = entered(&server, session, CLAIMS + 3).split_off(4_000);
    let before = proxy.counts().replied;
    let renewal = engine.renew(session, claims.into()).await.unwrap();
    assert!(renewal.gone.is_empty() && renewal.unknown.is_empty() && renewal.waiting.is_empty());
    let mut found: Vec<u64> = renewal.stray.iter().map(|claim| claim.id.seq).collect();
    found.sort_unstable();
    let strays: Vec<u64> = strays.iter().map(|claim| claim.id.seq).collect();
    assert_eq!(found, strays, "strays are listed once");
    let answered = proxy.counts().replied - before;
    assert!(answered < CLAIMS * 200, "{answered} bytes for {CLAIMS} claims");
}

/// Claims of a session as if it had entered them, those that are missing.
fn entered(server: &Server, session: SessionId, count: u64) -> Vec<Arc<Claim>> {
    let mut text = String::new();
    write!(
        text,
        "INSERT INTO bramah_claims (name, session, seq, capacity, weight, held, entered, granted, until, ttl, kept, note) \
         SELECT 'many/' || n, '{session}', n, 1, 1, true, clock_timestamp(), clock_timestamp(), \
                clock_timestamp() + interval '1 hour', 3600000, 3600000, '' FROM generate_series(1, {count}) n \
         ON CONFLICT DO NOTHING"
    )
    .unwrap();
    server.sql(&text).unwrap();
    let claim = |seq: u64| Claim {
        id: ClaimId { session, seq },
        name: Name::new(format!("many/{seq}")).unwrap(),
        capacity: 1,
        weight: 1,
        wait: Wait::Line,
        again: true,
        floor: None,
        ttl: HOUR,
        lease: None,
        note: "".into(),
    };
    (1..=count).map(|seq| Arc::new(claim(seq))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn connections_that_rest_are_closed_without_another_call() {
    let server = ready(&[]).await;
    let url = format!("{}?pool_idle=200ms", server.url());
    let engine: Arc<dyn Engine> = Postgres::from_url(&url).unwrap().into();
    let session = Session::builder(engine.clone()).open().await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..20 {
        let session = session.clone();
        tasks.spawn(async move { lock(&session, &format!("rest/{n}")).await.release().await });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    assert_eq!(session.close(SOON).await.left, []);
    // The one that listens stays.
    let open = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'bramah' AND query NOT ILIKE '%LISTEN%'";
    let closed = || match server.sql(open)?.as_str() {
        "0" => Ok(()),
        some => Err(format!("{some} connections")),
    };
    bramah_lab::until("connections to be closed", Duration::from_secs(10), closed).unwrap();
    drop(engine);
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_older_versions_are_refused_and_init_brings_them_up_to_date() {
    for (version, schema) in OLDER {
        let server = Server::start().unwrap();
        // By the user whose tables they are. One is held there already.
        server
        .sql(&format!(
            "SET ROLE bramah; {schema}; \
             SELECT bramah_open('00000000000000000000000000000001', 'old'); \
             SELECT bramah_enter('kept', '00000000000000000000000000000001', 1, 1, 1, 600000, 600000, NULL, '', 'l')"
        ))
        .unwrap();
        let postgres = Postgres::from_url(&server.url()).unwrap();
        let engine: Arc<dyn Engine> = postgres.clone().into();
        let error = Session::builder(engine.clone()).open().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        let said = error.to_string();
        assert!(said.contains(&format!("version {version},")) && said.ends_with("run bramah init"), "{said}");
        postgres.init().await.unwrap();
        let session = Session::builder(engine).open().await.unwrap();
        assert!(
            session.mutex("kept").unwrap().try_lock().await.unwrap().is_none(),
            "what was held is forgotten"
        );
        lock(&session, "new").await.release().await;
        assert_eq!(session.close(SOON).await.left, []);
        let functions = "SELECT count(*) FROM pg_proc WHERE proname IN ('bramah_renew', 'bramah_advance', 'bramah_sweep')";
        assert_eq!(
            server.sql(functions).unwrap(),
            "3",
            "of older functions only the renewal is left, beside the new one"
        );
        let renewed = "SELECT count(*) FROM bramah_renew('00000000000000000000000000000001', '{1}', '{600000}', '{600000}') \
                    WHERE seq = 1 AND held AND asked";
        assert_eq!(server.sql(renewed).unwrap(), "1", "a client of version 1 can no longer renew");
        let indexes = "SELECT string_agg(indexname, ' ' ORDER BY indexname) FROM pg_indexes WHERE tablename = 'bramah_claims'";
        assert_eq!(
            server.sql(indexes).unwrap(),
            "bramah_claims_line bramah_claims_pkey",
            "version {version}"
        );
        let line = "SELECT indexdef LIKE '%(name, held, ticket)' FROM pg_indexes WHERE indexname = 'bramah_claims_line'";
        assert_eq!(server.sql(line).unwrap(), "t", "version {version}");
        postgres.init().await.unwrap();
    }
}

/// Whoever waits for the lock of a table has everybody wait behind it.
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_does_not_stop_renewals_behind_the_transaction_of_somebody_else() {
    let server = Server::start().unwrap();
    server.sql(&format!("SET ROLE bramah; {}", OLDER[1].1)).unwrap();
    let mut reader = server.console().unwrap();
    assert_eq!(reader.ask("BEGIN; SELECT count(*) FROM bramah_claims;").unwrap(), "0");
    let postgres = Postgres::from_url(&server.url()).unwrap();
    let init = tokio::spawn(async move { postgres.init().await });
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'bramah' AND wait_event_type = 'Lock'";
    let waits = || if server.sql(waits)? == "0" { Err("not yet".to_owned()) } else { Ok(()) };
    bramah_lab::until("init to wait for the tables", SOON, waits).unwrap();
    let renewal = "SET statement_timeout = '20s'; SELECT count(*) FROM \
                   bramah_renew('00000000000000000000000000000001', '{1}', '{600000}', '{600000}', 0, 9)";
    server.sql(renewal).unwrap();
    assert!(!init.is_finished(), "the tables are being read");
    reader.say("COMMIT;").unwrap();
    init.await.unwrap().unwrap();
    drop(session(&server.url(), SOON).await);
}
