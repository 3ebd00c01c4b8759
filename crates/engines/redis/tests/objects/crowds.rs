//! Many who want the same.

use crate::stage::*;

const TASKS: usize = 64;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_tasks_no_more_than_there_are_permits_are_in_and_all_have_their_turn() {
    on_all(|stage| async move {
        let name = "crowd:semaphore";
        // Two processes, as it were.
        let engines = [stage.redis(), stage.redis()];
        engines[0].redisson_semaphore(name).try_set_permits(4, None).await.unwrap();
        let gauge = Gauge::default();
        let tasks: Vec<_> = (0..TASKS)
            .map(|n| (engines[n % 2].redisson_semaphore(name), gauge.clone()))
            .map(|(semaphore, gauge)| async move {
                semaphore.acquire(1).await.unwrap();
                gauge.enter(1);
                tokio::time::sleep(ms(2)).await;
                gauge.leave(1);
                semaphore.release(1).await.unwrap();
            })
            .map(tokio::spawn)
            .collect();
        for task in tasks {
            soon(task).await.unwrap();
        }
        assert!((1..=4).contains(&gauge.most()), "{} were in", gauge.most());
        assert_eq!(stage.cli(&["GET", name]), "4");
        assert!(engines[0].redisson_semaphore(name).delete().await.unwrap());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_same_with_permits_of_different_numbers_and_leases() {
    on_all(|stage| async move {
        let name = "crowd:permits";
        let engines = [stage.redis(), stage.redis()];
        engines[0].redisson_permits(name).try_set_permits(4).await.unwrap();
        let gauge = Gauge::default();
        let tasks: Vec<_> = (0..TASKS)
            .map(|n| (n, engines[n % 2].redisson_permits(name), gauge.clone()))
            .map(|(n, permits, gauge)| async move {
                let many = u32::try_from(n % 3 + 1).unwrap();
                let lease = (n % 2 == 0).then_some(PATIENCE);
                let ids = permits.acquire(many, lease).await.unwrap();
                gauge.enter(many);
                assert_eq!(ids.len(), n % 3 + 1);
                tokio::time::sleep(ms(2)).await;
                gauge.leave(many);
                assert!(permits.release_all(&ids).await.unwrap());
            })
            .map(tokio::spawn)
            .collect();
        for task in tasks {
            soon(task).await.unwrap();
        }
        assert!((1..=4).contains(&gauge.most()), "{} were in", gauge.most());
        assert_eq!(stage.cli(&["GET", name]), "4");
        assert_eq!(stage.cli(&["EXISTS", "{crowd:permits}:timeout"]), "0");
        assert!(engines[0].redisson_permits(name).delete().await.unwrap());
    })
    .await;
}

/// The gauge has to be able to rise.
#[test]
fn a_gauge_notices_how_many_are_in() {
    let gauge = Gauge::default();
    gauge.enter(3);
    gauge.enter(2);
    gauge.leave(4);
    assert_eq!(gauge.most(), 5);
}
