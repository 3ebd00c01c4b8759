//! `RSemaphore`.

use std::time::Duration;

use bramah_lab::Reply;

use crate::stage::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_call_leaves_and_tells_what_redisson_would() {
    on_all(|stage| async move {
        for (name, channel) in
            [("sem:plain", "redisson_sc:{sem:plain}"), ("sem:{tag}", "redisson_sc:sem:{tag}")]
        {
            let semaphore = stage.redis().redisson_semaphore(name);
            let mut listener = stage.listen(channel);
            assert_eq!(semaphore.name(), name);
            assert_eq!(semaphore.available_permits().await.unwrap(), 0);
            assert!(!semaphore.try_acquire(1).await.unwrap(), "there are none yet");
            assert!(!semaphore.release_if_exists(1).await.unwrap());
            assert_eq!(semaphore.drain_permits().await.unwrap(), 0);
            assert_eq!(stage.call(&["EXISTS", name]), Reply::Int(0));

            assert!(semaphore.try_set_permits(5, None).await.unwrap());
            assert!(!semaphore.try_set_permits(7, None).await.unwrap());
            assert_eq!(stage.cli(&["GET", name]), "5");
            assert_eq!(stage.cli(&["PTTL", name]), "-1");
            assert_eq!(listener.heard(), ["5"]);

            assert!(semaphore.try_acquire(3).await.unwrap());
            assert!(!semaphore.try_acquire(3).await.unwrap());
            semaphore.acquire(1).await.unwrap();
            assert_eq!(stage.cli(&["GET", name]), "1");
            assert_eq!(listener.heard(), Vec::<String>::new());
            semaphore.release(2).await.unwrap();
            assert!(semaphore.release_if_exists(1).await.unwrap());
            assert_eq!(listener.heard(), ["3", "4"]);

            assert_eq!(semaphore.add_permits(6).await.unwrap(), 10);
            assert_eq!(semaphore.add_permits(-11).await.unwrap(), -1);
            assert_eq!(semaphore.available_permits().await.unwrap(), -1);
            assert_eq!(listener.heard(), ["10", "-1"]);
            semaphore.release(9).await.unwrap();
            assert_eq!(semaphore.drain_permits().await.unwrap(), 8);
            assert_eq!(stage.cli(&["GET", name]), "0");
            assert_eq!(listener.heard(), ["8"]);
            assert!(!semaphore.acquire_within(1, ms(20)).await.unwrap());

            assert!(semaphore.delete().await.unwrap());
            assert!(!semaphore.delete().await.unwrap());
            semaphore.release(2).await.unwrap();
            assert_eq!(stage.cli(&["GET", name]), "2", "a release makes the counter, as in Redisson");
            assert!(semaphore.delete().await.unwrap());
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_semaphore_with_a_ttl_keeps_it_and_is_gone_with_it() {
    on_all(|stage| async move {
        let semaphore = stage.redis().redisson_semaphore("sem:ttl");
        assert!(semaphore.try_set_permits(2, Some(Duration::from_secs(100))).await.unwrap());
        let ttl = || stage.cli(&["PTTL", "sem:ttl"]).parse::<i64>().unwrap();
        assert!((1..=100_000).contains(&ttl()), "{}", ttl());
        assert!(semaphore.try_acquire(1).await.unwrap());
        semaphore.add_permits(3).await.unwrap();
        assert_eq!(semaphore.drain_permits().await.unwrap(), 4);
        assert!((1..=100_000).contains(&ttl()), "{}", ttl());
        assert_eq!(stage.call(&["PEXPIRE", "sem:ttl", "1"]), Reply::Int(1));
        eventually("its end", || match stage.call(&["EXISTS", "sem:ttl"]) {
            Reply::Int(0) => Ok(()),
            other => Err(format!("{other:?}")),
        })
        .await;
        assert!(semaphore.try_set_permits(1, None).await.unwrap(), "it can be set anew");
        assert!(semaphore.delete().await.unwrap());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_waits_is_told_of_what_others_give_back_however_they_do() {
    on_all(|stage| async move {
        let name = "sem:told";
        let redis = stage.redis();
        redis.redisson_semaphore(name).try_set_permits(1, None).await.unwrap();
        redis.redisson_semaphore(name).acquire(1).await.unwrap();
        let mut spans = Vec::new();
        for round in 0..9 {
            let semaphore = redis.redisson_semaphore(name);
            let waiting = stage.waiting(name, [async move { semaphore.acquire(1).await }]).await;
            let released = now();
            match round % 3 {
                // As Redisson does.
                0 => {
                    assert_eq!(stage.call(&["INCRBY", name, "1"]), Reply::Int(1));
                    stage.publish("redisson_sc:{sem:told}", "1");
                }
                // As another process of ours, and this one.
                1 => stage.redis().redisson_semaphore(name).release(1).await.unwrap(),
                _ => redis.redisson_semaphore(name).release(1).await.unwrap(),
            }
            for waiting in waiting {
                soon(waiting).await.unwrap().unwrap();
            }
            spans.push(now().since(released));
            assert_eq!(stage.cli(&["GET", name]), "0");
        }
        assert_told(spans);
        assert!(redis.redisson_semaphore(name).delete().await.unwrap());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_too_little_for_the_first_is_enough_for_another() {
    on_all(|stage| async move {
        let name = "sem:little";
        let redis = stage.redis();
        let semaphore = redis.redisson_semaphore(name);
        semaphore.try_set_permits(1, None).await.unwrap();
        semaphore.acquire(1).await.unwrap();
        let greedy = semaphore.clone();
        let greedy = stage.waiting(name, [async move { greedy.acquire(50).await }]).await.remove(0);
        let mut spans = Vec::new();
        for _ in 0..5 {
            let modest = semaphore.clone();
            let modest = stage.waiting(name, [async move { modest.acquire(2).await }]).await.remove(0);
            let released = now();
            semaphore.release(2).await.unwrap();
            soon(modest).await.unwrap().unwrap();
            spans.push(now().since(released));
        }
        assert_told(spans);
        assert!(!greedy.is_finished());
        semaphore.add_permits(50).await.unwrap();
        soon(greedy).await.unwrap().unwrap();
        assert_eq!(stage.cli(&["GET", name]), "0");
        assert!(semaphore.delete().await.unwrap());
    })
    .await;
}
