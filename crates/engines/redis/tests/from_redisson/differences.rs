//! What is not as in Redisson, on purpose.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use bramah_core::{ErrorKind, Name, Release};

use crate::stage::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_lost_lock_says_so() {
    let stage = Stage::enter().await;
    let session = stage.session_of(ms(6000)).await;
    let guard = mutex(&session, "orders").lock().await.unwrap();
    stage.cli(&["DEL", "orders"]);
    let deleted = now();
    let kept = soon(guard.keep(std::future::pending::<()>())).await;
    assert_eq!(kept.unwrap_err().kind(), ErrorKind::Lost);
    assert!(now().since(deleted) < ms(5000), "a renewal is due after two seconds");
    assert!(!guard.is_held());
    soon(guard.lost()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_guard_belongs_to_no_thread() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let lock = mutex(&session, "orders");
    let guard = lock.lock().await.unwrap();
    assert!(lock.try_lock().await.unwrap().is_none(), "the same task is not let in again");
    let runtime = tokio::runtime::Handle::current();
    let elsewhere = std::thread::spawn(move || runtime.block_on(guard.release()));
    assert_eq!(elsewhere.join().unwrap(), Release::Released);
    assert!(!stage.exists("orders"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_missed_message_costs_a_second() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    assert_eq!(stage.java_lock("orders", JAVA, 30_000), None);
    let lock = mutex(&session, "orders");
    let waiting = stage.waiting(async move { lock.lock().await }).await;
    // Nobody is told of this: the whole database is another one.
    let freed = now();
    stage.cli(&["SWAPDB", "0", "1"]);
    assert!(soon(waiting).await.unwrap().unwrap().is_held());
    assert!(now().since(freed) < ms(10_000), "the 30 s of the lease are not waited for");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_downgrade_wakes_readers() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let hold = format!("{{books}}:{JAVA}:rwlock_timeout:1");
    stage.cli(&["HSET", "books", "mode", "write", &format!("{JAVA}:write"), "1", JAVA, "1"]);
    stage.cli(&["PEXPIRE", "books", "30000"]);
    stage.cli(&["SET", &hold, "1", "PX", "30000"]);
    let books = session.rwlock("books").unwrap();
    let reader = books.read();
    let waiting = stage.waiting(async move { reader.lock().await }).await;
    // What Redisson does when a writer that reads as well stops writing; it tells nobody.
    let downgrade = "redis.call('HDEL', KEYS[1], ARGV[1]) return redis.call('HSET', KEYS[1], 'mode', 'read')";
    stage.cli(&["EVAL", downgrade, "1", "books", &format!("{JAVA}:write")]);
    let freed = now();
    assert!(soon(waiting).await.unwrap().unwrap().is_held());
    assert!(now().since(freed) < ms(15_000), "the 30 s of the lease are not waited for");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_broken_writer_that_reads_wakes_readers() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let hold = format!("{{books}}:{JAVA}:rwlock_timeout:1");
    stage.cli(&["HSET", "books", "mode", "write", &format!("{JAVA}:write"), "1", JAVA, "1"]);
    stage.cli(&["PEXPIRE", "books", "30000"]);
    stage.cli(&["SET", &hold, "1", "PX", "30000"]);
    let mut listener = stage.listen("redisson_rwlock:{books}");
    let seen = line(&session, "books").await;
    let writer = seen.holders().find(|place| place.claim.is_exclusive()).unwrap();
    assert!(session.break_hold(&seen.name, writer.claim.id.tag(), "it hangs").await.unwrap());
    assert_eq!(stage.cli(&["HGET", "books", "mode"]), "read");
    assert_eq!(listener.heard(), ["1"]);
}

/// Where a process of ours is to stand in the queue of a fair lock.
const URL: &str = "BRAMAH_FROM_REDISSON_WAIT_AT";

/// Another test starts this one as a process of its own; here it has nothing to do.
#[tokio::test]
async fn a_process_that_waits() {
    let Ok(url) = std::env::var(URL) else { return };
    let session = open(&url, ms(30_000)).await;
    println!("it waits");
    let guard = mutex(&session, "orders").lock().await.unwrap();
    guard.lost().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_dead_fair_waiter_costs_seconds() {
    let stage = Stage::enter().await;
    let queue = "redisson_lock_queue:{orders}";
    let in_queue = |many: i64| {
        let found = stage.number(&["LLEN", queue]);
        if found == many { Ok(()) } else { Err(format!("{found} are in it")) }
    };
    assert_eq!(stage.java_lock("orders", JAVA, 60_000), None);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "differences::a_process_that_waits", "--nocapture"])
        .env(URL, format!("{}&fair=true", stage.url()))
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.map_while(Result::ok).any(|line| line.contains("waits")), "the process ended");
    eventually("the process in the queue", || in_queue(1)).await;
    let session = stage.fair(ms(30_000)).await;
    let lock = mutex(&session, "orders");
    let waiting = tokio::spawn(async move { lock.lock().await });
    eventually("ours behind it", || in_queue(2)).await;
    child.kill().unwrap();
    child.wait().unwrap();
    stage.cli(&["DEL", "orders"]);
    // In Redisson it is five minutes.
    assert!(soon(waiting).await.unwrap().unwrap().is_held());
    assert_eq!(stage.number(&["LLEN", queue]), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_failed_renewal_touches_one_lock() {
    let stage = Stage::enter().await;
    let session = stage.session_of(ms(1500)).await;
    let bad = mutex(&session, "bad").lock().await.unwrap();
    let good = mutex(&session, "good").lock().await.unwrap();
    // Something that cannot be renewed, in the same call.
    stage.cli(&["SET", "bad", "no lock"]);
    soon(bad.lost()).await;
    stage.await_renewal("good").await;
    assert!(good.is_held() && good.confirm().await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_capacity_is_what_the_store_says() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    // Redisson's trySetPermits.
    stage.cli(&["SET", "seats", "5"]);
    let conflict = session.semaphore("seats", 3).unwrap().permits(1).await.unwrap_err();
    assert_eq!(conflict.kind(), ErrorKind::Conflict);
    let why = conflict.to_string();
    assert!(why.contains("a semaphore of 5") && why.contains("a semaphore of 3"), "{why}");
    assert_eq!(stage.cli(&["GET", "seats"]), "5");
    assert!(session.semaphore("seats", 5).unwrap().permits(1).await.unwrap().is_held());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_token_stays() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    mutex(&session, "orders").lock().await.unwrap().release().await;
    assert!(!stage.exists("orders"));
    let token = "redisson_lock_token:{orders}";
    assert_eq!((stage.cli(&["GET", token]), stage.pttl(token)), ("1".into(), -1));
    stage.redis().delete_token(&Name::new("orders").unwrap()).await.unwrap();
    assert!(!stage.exists(token));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_name_is_a_key_with_a_few_rules() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    for name in ["lock:{orders}:7", "my lock", "größe"] {
        let guard = mutex(&session, name).lock().await.unwrap();
        assert!(stage.exists(name));
        guard.release().await;
    }
    assert!(stage.exists("redisson_lock_token:lock:{orders}:7"), "a name with a brace gets no other");
    for name in ["", "/orders", "orders//7", "orders/", "tab\there", &"x".repeat(201)] {
        assert_eq!(session.mutex(name).unwrap_err().kind(), ErrorKind::Invalid, "{name:?}");
    }
}
