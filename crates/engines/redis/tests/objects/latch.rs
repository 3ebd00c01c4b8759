//! `RCountDownLatch`.

use bramah_lab::Reply;

use crate::stage::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_call_leaves_and_tells_what_redisson_would() {
    on_all(|stage| async move {
        let name = "latch:plain";
        let latch = stage.redis().redisson_latch(name);
        let mut listener = stage.listen("redisson_countdownlatch__channel__{latch:plain}");
        assert_eq!(latch.name(), name);
        assert_eq!(latch.count().await.unwrap(), 0);
        latch.wait().await.unwrap();
        assert!(latch.wait_within(ms(0)).await.unwrap());
        assert_eq!(latch.count_down().await.unwrap(), 0, "there is nothing to count");
        assert_eq!(stage.call(&["EXISTS", name]), Reply::Int(0));
        assert_eq!(listener.heard(), Vec::<String>::new());

        assert!(latch.try_set_count(2).await.unwrap());
        assert!(!latch.try_set_count(3).await.unwrap());
        assert_eq!((stage.cli(&["GET", name]), stage.cli(&["PTTL", name])), ("2".into(), "-1".into()));
        assert_eq!(listener.heard(), ["1"]);
        assert!(!latch.wait_within(ms(20)).await.unwrap());
        assert_eq!(latch.count_down().await.unwrap(), 1);
        assert_eq!(latch.count().await.unwrap(), 1);
        assert_eq!(listener.heard(), Vec::<String>::new());
        assert_eq!(latch.count_down().await.unwrap(), 0);
        assert_eq!(stage.call(&["EXISTS", name]), Reply::Int(0));
        assert_eq!(listener.heard(), ["0"]);
        latch.wait().await.unwrap();

        assert!(!latch.delete().await.unwrap());
        assert!(latch.try_set_count(9).await.unwrap());
        assert!(latch.delete().await.unwrap());
        assert_eq!(stage.call(&["EXISTS", name]), Reply::Int(0));
        assert_eq!(listener.heard(), ["1", "0"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn everybody_goes_when_it_opens_however_that_comes_about() {
    on_all(|stage| async move {
        let name = "latch:open";
        let redis = stage.redis();
        let latch = redis.redisson_latch(name);
        let mut spans = Vec::new();
        for round in 0..9 {
            assert!(latch.try_set_count(2).await.unwrap());
            let waiters = (0..8).map(|_| latch.clone()).map(|latch| async move { latch.wait().await });
            let waiting = stage.waiting(name, waiters).await;
            assert_eq!(latch.count_down().await.unwrap(), 1);
            let opened = now();
            match round % 3 {
                // As Redisson does.
                0 => {
                    assert_eq!(stage.call(&["DECR", name]), Reply::Int(0));
                    assert_eq!(stage.call(&["DEL", name]), Reply::Int(1));
                    stage.publish("redisson_countdownlatch__channel__{latch:open}", "0");
                }
                1 => assert_eq!(stage.redis().redisson_latch(name).count_down().await.unwrap(), 0),
                _ => assert!(latch.delete().await.unwrap()),
            }
            for waiting in waiting {
                soon(waiting).await.unwrap().unwrap();
            }
            spans.push(now().since(opened));
        }
        assert_told(spans);
    })
    .await;
}

/// Redisson cannot count most of them down in a cluster: the channel is in another slot.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_latch_with_braces_of_its_own_counts_and_opens_in_a_cluster_too() {
    on_all(|stage| async move {
        for (name, parted) in [("{latch}:tagged", true), ("latch:}x", true), ("latch:{", false)] {
            let latch = stage.redis().redisson_latch(name);
            let mut listener = stage.listen(&format!("redisson_countdownlatch__channel__{{{name}}}"));
            assert!(latch.try_set_count(1).await.unwrap());
            let other = stage.redis().redisson_latch(name);
            let waiting = stage.waiting(name, [async move { other.wait().await }]).await.remove(0);
            assert_eq!(latch.count_down().await.unwrap(), 0);
            soon(waiting).await.unwrap().unwrap();
            let told: &[&str] = if parted && stage.is_cluster() { &[] } else { &["1", "0"] };
            assert_eq!(listener.heard(), told, "{name}");
            assert!(!latch.delete().await.unwrap());
        }
    })
    .await;
}
