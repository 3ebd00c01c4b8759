//! Holders that are asked to let go: at once by a message, and what is left of a wish.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use bramah_core::{ErrorKind, Name, Session};
use bramah_lab::{Redis as Server, servers::Flavor};
use bramah_redis::Redis;

const WITHIN: Duration = Duration::from_secs(20);
/// The next renewal is 100 seconds away.
const LONG: Duration = Duration::from_secs(300);

async fn open(server: &Server, layout: &str) -> Session {
    let engine = Redis::from_url(&format!("{}?layout={layout}", server.url())).unwrap();
    Session::builder(engine).ttl(LONG).open().await.unwrap()
}

/// The keys of wishes, with how long they are kept, ms.
fn wishes(server: &Server) -> Vec<(String, i64)> {
    let keys = server.cli(&["KEYS", "*asked*"]).unwrap();
    let left = |key: &str| server.cli(&["PTTL", key]).unwrap().parse().unwrap();
    keys.lines().filter(|key| !key.is_empty()).map(|key| (key.to_owned(), left(key))).collect()
}

#[tokio::test]
async fn a_holder_is_told_before_its_next_renewal() {
    let server = Server::start(Flavor::Redis7).unwrap();
    for layout in ["native", "plain"] {
        let (a, b) = (open(&server, layout).await, open(&server, layout).await);
        let guard = a.mutex("x").unwrap().lock().await.unwrap();
        let other = a.mutex("y").unwrap().lock().await.unwrap();
        assert!(b.ask(&guard.name(), guard.tag()).await.unwrap());
        tokio::time::timeout(WITHIN, guard.asked()).await.unwrap();
        assert!(guard.is_held() && !other.is_asked(), "{layout}");
    }
}

#[tokio::test]
async fn a_wish_is_one_key_that_ends_with_the_time_of_the_claim_or_with_the_session() {
    let server = Server::start(Flavor::Redis7).unwrap();
    for layout in ["native", "plain"] {
        let (a, b) = (open(&server, layout).await, open(&server, layout).await);
        let guard = a.mutex("x").unwrap().lock().await.unwrap();
        assert!(wishes(&server).is_empty(), "nobody has asked");
        let before = server.cli(&["GET", if layout == "native" { "bramah:{x}" } else { "x" }]).unwrap();
        for _ in 0..3 {
            assert!(b.ask(&guard.name(), guard.tag()).await.unwrap());
        }
        let found = wishes(&server);
        let [(key, left)] = &found[..] else { panic!("{layout}: {found:?}") };
        assert_eq!(*key, format!("bramah:session:{}:asked", a.id()));
        assert!((1..=300_000).contains(left), "{layout}: {left}");
        assert_eq!(server.cli(&["GET", key]).unwrap().len(), 12, "{layout}: it was noted again");
        let after = server.cli(&["GET", if layout == "native" { "bramah:{x}" } else { "x" }]).unwrap();
        assert_eq!(before, after, "{layout}: a wish changed the lock");
        // It is shown by no survey of the locks.
        let shown = b.survey(&bramah_core::Scope::All).await.unwrap();
        assert_eq!(shown.len(), 1, "{layout}: {shown:?}");
        guard.release().await;
        let _ = a.close(WITHIN).await;
        assert!(wishes(&server).is_empty(), "{layout}: it outlives its session");
    }
}

#[tokio::test]
async fn what_cannot_be_asked_is_refused_by_name() {
    let server = Server::start(Flavor::Redis7).unwrap();
    let name = Name::new("theirs").unwrap();
    server.cli(&["SET", "theirs", "token-of-another-client", "PX", "60000"]).unwrap();
    let session = open(&server, "plain").await;
    let line = session.inspect(&name).await.unwrap().unwrap();
    let tag = line.holders().next().unwrap().claim.id.tag();
    let error = session.ask(&name, tag).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    assert!(
        text.contains("Redis") && text.contains("another program") && text.contains("bramah break"),
        "{text}"
    );
    let session = open(&server, "redisson").await;
    let guard = session.mutex("ours").unwrap().lock().await.unwrap();
    let error = session.ask(&guard.name(), guard.tag()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("Redisson's layout"), "{error}");
    assert!(wishes(&server).is_empty());
}
