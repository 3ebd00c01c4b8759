//! Calls that are dropped, answers that are lost, and keys of somebody else.

use std::{future::Future, pin::pin, task::Poll, time::Duration};

use bramah_core::{Error, ErrorKind};
use bramah_lab::{Fault, Loss, Proxy, Redis as Server, servers::Flavor};
use bramah_redis::Redis;

use crate::stage::*;

/// Polls a future until it has been left waiting so often, and drops it; unless it was ready before.
async fn poll_and_drop<T>(polls: usize, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut polled = 0;
    std::future::poll_fn(|cx| {
        polled += 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polled < polls => Poll::Pending,
            Poll::Pending => Poll::Ready(None),
        }
    })
    .await
}

/// Waits until the counter and the number of permits that are out are these.
async fn await_counts(server: &Server, name: &str, free: &str, out: &str) {
    eventually("all permits", || {
        let zset = format!("{{{name}}}:timeout");
        let there = (server.call(&["GET", name])?.text(), server.call(&["ZCARD", &zset])?.text());
        if there == (free.into(), out.into()) { Ok(()) } else { Err(format!("{there:?}")) }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_dropped_call_leaves_no_permit_behind() {
    on_all(|stage| async move {
        let redis = stage.redis();
        let (semaphore, permits) = (redis.redisson_semaphore("drop:s"), redis.redisson_permits("drop:p"));
        semaphore.try_set_permits(2, None).await.unwrap();
        permits.try_set_permits(2).await.unwrap();
        for round in 0..60 {
            // What can be given, and what has to be waited for.
            let (many, polls) = ([1, 3][round % 2], round / 2 % 4 + 1);
            let limit = ms(200);
            let had = tokio::time::timeout(limit, poll_and_drop(polls, semaphore.acquire(many))).await;
            if let Ok(Some(had)) = had {
                had.unwrap();
                semaphore.release(many).await.unwrap();
            }
            let had = tokio::time::timeout(limit, poll_and_drop(polls, permits.acquire(many, None))).await;
            if let Ok(Some(had)) = had {
                assert!(permits.release_all(&had.unwrap()).await.unwrap());
            }
            await_counts(stage.server("drop:s"), "drop:s", "2", "0").await;
            await_counts(stage.server("drop:p"), "drop:p", "2", "0").await;
        }
        assert!(semaphore.delete().await.unwrap() && permits.delete().await.unwrap());
    })
    .await;
}

/// A server, and an engine that reaches it by a way that misbehaves.
fn apart(timeout: &str) -> (Server, Proxy, Redis) {
    let server = Server::start(Flavor::Redis7).unwrap();
    let proxy = Proxy::to(&server.address()).unwrap();
    let redis = Redis::from_url(&format!("redis://{}?timeout={timeout}", proxy.address())).unwrap();
    (server, proxy, redis)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_given_while_the_call_was_dropped_is_given_back() {
    let (server, proxy, redis) = apart("20s");
    let (semaphore, permits) = (redis.redisson_semaphore("s"), redis.redisson_permits("p"));
    semaphore.try_set_permits(1, None).await.unwrap();
    permits.try_set_permits(1).await.unwrap();
    // The scripts are known there from here on, so that the next requests are the calls themselves.
    semaphore.acquire(1).await.unwrap();
    semaphore.release(1).await.unwrap();
    assert!(permits.release_all(&permits.acquire(1, None).await.unwrap()).await.unwrap());
    proxy.replies(Fault::Hold);
    let calls = tokio::spawn(async move { tokio::join!(semaphore.acquire(1), permits.acquire(1, None)) });
    await_counts(&server, "s", "0", "0").await;
    await_counts(&server, "p", "0", "1").await;
    calls.abort();
    assert!(calls.await.unwrap_err().is_cancelled());
    proxy.replies(Fault::Pass);
    await_counts(&server, "s", "1", "0").await;
    await_counts(&server, "p", "1", "0").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn permits_whose_ids_were_lost_on_the_way_are_given_back() {
    for loss in [Loss::Kill, Loss::Stall] {
        let (server, proxy, redis) = apart("1s");
        let permits = redis.redisson_permits("p");
        permits.try_set_permits(3).await.unwrap();
        assert!(permits.release_all(&permits.acquire(1, None).await.unwrap()).await.unwrap());
        proxy.execute_and_lose(1, loss);
        let lost = permits.acquire(2, None).await.unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::Unavailable, "{lost}");
        assert_eq!(proxy.counts().lost, 1);
        await_counts(&server, "p", "3", "0").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_waits_hears_of_it_when_the_connection_ends_and_asks_again() {
    let (server, proxy, redis) = apart("20s");
    let (semaphore, latch) = (redis.redisson_semaphore("s"), redis.redisson_latch("l"));
    semaphore.try_set_permits(1, None).await.unwrap();
    semaphore.acquire(1).await.unwrap();
    latch.try_set_count(1).await.unwrap();
    let observer = redis.redisson_latch("l");
    let waiting = tokio::spawn(async move { tokio::join!(semaphore.acquire(1), latch.wait()) });
    eventually("two who wait", || {
        let stats = server.call(&["INFO", "stats"])?.text();
        if stats.contains("tracking_total_keys:2") { Ok(()) } else { Err("not yet".into()) }
    })
    .await;
    // Answers come in order: with this one, those to the two waiters have arrived. A lost answer would be an error.
    assert_eq!(observer.count().await.unwrap(), 1);
    proxy.sever();
    server.call(&["INCRBY", "s", "1"]).unwrap();
    server.call(&["DEL", "l"]).unwrap();
    let (acquired, waited) = soon(waiting).await.unwrap();
    acquired.unwrap();
    waited.unwrap();
}

/// Every error is of this kind, and one line that names the key.
fn assert_names(key: &str, kind: ErrorKind, errors: impl IntoIterator<Item = Error>) {
    for error in errors {
        assert_eq!(error.kind(), kind, "{error}");
        let text = error.to_string();
        assert!(text.contains(&format!("the key {key} holds")) && !text.contains('\n'), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_key_of_somebody_else_is_named_and_left_alone() {
    on_all(|stage| async move {
        let redis = stage.redis();
        let (list, text) = ("foreign:list", "foreign:text");
        stage.call(&["RPUSH", list, "x"]);
        stage.call(&["SET", text, "1.5"]);
        let id = "00000000000000000000000000000001".parse().unwrap();
        for key in [list, text] {
            let (semaphore, permits) = (redis.redisson_semaphore(key), redis.redisson_permits(key));
            let latch = redis.redisson_latch(key);
            let errors = [
                semaphore.add_permits(1).await.unwrap_err(),
                semaphore.available_permits().await.unwrap_err(),
                semaphore.drain_permits().await.unwrap_err(),
                semaphore.try_acquire(1).await.unwrap_err(),
                semaphore.acquire_within(1, Duration::from_secs(1)).await.unwrap_err(),
                semaphore.release(1).await.unwrap_err(),
                semaphore.release_if_exists(1).await.unwrap_err(),
                permits.set_permits(1).await.unwrap_err(),
                permits.add_permits(1).await.unwrap_err(),
                permits.available_permits().await.unwrap_err(),
                permits.try_acquire(1, None).await.unwrap_err(),
                permits.acquire(1, None).await.unwrap_err(),
                latch.count().await.unwrap_err(),
                latch.count_down().await.unwrap_err(),
                latch.wait().await.unwrap_err(),
            ];
            assert_names(key, ErrorKind::Corrupt, errors);
        }
        let (one, other) = ("foreign:permits", "{foreign:permits}:timeout");
        stage.call(&["SET", other, "1"]);
        let permits = redis.redisson_permits(one);
        assert!(permits.try_set_permits(1).await.unwrap());
        let errors = [
            permits.try_acquire(1, None).await.unwrap_err(),
            permits.release(id).await.unwrap_err(),
            permits.lease_left(id).await.unwrap_err(),
            permits.set_permits(2).await.unwrap_err(),
        ];
        assert_names(other, ErrorKind::Corrupt, errors);
        assert_eq!(stage.cli(&["LRANGE", list, "0", "-1"]), "x");
        assert_eq!(stage.cli(&["GET", text]), "1.5");
        for key in [list, text, one, other] {
            stage.call(&["DEL", key]);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_counter_that_would_run_over_is_left_as_it_is() {
    on_all(|stage| async move {
        let name = "foreign:full";
        let most = i64::MAX.to_string();
        stage.call(&["SET", name, &most]);
        let semaphore = stage.redis().redisson_semaphore(name);
        let error = semaphore.release(1).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(stage.cli(&["GET", name]), most);
        assert!(semaphore.delete().await.unwrap());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_change_that_is_refused_half_way_changes_nothing() {
    let server = Server::start(Flavor::Redis7).unwrap();
    let owner = Redis::from_url(&server.url()).unwrap();
    owner.redisson_semaphore("half:s").try_set_permits(3, None).await.unwrap();
    let permits = owner.redisson_permits("half:p");
    permits.try_set_permits(3).await.unwrap();
    let out = permits.acquire(1, None).await.unwrap();
    owner.redisson_latch("half:l").try_set_count(1).await.unwrap();
    let state = || {
        ["GET half:s", "GET half:p", "ZCARD {half:p}:timeout", "GET half:l"].map(|words| {
            let words: Vec<&str> = words.split(' ').collect();
            server.call(&words).unwrap().text()
        })
    };
    let before = state();
    let mut refused = 0;
    for (user, command) in
        ["publish", "zadd", "zrem", "incrby", "decrby", "pttl", "pexpire", "del"].iter().enumerate()
    {
        let (user, right) = (format!("half{user}"), format!("-{command}"));
        server.call(&["ACL", "SETUSER", &user, "on", ">hush", "~*", "&*", "+@all", &right]).unwrap();
        let redis = Redis::from_url(&format!("redis://{user}:hush@{}", server.address())).unwrap();
        let (semaphore, permits) = (redis.redisson_semaphore("half:s"), redis.redisson_permits("half:p"));
        let mut told = |what: &str, error: Option<Error>| {
            let Some(error) = error else { return false };
            assert_eq!(state(), before, "{what} without {command}: {error}");
            refused += 1;
            true
        };
        if !told("release", semaphore.release(1).await.err()) {
            assert!(owner.redisson_semaphore("half:s").try_acquire(1).await.unwrap());
        }
        match permits.try_acquire(1, None).await {
            Ok(taken) => {
                assert!(owner.redisson_permits("half:p").release_all(&taken.unwrap()).await.unwrap())
            }
            Err(error) => assert!(told("acquire", Some(error))),
        }
        // It is only the end of what is out, and not of this test, if that is allowed.
        if ["publish", "incrby", "zrem"].contains(command) {
            assert!(told("release of a permit", permits.release_all(&out).await.err()), "{command}");
        }
        if ["publish", "del"].contains(command) {
            assert!(told("count down", redis.redisson_latch("half:l").count_down().await.err()), "{command}");
        }
    }
    assert!(refused > 6, "{refused}");
}
