//! `RPermitExpirableSemaphore`.

use std::time::Duration;

use bramah_core::ErrorKind;
use bramah_lab::Reply;
use bramah_redis::redisson::{LeaseLeft, PermitId};

use crate::stage::*;

const NEVER: f64 = 922_337_203_685_477.0;

/// The members of a sorted set in hex, with their scores.
fn members(stage: &Stage, key: &str) -> Vec<(String, f64)> {
    let script = "local out = {} \
        for i, v in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1, 'WITHSCORES')) do \
          out[i] = i % 2 == 1 and string.gsub(v, '.', function(c) return string.format('%02x', string.byte(c)) end) or v \
        end return out";
    let told = stage.eval(script, key, &[]).many();
    told.chunks(2).map(|pair| (pair[0].text(), pair[1].text().parse().unwrap())).collect()
}

/// The server's time, ms.
fn time(stage: &Stage, key: &str) -> f64 {
    let told = stage.eval(
        "local t = redis.call('TIME') return t[1] .. string.sub('00000' .. t[2], -6, -4)",
        key,
        &[],
    );
    told.text().parse().unwrap()
}

fn ids(members: &[(String, f64)]) -> Vec<PermitId> {
    let mut ids: Vec<_> = members.iter().map(|(id, _)| id.parse().unwrap()).collect();
    ids.sort();
    ids
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_call_leaves_and_tells_what_redisson_would() {
    on_all(|stage| async move {
        for (name, zset, channel) in [
            ("permits:plain", "{permits:plain}:timeout", "redisson_sc:{permits:plain}"),
            ("permits:{tag}", "permits:{tag}:timeout", "redisson_sc:permits:{tag}"),
        ] {
            let permits = stage.redis().redisson_permits(name);
            let mut listener = stage.listen(channel);
            let counts = async || {
                let free = permits.available_permits().await.unwrap();
                (free, permits.acquired_permits().await.unwrap(), permits.permits().await.unwrap())
            };
            assert_eq!(permits.name(), name);
            assert_eq!(counts().await, (0, 0, 0));
            assert_eq!(permits.try_acquire(1, None).await.unwrap(), None);
            assert!(permits.try_set_permits(5).await.unwrap());
            assert!(!permits.try_set_permits(6).await.unwrap());
            assert_eq!((stage.cli(&["GET", name]), stage.cli(&["EXISTS", zset])), ("5".into(), "0".into()));
            assert_eq!(listener.heard(), ["5"]);

            let mut kept = permits.try_acquire(2, None).await.unwrap().unwrap();
            kept.sort();
            assert_eq!(stage.cli(&["GET", name]), "3");
            assert_eq!(stage.cli(&["PTTL", zset]), "-1");
            let found = members(stage, zset);
            assert_eq!(ids(&found), kept);
            assert!(found.iter().all(|(_, score)| *score == NEVER), "{found:?}");
            assert_eq!(counts().await, (3, 2, 5));
            assert_eq!(permits.lease_left(kept[0]).await.unwrap(), LeaseLeft::Endless);

            let before = time(stage, name);
            let leased = permits.acquire(1, Some(Duration::from_secs(100))).await.unwrap()[0];
            let score = members(stage, zset).iter().find(|(id, _)| *id == leased.to_string()).unwrap().1;
            let after = time(stage, name);
            assert!(
                (before + 1e5..=after + 1e5).contains(&score),
                "{score} is not in {before}..{after} + 100 s"
            );
            let LeaseLeft::Ends(left) = permits.lease_left(leased).await.unwrap() else { panic!("no lease") };
            assert!(left <= Duration::from_secs(100) && left > Duration::from_secs(50), "{left:?}");
            assert!(permits.update_lease(leased, Some(Duration::from_secs(1000))).await.unwrap());
            let LeaseLeft::Ends(left) = permits.lease_left(leased).await.unwrap() else { panic!("no lease") };
            assert!(left > Duration::from_secs(900), "{left:?}");
            assert!(permits.update_lease(leased, None).await.unwrap());
            assert_eq!(permits.lease_left(leased).await.unwrap(), LeaseLeft::Endless);
            assert!(permits.update_lease(leased, Some(Duration::MAX)).await.unwrap());
            assert_eq!(permits.lease_left(leased).await.unwrap(), LeaseLeft::Endless, "as long as can be");
            assert_eq!(permits.acquire_within(3, None, ms(20)).await.unwrap(), None);
            assert_eq!(listener.heard(), Vec::<String>::new());

            assert!(permits.release(leased).await.unwrap());
            assert!(!permits.release(leased).await.unwrap());
            assert!(!permits.update_lease(leased, None).await.unwrap());
            assert_eq!(permits.lease_left(leased).await.unwrap(), LeaseLeft::Gone);
            assert_eq!((counts().await, listener.heard()), ((3, 2, 5), vec!["3".into()]));
            assert!(!permits.release_all(&[kept[0], leased]).await.unwrap(), "one of them is not out");
            assert_eq!(counts().await, (3, 2, 5));

            permits.set_permits(1).await.unwrap();
            assert_eq!(counts().await, (-1, 2, 1));
            permits.set_permits(1).await.unwrap();
            permits.set_permits(4).await.unwrap();
            assert_eq!(counts().await, (2, 2, 4));
            assert_eq!(listener.heard(), ["1", "4"]);
            assert_eq!(permits.add_permits(3).await.unwrap(), 5);
            assert_eq!(permits.add_permits(-1).await.unwrap(), 4);
            assert_eq!(listener.heard(), ["3"]);
            assert!(permits.release_all(&kept).await.unwrap());
            assert_eq!((counts().await, listener.heard()), ((6, 0, 6), vec!["2".into()]));
            assert_eq!(stage.cli(&["EXISTS", zset]), "0");
            permits.set_permits(0).await.unwrap();
            assert_eq!(permits.try_acquire(1, None).await.unwrap(), None, "it is closed");
            assert!(permits.delete().await.unwrap());
            assert!(!permits.delete().await.unwrap());
            permits.set_permits(2).await.unwrap();
            assert_eq!(stage.cli(&["GET", name]), "2");
            assert_eq!(listener.heard(), ["0", "2"]);
            permits.try_acquire(1, None).await.unwrap().unwrap();
            assert!(permits.delete().await.unwrap());
            assert_eq!(stage.cli(&["EXISTS", zset]), "0", "both keys are gone");
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_expired_permit_is_taken_back_by_whoever_comes_and_does_not_count_as_given_back() {
    on_all(|stage| async move {
        let (name, zset) = ("permits:expired", "{permits:expired}:timeout");
        let permits = stage.redis().redisson_permits(name);
        let mut listener = stage.listen("redisson_sc:{permits:expired}");
        permits.try_set_permits(2).await.unwrap();
        let id = permits.try_acquire(2, Some(ms(1))).await.unwrap().unwrap();
        let late = async || while permits.lease_left(id[1]).await.unwrap() != LeaseLeft::Gone {};
        soon(late()).await;
        assert_eq!(permits.available_permits().await.unwrap(), 2);
        assert_eq!((stage.cli(&["GET", name]), stage.cli(&["EXISTS", zset])), ("2".into(), "0".into()));
        assert_eq!(listener.heard().last().map(String::as_str), Some("2"));
        assert!(!permits.release(id[0]).await.unwrap());
        assert_eq!(stage.cli(&["GET", name]), "2", "not twice");
        // One whose lease is over and that nobody has taken back yet, as Redisson would leave it.
        let other = "00000000000000000000000000000000".parse().unwrap();
        let add = "redis.call('DECR', KEYS[1]) redis.call('ZADD', ARGV[1], 1, string.rep('\\0', 16))";
        stage.eval(add, name, &[zset]);
        assert!(!permits.release(other).await.unwrap(), "it was not in time");
        assert_eq!(permits.permits().await.unwrap(), 2, "but it is back");
        assert!(permits.delete().await.unwrap());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn permits_of_a_semaphore_with_a_ttl_end_with_it() {
    on_all(|stage| async move {
        let (name, zset) = ("permits:ttl", "{permits:ttl}:timeout");
        let permits = stage.redis().redisson_permits(name);
        permits.try_set_permits(2).await.unwrap();
        assert_eq!(stage.call(&["PEXPIRE", name, "100000"]), Reply::Int(1));
        permits.try_acquire(1, None).await.unwrap().unwrap();
        let ttl: i64 = stage.cli(&["PTTL", zset]).parse().unwrap();
        assert!((1..=100_000).contains(&ttl), "{ttl}");
        assert!(permits.delete().await.unwrap());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_waits_is_told_of_what_others_give_back_and_of_what_expires() {
    on_all(|stage| async move {
        let (name, zset) = ("permits:told", "{permits:told}:timeout");
        let redis = stage.redis();
        let permits = redis.redisson_permits(name);
        permits.try_set_permits(1).await.unwrap();
        let mut held = permits.acquire(1, None).await.unwrap()[0];
        let (mut spans, mut late) = (Vec::new(), Vec::new());
        for round in 0..12 {
            let other = permits.clone();
            if round % 4 == 3 {
                assert!(permits.update_lease(held, Some(ms(400))).await.unwrap());
            }
            let began = now();
            let waiting = stage.waiting(name, [async move { other.acquire(1, None).await }]).await.remove(0);
            let released = now();
            match round % 4 {
                // As Redisson does: the bytes of the id, the counter, the message.
                0 => {
                    let bytes = "redis.call('ZREM', ARGV[1], (string.gsub(ARGV[2], '..', function(h) \
                        return string.char(tonumber(h, 16)) end))) return redis.call('INCRBY', KEYS[1], 1)";
                    assert_eq!(stage.eval(bytes, name, &[zset, &held.to_string()]), Reply::Int(1));
                    stage.publish("redisson_sc:{permits:told}", "1");
                }
                1 => assert!(stage.redis().redisson_permits(name).release(held).await.unwrap()),
                2 => assert!(permits.release(held).await.unwrap()),
                _ => {}
            }
            held = soon(waiting).await.unwrap().unwrap()[0];
            match round % 4 {
                3 => late.push(now().since(began).saturating_sub(ms(400))),
                _ => spans.push(now().since(released)),
            }
            assert_eq!(stage.cli(&["GET", name]), "0");
            assert_eq!(stage.cli(&["ZCARD", zset]), "1");
        }
        assert_told(spans);
        assert_told(late);
        assert!(permits.delete().await.unwrap());
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_name_whose_keys_a_cluster_would_part_is_refused_there_and_good_elsewhere() {
    on_all(|stage| async move {
        for name in ["permits:{", "permits:}x"] {
            let permits = stage.redis().redisson_permits(name);
            match permits.try_set_permits(1).await {
                Ok(set) => {
                    assert!(set && !stage.is_cluster());
                    let ids = permits.acquire(1, None).await.unwrap();
                    assert!(permits.release_all(&ids).await.unwrap());
                    assert!(permits.delete().await.unwrap());
                }
                Err(why) => {
                    assert!(stage.is_cluster() && why.kind() == ErrorKind::Invalid, "{why}");
                    assert!(why.to_string().contains(name), "{why}");
                }
            }
        }
    })
    .await;
}
