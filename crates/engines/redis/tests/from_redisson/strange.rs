//! What clocks, other people's data and missing rights do to Redisson's keys.

use std::{sync::Arc, time::Duration};

use bramah_core::{Claim, ClaimId, Engine, Exit, Name, Scope, SessionId, Standing, Wait};
use bramah_redis::Redis;

use crate::stage::*;

fn claim(seq: u64, capacity: u32, weight: u32) -> Claim {
    Claim {
        id: ClaimId { session: SessionId::from_bits(0xfeed), seq },
        name: Name::new("orders").unwrap(),
        capacity,
        weight,
        wait: Wait::Line,
        again: false,
        floor: None,
        ttl: Duration::from_secs(30),
        lease: None,
        note: "".into(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_lives_keeps_its_place_when_the_lock_goes_from_hand_to_hand() {
    let stage = Stage::enter().await;
    let redis = Redis::from_url(&format!("{}&fair=true", stage.url())).unwrap();
    let line: Vec<_> = (1..=9).map(|seq| Arc::new(claim(seq, 1, 1))).collect();
    for claim in &line {
        redis.claim(claim.clone()).await.unwrap();
    }
    // From behind: each proves its life when those ahead are about to prove theirs.
    tokio::time::sleep(ms(2000)).await;
    for claim in line.iter().rev() {
        let renewal = redis.renew(claim.id.session, [claim.clone()].into()).await.unwrap();
        assert!(renewal.gone.is_empty(), "{renewal:?}");
    }
    for pair in line.windows(2) {
        redis.withdraw(pair[0].clone(), Exit::Own).await.unwrap();
        let asked = redis.claim(Arc::new(pair[1].asking())).await.unwrap();
        assert!(matches!(asked, Standing::Held { .. }), "{asked:?} for {:?}", pair[1].id);
    }
    redis.withdraw(line[8].clone(), Exit::Own).await.unwrap();
    assert_eq!(stage.cli(&["KEYS", "*queue*"]).trim(), "", "nobody is left");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_held_a_fair_lock_until_it_was_lost_is_forgotten() {
    let stage = Stage::enter().await;
    let redis = Redis::from_url(&format!("{}&fair=true", stage.url())).unwrap();
    for seq in 1..=4 {
        let brief = Claim { lease: Some(ms(300)), ..claim(seq, 1, 1) };
        let held = redis.claim(Arc::new(brief)).await.unwrap();
        assert!(matches!(held, Standing::Held { .. }), "{held:?}");
        // A lock that is never at rest.
        assert_eq!(stage.number(&["PEXPIRE", "bramah:queue:orders", "60000"]), 1);
        tokio::time::sleep(ms(350)).await;
    }
    assert!(stage.number(&["ZCARD", "bramah:queue:orders"]) <= 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn other_peoples_hashes_are_no_locks_and_cost_nothing_to_look_at() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    stage.cli(&["HSET", "settings", "mode", "dark", "visits", "900000000"]);
    stage.cli(&["HSET", "access", "mode", "read", "visits:today", "900000000"]);
    let began = now();
    let lines = soon(session.survey(&Scope::All)).await.unwrap();
    assert!(lines.iter().all(|line| line.name.as_str() != "settings"), "{lines:?}");
    assert!(session.inspect(&Name::new("settings").unwrap()).await.is_err());
    assert!(now().since(began) < ms(2000), "the server was busy for {:?}", now().since(began));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_writer_with_a_name_of_another_form_is_broken_and_not_its_reader() {
    let stage = Stage::enter().await;
    let session = stage.session().await;
    let owner = "8743c9c0-0795-4907-87fd-6c719a6b4586:-5";
    stage.cli(&["HSET", "orders", "mode", "write", &format!("{owner}:write"), "1", owner, "1"]);
    stage.cli(&["PEXPIRE", "orders", "30000"]);
    stage.cli(&["SET", &format!("{{orders}}:{owner}:rwlock_timeout:1"), "1", "PX", "30000"]);
    let seen = line(&session, "orders").await;
    let writer = seen.holders().find(|place| place.claim.weight == u32::MAX).unwrap();
    let name = Name::new("orders").unwrap();
    assert!(session.break_hold(&name, writer.claim.id.tag(), "it hangs").await.unwrap());
    assert_eq!(stage.lines(&["HGET", "orders", "mode"]), ["read"]);
    assert_eq!(stage.number(&["HEXISTS", "orders", owner]), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn permits_that_a_fast_clock_ended_are_not_taken_twice() {
    let stage = Stage::enter().await;
    let redis = stage.redis();
    let three = Arc::new(claim(1, 5, 3));
    assert!(matches!(redis.claim(three.clone()).await.unwrap(), Standing::Held { .. }));
    // What one of Redisson's does whose clock is ahead: it takes back one of the three.
    stage.cli(&["ZPOPMIN", "{orders}:timeout"]);
    stage.cli(&["INCRBY", "orders", "1"]);
    assert!(matches!(redis.claim(three).await.unwrap(), Standing::Held { .. }));
    assert_eq!(stage.number(&["GET", "orders"]) + stage.number(&["ZCARD", "{orders}:timeout"]), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_who_may_not_set_its_expiry_leaves_nothing() {
    let stage = Stage::enter().await;
    stage.cli(&["ACL", "SETUSER", "half", "on", ">hush", "~*", "&*", "+@all", "-pexpire"]);
    let redis = Redis::from_url(&stage.url().replace("redis://", "redis://half:hush@")).unwrap();
    assert!(redis.claim(Arc::new(claim(1, u32::MAX, 1))).await.is_err());
    assert_eq!(stage.cli(&["KEYS", "*orders*"]).trim(), "");
    stage.cli(&["ACL", "DELUSER", "half"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_writer_does_not_take_other_peoples_hash_for_readers() {
    let stage = Stage::enter().await;
    stage.cli(&["HSET", "orders", "mode", "read", "alice", "1"]);
    assert!(stage.redis().claim(Arc::new(claim(1, u32::MAX, u32::MAX))).await.is_err());
    assert_eq!(stage.lines(&["HGETALL", "orders"]), ["mode", "read", "alice", "1"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_card_that_is_none_keeps_no_lock_from_its_renewal() {
    let stage = Stage::enter().await;
    let redis = stage.redis();
    let one = Arc::new(claim(1, 1, 1));
    assert!(matches!(redis.claim(one.clone()).await.unwrap(), Standing::Held { .. }));
    let card = stage.lines(&["KEYS", "bramah:card:*"]).remove(0);
    stage.cli(&["DEL", &card]);
    stage.cli(&["RPUSH", &card, "x"]);
    stage.cli(&["PEXPIRE", "orders", "9000"]);
    let renewal = redis.renew(one.id.session, [one].into()).await.unwrap();
    assert!(renewal.unknown.is_empty(), "{renewal:?}");
    assert!(stage.pttl("orders") > 9000);
}

/// The lock itself lives on by others: only what is written of the one whose time is over tells.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_reader_and_a_permit_whose_time_is_over_are_not_renewed() {
    let stage = Stage::enter().await;
    for capacity in [u32::MAX, 3] {
        let redis = stage.redis();
        let late = Arc::new(Claim { ttl: ms(3000), ..claim(1, capacity, 1) });
        for claim in [late.clone(), Arc::new(claim(2, capacity, 1))] {
            let held = redis.claim(claim).await.unwrap();
            assert!(matches!(held, Standing::Held { .. }), "{held:?}");
        }
        eventually("its time is over", || {
            let time = stage.lines(&["TIME"]);
            let now_ms: u64 = time[0].parse::<u64>().unwrap() * 1000 + time[1].parse::<u64>().unwrap() / 1000;
            let over = match capacity {
                3 => stage.number(&["ZCOUNT", "{orders}:timeout", "-inf", &now_ms.to_string()]) == 1,
                _ => stage.lines(&["KEYS", "*rwlock_timeout*"]).len() == 1,
            };
            if over { Ok(()) } else { Err("not yet".to_owned()) }
        })
        .await;
        let renewal = redis.renew(late.id.session, [late.clone()].into()).await.unwrap();
        assert_eq!(renewal.gone, [late.id]);
        stage.cli(&["DEL", "orders"]);
    }
}
