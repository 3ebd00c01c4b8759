//! A break is heard of before the next renewal, where the store can tell.

use std::time::Duration;

use bramah_core::{Memory, Session};

#[tokio::test]
async fn a_broken_hold_is_known_to_be_lost_at_once() -> bramah_core::Result<()> {
    let store = Memory::new();
    let (a, b) = (Session::open(store.clone()).await?, Session::open(store).await?);
    let guard = a.mutex("x")?.lock().await?;
    let other = a.mutex("y")?.lock().await?;
    assert!(b.break_hold(&guard.name(), guard.tag(), "a test").await?);
    // The next renewal is ten seconds away.
    assert!(tokio::time::timeout(Duration::from_secs(4), guard.lost()).await.is_ok(), "it does not know");
    assert!(!guard.is_held() && other.is_held());
    Ok(())
}
