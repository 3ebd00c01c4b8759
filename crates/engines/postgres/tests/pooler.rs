//! Behind a PgBouncer with its default settings.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod stage;

use std::time::Duration;

use bramah_lab::{PgBouncer, Pooling};
use bramah_postgres::checkup;

use crate::stage::{SOON, lock, ready, session, until_waiting};

const TTL: Duration = Duration::from_secs(30);

/// There it would stay on a connection that serves other clients.
#[tokio::test(flavor = "multi_thread")]
async fn no_listen_is_sent_through_a_transaction_pooler() {
    let server = ready(&[("log_statement", "all")]).await;
    let bouncer = PgBouncer::before(&server, Pooling::Transaction).unwrap();
    let facts = checkup::examine(&bouncer.url()).await.unwrap();
    assert_eq!(facts.is_told, Some(false));
    let session = session(&bouncer.url(), TTL).await;
    let guard = lock(&session, "a").await;
    let mutex = session.mutex("a").unwrap();
    let waiter = tokio::spawn(async move { mutex.lock().await.unwrap() });
    until_waiting(&server, 1);
    guard.release().await;
    tokio::time::timeout(SOON, waiter).await.expect("no grant").unwrap().release().await;
    assert_eq!(session.close(SOON).await.left, []);
    let log = server.log();
    assert!(log.contains("bramah_enter("), "statements are not logged");
    let sent: Vec<&str> = log.lines().filter(|line| line.contains("statement: LISTEN")).collect();
    assert!(sent.is_empty(), "{sent:?}");
}

/// There the connection is ours for as long as it lasts.
#[tokio::test(flavor = "multi_thread")]
async fn waiters_are_told_through_a_session_pooler() {
    let server = ready(&[("log_statement", "all")]).await;
    let bouncer = PgBouncer::before(&server, Pooling::Session).unwrap();
    let facts = checkup::examine(&bouncer.url()).await.unwrap();
    assert_eq!(facts.is_told, Some(true));
    let session = session(&bouncer.url(), TTL).await;
    lock(&session, "a").await.release().await;
    assert!(server.log().contains("statement: LISTEN \"bramah_"), "{}", server.log());
    assert_eq!(session.close(SOON).await.left, []);
}
