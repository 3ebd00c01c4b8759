//! Holders that are asked to let go: by their renewal, and what is left of a wish.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod stage;

use std::time::Duration;

use bramah_core::ErrorKind;
use stage::{SOON, flavors, lock, ready, session};

const TTL: Duration = Duration::from_secs(6);

#[tokio::test(flavor = "multi_thread")]
async fn a_holder_is_told_by_its_renewal_and_the_wish_does_not_stay() {
    for flavor in flavors() {
        let server = ready(flavor, &[]).await;
        let (a, b) = (session(&server.url(), TTL).await, session(&server.url(), TTL).await);
        let (guard, other) = (lock(&a, "x").await, lock(&a, "y").await);
        for _ in 0..2 {
            assert!(b.ask(&guard.name(), guard.tag()).await.unwrap());
            tokio::time::timeout(SOON, guard.asked()).await.unwrap();
        }
        assert!(guard.is_held() && !other.is_asked());
        assert_eq!(server.sql("SELECT COUNT(*) FROM bramah_wishes").unwrap(), "1");
        guard.release().await;
        assert!(b.ask(&other.name(), other.tag()).await.unwrap());
        let left = server.sql("SELECT COUNT(*) FROM bramah_wishes").unwrap();
        assert_eq!(left, "1", "that of the past claim stays");
        tokio::time::timeout(SOON, other.asked()).await.unwrap();
        let session = session(&format!("{}?mode=session", server.url()), TTL).await;
        let guard = lock(&session, "z").await;
        let error = session.ask(&guard.name(), guard.tag()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("session mode"), "{error}");
    }
}
