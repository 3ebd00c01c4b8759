//! What the guide says of the configuration, and of fleets that move.

use bramah_core::{Name, Scope};
use bramah_redis::Redis;

use crate::stage::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_prefix_goes_before_every_name() {
    let stage = Stage::enter().await;
    let redis = Redis::from_url(&format!("{}&prefix=shop:", stage.url())).unwrap();
    let semaphore = redis.redisson_semaphore("printers");
    let session = bramah_core::Session::open(redis).await.unwrap();
    let _guard = mutex(&session, "orders").lock().await.unwrap();
    assert!(stage.exists("shop:orders") && stage.exists("redisson_lock_token:{shop:orders}"));
    assert_eq!(line(&session, "orders").await.holders().count(), 1);
    assert!(semaphore.try_set_permits(3, None).await.unwrap());
    assert!(stage.exists("shop:printers"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_database_is_the_path() {
    let stage = Stage::enter().await;
    let session = open(&stage.url().replace("/?", "/5?"), ms(30_000)).await;
    let _guard = mutex(&session, "orders").lock().await.unwrap();
    assert!(!stage.exists("orders"));
    assert_eq!(stage.cli(&["-n", "5", "EXISTS", "orders"]), "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_waiter_subscribes_to_nothing_of_its_own() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    assert_eq!(stage.java_lock("orders", JAVA, 30_000), None);
    let lock = mutex(&session, "orders");
    let waiting = stage.waiting(async move { lock.lock().await }).await;
    assert_eq!(stage.lines(&["PUBSUB", "CHANNELS", "redisson*"]), [""; 0]);
    let ours = format!("bramah:mark:{}", session.id());
    assert_eq!(stage.lines(&["PUBSUB", "CHANNELS", "*"]), [ours]);
    waiting.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_plain_lock_and_a_fair_one_exclude_each_other_but_for_the_queue() {
    let stage = Stage::enter().await;
    let (plain, fair) = (stage.session().await, stage.fair(ms(30_000)).await);
    let guard = mutex(&fair, "orders").lock().await.unwrap();
    assert!(mutex(&plain, "orders").try_lock().await.unwrap().is_none());
    guard.release().await;
    stage.cli(&["RPUSH", "redisson_lock_queue:{orders}", JAVA]);
    stage.cli(&["ZADD", "redisson_lock_timeout:{orders}", "9000000000000", JAVA]);
    assert!(mutex(&fair, "orders").try_lock().await.unwrap().is_none());
    let guard = mutex(&plain, "orders").try_lock().await.unwrap().expect("it does not care");
    assert!(mutex(&fair, "orders").try_lock().await.unwrap().is_none());
    guard.release().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_left_of_ours_ends_by_itself() {
    let stage = Stage::enter().await;
    let (session, fair) = (stage.session().await, stage.fair(ms(30_000)).await);
    let _reasoned = mutex(&session, "reasoned").reason("why").lock().await.unwrap();
    let _permits = session.semaphore("seats", 3).unwrap().permits(2).await.unwrap();
    let broken = mutex(&session, "broken").lock().await.unwrap();
    assert!(session.break_hold(&Name::new("broken").unwrap(), broken.tag(), "a test").await.unwrap());
    assert_eq!(stage.java_lock("queued", JAVA, 30_000), None);
    let lock = mutex(&fair, "queued");
    let waiting = tokio::spawn(async move { lock.lock().await });
    let kinds = ["session", "card", "queue", "broken"];
    eventually("one of each kind", || {
        let missing = kinds.iter().find(|kind| stage.cli(&["KEYS", &format!("bramah:{kind}:*")]).is_empty());
        missing.map_or(Ok(()), |kind| Err(format!("no {kind}")))
    })
    .await;
    for key in stage.lines(&["KEYS", "bramah:*"]) {
        assert!(kinds.iter().any(|kind| key.starts_with(&format!("bramah:{kind}:"))), "{key}");
        assert!(stage.pttl(&key) > 0, "{key}");
    }
    waiting.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_store_that_forgets_starts_its_tokens_again() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    for fence in [1, 2, 3] {
        let guard = mutex(&session, "orders").lock().await.unwrap();
        assert_eq!(guard.fence().unwrap().get(), fence);
        guard.release().await;
    }
    stage.cli(&["FLUSHALL"]);
    assert_eq!(mutex(&session, "orders").lock().await.unwrap().fence().unwrap().get(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_lock_of_redissons_is_listed() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    assert_eq!(stage.java_lock("orders", JAVA, 30_000), None);
    stage.cli(&["HSET", "books", "mode", "write", &format!("{JAVA}:write"), "1"]);
    stage.cli(&["PEXPIRE", "books", "30000"]);
    stage.cli(&["SET", "seats", "2"]);
    stage.cli(&["ZADD", "{seats}:timeout", "9000000000000", "abcdefghijklmnop"]);
    stage.cli(&["SET", "data", "no lock"]);
    stage.cli(&["HSET", "record", "name", "no lock either"]);
    let before = stage.number(&["DBSIZE"]);
    let listed = session.survey(&Scope::All).await.unwrap();
    let names: Vec<_> = listed.iter().map(|line| (line.name.as_str(), line.capacity)).collect();
    assert_eq!(names, [("books", u32::MAX), ("orders", 1), ("seats", 3)]);
    assert_eq!(stage.number(&["DBSIZE"]), before);
}
