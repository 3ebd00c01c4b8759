//! The other objects of a `RedissonClient` that lock something.

use bramah_core::{ErrorKind, Name, Release, Session, all};
use bramah_lab::{Redis as Server, servers::Flavor};
use bramah_redis::redlock::Redlock;

use crate::stage::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn get_fair_lock() {
    let stage = Stage::enter().await;
    let session = stage.fair(ms(30_000)).await;
    let (queue, times) = ("redisson_lock_queue:{orders}", "redisson_lock_timeout:{orders}");
    assert_eq!(stage.java_lock("orders", JAVA, 30_000), None);
    let lock = mutex(&session, "orders");
    let waiting = stage.waiting(async move { lock.lock().await }).await;
    eventually("a place in the queue", || {
        if stage.number(&["LLEN", queue]) == 1 { Ok(()) } else { Err("it is empty".into()) }
    })
    .await;
    let ours = stage.cli(&["LINDEX", queue, "0"]);
    assert!(stage.number(&["ZSCORE", times, &ours]) > 0);
    // One of Redisson's behind.
    let theirs = JAVA.replace(":58", ":59");
    stage.cli(&["RPUSH", queue, &theirs]);
    stage.cli(&["ZADD", times, "9000000000000", &theirs]);
    let mut listener = stage.listen(&format!("redisson_lock__channel:{{orders}}:{theirs}"));

    stage.cli(&["DEL", "orders"]);
    stage.cli(&["PUBLISH", &format!("redisson_lock__channel:{{orders}}:{ours}"), "0"]);
    let guard = soon(waiting).await.unwrap().unwrap();
    assert_eq!(stage.holder("orders"), (ours, "1".to_owned()));
    assert_eq!(stage.lines(&["LRANGE", queue, "0", "-1"]), [theirs.as_str()]);
    assert!(mutex(&session, "orders").try_lock().await.unwrap().is_none());
    assert_eq!(guard.release().await, Release::Released);
    assert_eq!(listener.heard(), ["0"], "the next one is told");
    assert!(mutex(&session, "orders").try_lock().await.unwrap().is_none(), "it is the next one's turn");
    assert_eq!(session.rwlock("books").unwrap_err().kind(), ErrorKind::Unsupported);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn get_read_lock() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let books = session.rwlock("books").unwrap();
    let (one, two) = (books.read().await.unwrap(), books.read().await.unwrap());
    assert_eq!((stage.cli(&["HGET", "books", "mode"]), stage.number(&["HLEN", "books"])), ("read".into(), 3));
    let holds = stage.lines(&["KEYS", "{books}:*:rwlock_timeout:1"]);
    assert_eq!(holds.len(), 2);
    assert!(holds.iter().all(|hold| (25_000..=30_000).contains(&stage.pttl(hold))));
    assert_eq!(one.fence(), None);
    assert!(books.write().try_lock().await.unwrap().is_none());
    let writer = books.write();
    let waiting = stage.waiting(async move { writer.lock().await }).await;
    let three = books.read().try_lock().await.unwrap().expect("a writer that waits holds nobody back");
    three.release().await;
    waiting.abort();
    assert!(waiting.await.unwrap_err().is_cancelled());
    let mut listener = stage.listen("redisson_rwlock:{books}");
    one.release().await;
    assert_eq!(stage.lines(&["KEYS", "{books}:*"]).len(), 1);
    two.release().await;
    assert!(!stage.exists("books") && stage.cli(&["KEYS", "{books}:*"]).is_empty());
    assert_eq!(listener.heard(), ["0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn get_write_lock() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let books = session.rwlock("books").unwrap();
    let mut listener = stage.listen("redisson_rwlock:{books}");
    let guard = books.write().await.unwrap();
    assert_eq!(
        (stage.cli(&["HGET", "books", "mode"]), stage.number(&["HLEN", "books"])),
        ("write".into(), 2)
    );
    let fields = stage.lines(&["HKEYS", "books"]);
    assert!(fields.iter().any(|field| field.ends_with(":write")), "{fields:?}");
    assert_eq!(guard.fence().unwrap().get().to_string(), stage.cli(&["GET", "redisson_lock_token:{books}"]));
    assert!(books.read().try_lock().await.unwrap().is_none(), "also not for who writes");
    guard.release().await;
    assert!(!stage.exists("books"));
    assert_eq!(listener.heard(), ["1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn get_semaphore() {
    let stage = Stage::enter().await;
    let printers = stage.redis().redisson_semaphore("printers");
    assert!(printers.try_set_permits(3, None).await.unwrap());
    printers.acquire(2).await.unwrap();
    assert_eq!((stage.cli(&["GET", "printers"]), stage.pttl("printers")), ("1".into(), -1));
    assert!(!printers.try_acquire(2).await.unwrap());
    let mut listener = stage.listen("redisson_sc:{printers}");
    let waits = printers.clone();
    let waiting = stage.waiting(async move { waits.acquire_within(2, PATIENCE).await }).await;
    // As Redisson gives one back.
    assert_eq!(stage.number(&["INCRBY", "printers", "1"]), 2);
    stage.cli(&["PUBLISH", "redisson_sc:{printers}", "2"]);
    assert!(soon(waiting).await.unwrap().unwrap());
    printers.release(3).await.unwrap();
    assert_eq!(listener.heard(), ["2", "3"]);
    assert_eq!(printers.available_permits().await.unwrap(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn get_permit_expirable_semaphore() {
    let stage = Stage::enter().await;
    let seats = stage.redis().redisson_permits("seats");
    assert!(seats.try_set_permits(3).await.unwrap());
    let ids = seats.acquire(2, Some(ms(20_000))).await.unwrap();
    assert_eq!((stage.cli(&["GET", "seats"]), stage.number(&["ZCARD", "{seats}:timeout"])), ("1".into(), 2));
    assert!(seats.release(ids[0]).await.unwrap());
    assert!(!seats.release(ids[0]).await.unwrap(), "Redisson throws");
    assert_eq!((stage.cli(&["GET", "seats"]), stage.number(&["ZCARD", "{seats}:timeout"])), ("2".into(), 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn get_permit_expirable_semaphore_renewed() {
    let stage = Stage::enter().await;
    let session = stage.session_of(ms(1500)).await;
    let guard = session.semaphore("seats", 3).unwrap().permits(2).await.unwrap();
    assert_eq!((stage.cli(&["GET", "seats"]), stage.number(&["ZCARD", "{seats}:timeout"])), ("1".into(), 2));
    let ends = || stage.lines(&["ZRANGE", "{seats}:timeout", "0", "0", "WITHSCORES"]).pop().unwrap();
    let first = ends();
    eventually("a renewal", || if ends() > first { Ok(()) } else { Err("not yet".into()) }).await;
    assert!(guard.is_held());
    assert_eq!(guard.release().await, Release::Released);
    assert_eq!((stage.cli(&["GET", "seats"]), stage.exists("{seats}:timeout")), ("3".into(), false));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn get_count_down_latch() {
    let stage = Stage::enter().await;
    let ready = stage.redis().redisson_latch("ready");
    let mut listener = stage.listen("redisson_countdownlatch__channel__{ready}");
    assert!(ready.try_set_count(2).await.unwrap());
    assert_eq!(stage.cli(&["GET", "ready"]), "2");
    let waits = ready.clone();
    let waiting = stage.waiting(async move { waits.wait().await }).await;
    assert_eq!(ready.count_down().await.unwrap(), 1);
    assert!(!ready.wait_within(ms(20)).await.unwrap());
    assert_eq!(ready.count_down().await.unwrap(), 0);
    soon(waiting).await.unwrap().unwrap();
    assert!(!stage.exists("ready"));
    assert_eq!(listener.heard(), ["1", "0"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn get_multi_lock() {
    let stage = Stage::enter().await;
    let (here, there) = (stage.session().await, stage.session().await);
    let both = all([mutex(&here, "account:7"), mutex(&there, "account:9")]);
    let guards = both.lock().await.unwrap();
    assert!(guards.is_held() && stage.exists("account:7") && stage.exists("account:9"));
    guards.release().await;
    assert_eq!(stage.java_lock("account:9", JAVA, 30_000), None);
    assert!(both.try_lock().await.unwrap().is_none());
    eventually("the other to be given back", || {
        if stage.exists("account:7") { Err("it is held".into()) } else { Ok(()) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn get_multi_lock_of_a_group() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let field = "Jon6GCcO+0QSJkhre5wXYA";
    let (count, time) = (format!("{field}:{JAVA}:lock_count"), format!("{field}:{JAVA}:expire_time"));
    stage.cli(&["HSET", "group", field, JAVA, &count, "1", &time, "9000000000000"]);
    stage.cli(&["PEXPIRE", "group", "30000"]);
    assert!(mutex(&session, "group").try_lock().await.unwrap().is_none(), "it is left alone");
    let unclear = session.inspect(&Name::new("group").unwrap()).await.unwrap_err();
    assert_eq!(unclear.kind(), ErrorKind::Corrupt, "{unclear}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn get_spin_lock() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    assert_eq!(stage.java_lock("orders", JAVA, 30_000), None);
    let lock = mutex(&session, "orders");
    let waiting = stage.waiting(async move { lock.lock().await }).await;
    // A spin lock is given back without a message.
    let freed = now();
    stage.cli(&["DEL", "orders"]);
    assert!(soon(waiting).await.unwrap().unwrap().is_held());
    assert!(now().since(freed) < ms(15_000), "the 30 s of the lease are not waited for");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn get_non_reentrant_lock() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let lock = mutex(&session, "orders");
    let guard = lock.lock().await.unwrap();
    assert!(lock.try_lock().await.unwrap().is_none(), "every claim is somebody else");
    guard.release().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn get_red_lock() {
    let masters: Vec<Server> = (0..3).map(|_| Server::start(Flavor::Redis7).unwrap()).collect();
    let hosts: Vec<String> = masters.iter().map(Server::address).collect();
    let redlock = |options: &str| {
        let url = format!("redlock://{}?layout=redisson&restart=trust{options}", hosts.join(","));
        async move {
            let engine = Redlock::from_url(&url).unwrap().engine().unwrap();
            Session::builder(engine).ttl(ms(3000)).open().await.unwrap()
        }
    };
    let (most, every) = (redlock("").await, redlock("&quorum=all").await);
    mutex(&every, "orders").lock().await.unwrap().release().await;
    masters[2].kill();
    let guard = mutex(&most, "orders").lock().await.unwrap();
    for master in &masters[..2] {
        assert_eq!(master.cli(&["HLEN", "orders"]).unwrap(), "1", "{}", master.address());
    }
    guard.release().await;
    let failed = mutex(&every, "orders").try_lock().await.unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Unavailable, "{failed}");
    assert!(failed.to_string().contains(&masters[2].address()), "{failed}");
}
