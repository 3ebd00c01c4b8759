//! Sessions by URL for code without async.

use std::{sync::Arc, time::Duration};

use bramah::{ErrorKind, blocking};
use bramah_lab::{Redis, servers::Flavor};

#[test]
fn a_session_is_opened_by_a_url_without_async() -> Result<(), Box<dyn std::error::Error>> {
    let server = Redis::start(Flavor::Redis7)?;
    let session = blocking::connect(&server.url())?;
    assert_eq!(session.session().store(), bramah::redacted(&server.url()));
    let guard = session.mutex("a")?.lock()?;
    let settings = bramah::Session::builder(blocking::engine(&server.url())?).ttl(Duration::from_secs(5));
    let other = blocking::Session::build(settings)?;
    assert_eq!(other.session().ttl(), Duration::from_secs(5));
    assert!(other.mutex("a")?.try_lock()?.is_none());
    guard.release();
    assert!(other.mutex("a")?.lock()?.is_held());
    Ok(())
}

#[test]
fn an_engine_of_every_store_is_made_outside_of_a_runtime() -> bramah::Result<()> {
    for url in [
        "memory:",
        "redis://127.0.0.1:1",
        "redis+cluster://127.0.0.1:1",
        "redlock://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3",
        "postgres://127.0.0.1:1/d",
        "postgres://127.0.0.1:1/d?mode=session",
        "mysql://127.0.0.1:1/d",
        "etcd://127.0.0.1:1",
        "zookeeper://127.0.0.1:1",
    ] {
        drop(Arc::clone(&blocking::engine(url)?));
    }
    assert_eq!(blocking::engine("gopher://h").err().map(|error| error.kind()), Some(ErrorKind::Unsupported));
    assert_eq!(blocking::connect("nonsense").err().map(|error| error.kind()), Some(ErrorKind::Invalid));
    Ok(())
}
