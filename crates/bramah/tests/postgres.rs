//! Through the URL alone: the tables are missing, are made, locks are taken, and the doctor says what it found.

use bramah::{ErrorKind, doctor::Severity};
use bramah_lab::{PgBouncer, Pooling, Postgres};

#[tokio::test]
async fn without_tables_it_says_what_to_run_and_afterwards_it_locks() {
    let server = Postgres::start().unwrap();
    let url = server.url();
    let error = bramah::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().ends_with("run bramah init"), "{error}");
    // Twice, and two at once.
    bramah::init(&url).await.unwrap();
    let (one, two) = tokio::join!(bramah::init(&url), bramah::init(&url));
    one.and(two).unwrap();
    // What a newer one has made is not spoiled by an older one.
    server.sql("INSERT INTO bramah_schema VALUES (99)").unwrap();
    let newer = bramah::init(&url).await.unwrap_err();
    assert!(newer.to_string().ends_with("this build speaks 3; use a newer bramah"), "{newer}");
    assert_eq!(bramah::connect(&url).await.unwrap_err().to_string(), newer.to_string());
    server.sql("DELETE FROM bramah_schema WHERE version = 99").unwrap();
    let session = bramah::connect(&url).await.unwrap();
    let guard = session.mutex("orders/42").unwrap().lock().await.unwrap();
    let shown = server.sql("SELECT name, held, fence FROM bramah_locks").unwrap();
    assert_eq!(shown, format!("orders/42|t|{}", guard.fence().unwrap().get()));
    guard.release().await;
    assert_eq!(server.sql("SELECT count(*) FROM bramah_claims").unwrap(), "0");
}

#[tokio::test]
async fn a_standby_is_refused_by_name() {
    let server = Postgres::start().unwrap();
    bramah::init(&server.url()).await.unwrap();
    let standby = server.standby().unwrap();
    bramah_lab::until("the tables on the standby", std::time::Duration::from_secs(20), || {
        standby.sql("SELECT 1 FROM bramah_schema").map(drop)
    })
    .unwrap();
    let error = bramah::connect(&standby.url()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains("takes no writes"), "{error}");
}

#[tokio::test]
async fn the_doctor_says_what_was_found() {
    let server = Postgres::start().unwrap();
    bramah::init(&server.url()).await.unwrap();
    let checkup = bramah::doctor::examine(&server.url()).await.unwrap();
    assert!(checkup.is_healthy() && checkup.times.is_some(), "{checkup:?}");
    let severity = |checkup: &bramah::doctor::Checkup, code: &str| {
        checkup.findings.iter().find(|finding| finding.code == code).map(|finding| finding.severity)
    };
    assert_eq!(severity(&checkup, "postgres.notify"), Some(Severity::Ok), "{checkup:?}");
    assert_eq!(severity(&checkup, "postgres.rights"), Some(Severity::Ok));
    let bouncer = PgBouncer::before(&server, Pooling::Transaction).unwrap();
    let checkup = bramah::doctor::examine(&bouncer.url()).await.unwrap();
    assert_eq!(severity(&checkup, "postgres.notify"), Some(Severity::Warning), "{checkup:?}");
    assert!(checkup.is_healthy(), "{checkup:?}");
}

#[tokio::test]
async fn in_session_mode_the_server_has_the_locks_and_the_doctor_leaves_nothing() {
    let server = Postgres::start().unwrap();
    let url = format!("{}?mode=session", server.url());
    let error = bramah::connect(&url).await.unwrap_err();
    assert!(error.to_string().ends_with("run bramah init"), "{error}");
    bramah::init(&url).await.unwrap();
    let checkup = bramah::doctor::examine(&url).await.unwrap();
    assert!(checkup.is_healthy() && checkup.times.is_some(), "{checkup:?}");
    assert!(checkup.findings.iter().any(|finding| finding.code == "postgres.room"), "{checkup:?}");
    assert_eq!(server.sql("SELECT count(*) FROM bramah_keys").unwrap(), "0");
    let session = bramah::connect(&url).await.unwrap();
    let guard = session.mutex("orders/42").unwrap().lock().await.unwrap();
    let held = "SELECT k.name, k.fence FROM bramah_advisory JOIN bramah_keys k USING (space, key)";
    assert_eq!(server.sql(held).unwrap(), "orders/42|1");
    guard.release().await;
    assert_eq!(server.sql(held).unwrap(), "");
    let bouncer = PgBouncer::before(&server, Pooling::Transaction).unwrap();
    let checkup = bramah::doctor::examine(&format!("{}?mode=session", bouncer.url())).await.unwrap();
    let found = checkup.findings.iter().find(|finding| finding.code == "store.lock").unwrap();
    assert_eq!(found.severity, Severity::Problem);
    assert!(found.text.contains("a pooler hands its connections out by transaction"), "{}", found.text);
}

/// As after half of a dump was restored, or somebody has tidied up.
#[tokio::test]
async fn half_a_schema_is_told_and_init_completes_it() {
    let server = Postgres::start().unwrap();
    bramah::init(&server.url()).await.unwrap();
    for (n, (drop, missing, mode, other)) in [
        ("DROP FUNCTION bramah_leave", "bramah_leave()", "table", "session"),
        ("DROP TABLE bramah_watchers", "bramah_watchers", "table", "session"),
        ("DROP FUNCTION bramah_tend", "bramah_tend()", "session", "table"),
        ("DROP VIEW bramah_advisory CASCADE", "bramah_advisory", "session", "table"),
        ("DELETE FROM bramah_schema", "did not finish", "table", ""),
    ]
    .into_iter()
    .enumerate()
    {
        server.sql(drop).unwrap();
        let url = |mode: &str| format!("{}?mode={mode}&pool={}", server.url(), n + 2);
        let error = bramah::connect(&url(mode)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        let said = error.to_string();
        assert!(said.contains(missing) && said.ends_with("run bramah init"), "{said}");
        let checkup = bramah::doctor::examine(&url(mode)).await.unwrap();
        let finding = checkup.findings.iter().find(|finding| finding.code == "postgres.schema").unwrap();
        assert!(finding.severity == Severity::Problem && finding.text == said, "{finding:?}");
        assert!(!checkup.is_healthy(), "{checkup:?}");
        if !other.is_empty() {
            assert!(bramah::doctor::examine(&url(other)).await.unwrap().is_healthy(), "{drop} hurts {other}");
        }
        bramah::init(&server.url()).await.unwrap();
        assert!(bramah::doctor::examine(&url(mode)).await.unwrap().is_healthy(), "after {drop}");
    }
}
