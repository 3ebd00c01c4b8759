//! What a renewal costs, how long rows about sessions are kept, when connections that rest are closed, and how older tables become ours.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod stage;

use std::{sync::Arc, time::Duration};

use bramah_core::{
    About, Claim, ClaimId, Engine, ErrorKind, Keep, Look, Name, Opening, Scope, Session, SessionId, Wait,
};
use bramah_lab::{MariaDb as Server, Proxy};
use bramah_mysql::MySql;

use crate::stage::{SOON, connections, flavors, lock, ready, session};

const HOUR: Duration = Duration::from_secs(3600);

/// What `bramah init` wrote before.
const OLDER: [(&str, &str); 2] =
    [("1", include_str!("version1/mysql.sql")), ("2", include_str!("version2/mysql.sql"))];

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_of_a_lock_that_was_left_is_known_until_it_ends() {
    for flavor in flavors() {
        let server = ready(flavor, &[]).await;
        let engine: Arc<dyn Engine> = MySql::from_url(&server.url()).unwrap().into();
        let holder = Session::builder(engine.clone()).ttl(4 * HOUR).keep(Keep::Nobody).open().await.unwrap();
        let left = holder.mutex("freeze").unwrap().lock().await.unwrap().leave().await.unwrap();
        drop(holder);
        let later = |hours: u64| {
            let text = format!(
                "UPDATE bramah_sessions SET expires = expires - {}",
                hours * HOUR.as_secs() * 1_000_000
            );
            server.sql(&text).unwrap();
        };
        // Three times, as if hours had passed in between.
        for _ in 0..3 {
            later(2);
            drop(session(&server.url(), SOON).await);
            let scope = Scope::Exact(Name::new("freeze").unwrap());
            let survey = engine.survey(&scope, Look::Once).await.unwrap();
            assert!(survey.lines[0].places[0].about.is_some(), "its owner is unknown");
        }
        assert!(left.release().await.unwrap());
        later(6);
        let last = session(&server.url(), SOON).await;
        assert_eq!(server.sql("SELECT COUNT(*) FROM bramah_sessions").unwrap(), "1");
        drop(last);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_session_leaves_no_row_behind() {
    for flavor in flavors() {
        let server = ready(flavor, &[]).await;
        for mode in ["table", "session"] {
            // With the default, a machine that stands still for two seconds would leave it to the next session that opens.
            let session = session(&format!("{}?mode={mode}&timeout=30s", server.url()), SOON).await;
            lock(&session, "one").await.release().await;
            let rows = || server.sql("SELECT COUNT(*) FROM bramah_sessions").unwrap();
            assert_eq!(rows(), "1", "{mode}");
            assert_eq!(session.close(SOON).await.left, []);
            assert_eq!(rows(), "0", "{mode}");
        }
    }
}

/// A round of renewals for many claims has each of them once in its answers.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_renewal_answers_grows_with_the_claims_and_not_with_their_square() {
    const CLAIMS: u64 = 4_000;
    for flavor in flavors() {
        let server = ready(flavor, &[]).await;
        let proxy = Proxy::to(&server.address()).unwrap();
        let url = format!("{}?timeout=30s", server.url_at(&proxy.address()));
        let engine: Arc<dyn Engine> = MySql::from_url(&url).unwrap().into();
        let session = SessionId::random().unwrap();
        engine
            .open(Arc::new(Opening::new(session, HOUR, Keep::Nobody, About::this_process())))
            .await
            .unwrap();
        // Three more than it knows of.
        let claims = entered(&server, session, CLAIMS + 3);
        let before = proxy.counts().replied;
        let renewal = engine.renew(session, claims[..4_000].into()).await.unwrap();
        assert!(renewal.gone.is_empty() && renewal.unknown.is_empty() && renewal.waiting.is_empty());
        let mut found: Vec<u64> = renewal.stray.iter().map(|claim| claim.id.seq).collect();
        found.sort_unstable();
        assert_eq!(found, [CLAIMS + 1, CLAIMS + 2, CLAIMS + 3], "strays are listed once");
        let answered = proxy.counts().replied - before;
        assert!(answered < CLAIMS * 200, "{answered} bytes for {CLAIMS} claims");
    }
}

/// Claims of a session as if it had entered them.
fn entered(server: &Server, session: SessionId, count: u64) -> Vec<Arc<Claim>> {
    let now = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))";
    let rows: Vec<String> = (1..=count)
        .map(|n| {
            format!(
                "('many/{n}', UNHEX('{session}'), {n}, 1, 1, 1, {now}, {now}, {now} + 3600000000, 3600000, 3600000, '')"
            )
        })
        .collect();
    for rows in rows.chunks(1000) {
        let text = format!(
            "INSERT INTO bramah_claims (name, session, seq, capacity, weight, held, entered, granted, expires, ttl, kept, note) \
             VALUES {}",
            rows.join(", ")
        );
        server.sql(&text).unwrap();
    }
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
    for flavor in flavors() {
        let server = ready(flavor, &[]).await;
        let engine: Arc<dyn Engine> =
            MySql::from_url(&format!("{}?pool_idle=200ms", server.url())).unwrap().into();
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
        let closed = || match connections(&server).len() {
            0 => Ok(()),
            some => Err(format!("{some} connections")),
        };
        bramah_lab::until("connections to be closed", SOON, closed).unwrap();
        drop(engine);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_older_versions_are_refused_and_init_brings_them_up_to_date() {
    let each =
        flavors().into_iter().flat_map(|flavor| OLDER.map(|(version, schema)| (flavor, version, schema)));
    for (flavor, version, schema) in each {
        let server = Server::of(flavor, &[]).unwrap();
        // By the user whose tables and procedures they are.
        let mut console = server.console().unwrap();
        console.say(&format!("DELIMITER ----\n{schema}\n----\nDELIMITER ;")).unwrap();
        assert_eq!(console.ask("SELECT MAX(version) FROM bramah_schema;").unwrap(), version);
        // One is held there already.
        let held = "CALL bramah_open(UNHEX(LPAD('1', 32, '0')), 'old'); \
                    CALL bramah_enter('kept', UNHEX(LPAD('1', 32, '0')), 1, 1, 1, 600000, 600000, NULL, '', 'l')";
        server.sql(held).unwrap();
        let mysql = MySql::from_url(&server.url()).unwrap();
        let engine: Arc<dyn Engine> = mysql.clone().into();
        let error = Session::builder(engine.clone()).open().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        let said = error.to_string();
        assert!(said.contains(&format!("version {version},")) && said.ends_with("run bramah init"), "{said}");
        mysql.init().await.unwrap();
        let session = Session::builder(engine).open().await.unwrap();
        assert!(
            session.mutex("kept").unwrap().try_lock().await.unwrap().is_none(),
            "what was held is forgotten"
        );
        lock(&session, "new").await.release().await;
        assert_eq!(session.close(SOON).await.left, []);
        let keys = "SELECT COUNT(*) FROM information_schema.statistics \
                     WHERE table_schema = 'bramah' AND index_name = 'bramah_sessions_expires'";
        assert_eq!(server.sql(keys).unwrap(), "1");
        mysql.init().await.unwrap();
    }
}
