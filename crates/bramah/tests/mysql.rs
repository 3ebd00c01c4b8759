//! Through the URL alone: the tables are missing, are made, locks are taken, and the doctor says what it found.

use bramah::{ErrorKind, doctor::Severity};
use bramah_lab::MariaDb;

#[tokio::test]
async fn without_tables_it_says_what_to_run_and_afterwards_it_locks() {
    let server = MariaDb::start().unwrap();
    let url = server.url();
    let error = bramah::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().ends_with("run bramah init"), "{error}");
    bramah::init(&url).await.unwrap();
    let (one, two) = tokio::join!(bramah::init(&url), bramah::init(&url));
    one.and(two).unwrap();
    // The other name of it.
    let session = bramah::connect(&url.replace("mysql:", "mariadb:")).await.unwrap();
    let guard = session.mutex("orders/42").unwrap().lock().await.unwrap();
    let shown = server.sql("SELECT name, held, fence FROM bramah_locks").unwrap();
    assert_eq!(
        shown.split_whitespace().collect::<Vec<_>>(),
        ["orders/42", "1", &guard.fence().unwrap().get().to_string()]
    );
    guard.release().await;
    assert_eq!(server.sql("SELECT COUNT(*) FROM bramah_claims").unwrap(), "0");
    let checkup = bramah::doctor::examine(&url).await.unwrap();
    assert!(checkup.is_healthy() && checkup.times.is_some(), "{checkup:?}");
    let durability = checkup.findings.iter().find(|finding| finding.code == "mysql.durability").unwrap();
    assert_eq!(durability.severity, Severity::Ok, "{checkup:?}");
}

#[tokio::test]
async fn what_init_would_run_is_a_script_for_the_servers_client() {
    let server = MariaDb::start().unwrap();
    server.sql_as_user(&bramah::schema("mysql://nowhere/d").unwrap()).unwrap();
    let session = bramah::connect(&server.url()).await.unwrap();
    session.mutex("a").unwrap().lock().await.unwrap().release().await;
    // And it is as init would have it.
    bramah::init(&server.url()).await.unwrap();
}

/// The rights that the docs list are enough, and without them it says what is missing.
#[tokio::test]
async fn a_user_that_may_only_lock_locks() {
    let server = MariaDb::start().unwrap();
    bramah::init(&server.url()).await.unwrap();
    server
        .sql("CREATE USER app@'127.0.0.1' IDENTIFIED BY 'pass'; GRANT SELECT ON bramah.* TO app@'127.0.0.1'")
        .unwrap();
    let url = format!("mysql://app:pass@{}/bramah", server.address());
    let error = bramah::connect(&url).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert!(
        error.to_string().contains("execute command denied") && !error.to_string().contains("pass"),
        "{error}"
    );
    server.sql("GRANT INSERT, UPDATE, DELETE, EXECUTE ON bramah.* TO app@'127.0.0.1'").unwrap();
    let session = bramah::connect(&url).await.unwrap();
    session.mutex("a").unwrap().lock().await.unwrap().release().await;
}
