//! Holders that are asked to let go: at once by NOTIFY, and what is left of a wish.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod stage;

use std::time::Duration;

use bramah_core::ErrorKind;
use stage::{ready, session};

const WITHIN: Duration = Duration::from_secs(30);
/// The next renewal is 100 seconds away.
const LONG: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_is_told_before_its_next_renewal_and_the_wish_does_not_stay() {
    let server = ready(&[]).await;
    let (a, b) = (session(&server.url(), LONG).await, session(&server.url(), LONG).await);
    let (guard, other) =
        (a.mutex("x").unwrap().lock().await.unwrap(), a.mutex("y").unwrap().lock().await.unwrap());
    for _ in 0..2 {
        assert!(b.ask(&guard.name(), guard.tag()).await.unwrap());
        tokio::time::timeout(WITHIN, guard.asked()).await.unwrap();
    }
    assert!(guard.is_held() && !other.is_asked());
    assert_eq!(server.sql("SELECT count(*) FROM bramah_wishes").unwrap(), "1");
    guard.release().await;
    assert!(b.ask(&other.name(), other.tag()).await.unwrap());
    assert_eq!(
        server.sql("SELECT count(*) FROM bramah_wishes").unwrap(),
        "1",
        "that of the past claim stays"
    );
    tokio::time::timeout(WITHIN, other.asked()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn session_mode_refuses_by_name() {
    let server = ready(&[]).await;
    let session = session(&format!("{}?mode=session", server.url()), LONG).await;
    let guard = session.mutex("x").unwrap().lock().await.unwrap();
    let error = session.ask(&guard.name(), guard.tag()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(text.contains("session mode") && text.contains("bramah break"), "{text}");
}
