//! Names, and which of them work where.

use super::*;

fn object(url: &str, kind: Kind, name: &str) -> Object {
    Object::new(&Redis::from_url(url).unwrap(), kind, name.to_owned())
}

#[test]
fn keys_and_channels_are_named_as_redisson_names_them() {
    for (name, keys, channel, latch) in [
        ("a", ["a", "{a}:timeout"], "redisson_sc:{a}", "redisson_countdownlatch__channel__{a}"),
        (
            "a:b/ü",
            ["a:b/ü", "{a:b/ü}:timeout"],
            "redisson_sc:{a:b/ü}",
            "redisson_countdownlatch__channel__{a:b/ü}",
        ),
        ("{t}x", ["{t}x", "{t}x:timeout"], "redisson_sc:{t}x", "redisson_countdownlatch__channel__{{t}x}"),
        ("a{b", ["a{b", "a{b:timeout"], "redisson_sc:a{b", "redisson_countdownlatch__channel__{a{b}"),
        ("a}b", ["a}b", "{a}b}:timeout"], "redisson_sc:{a}b}", "redisson_countdownlatch__channel__{a}b}"),
    ] {
        let url = "redis://localhost";
        assert_eq!(*object(url, Kind::Permits, name).keys, keys);
        assert_eq!(*object(url, Kind::Semaphore, name).keys, keys[..1]);
        assert_eq!(&*object(url, Kind::Permits, name).channel, channel);
        assert_eq!(&*object(url, Kind::Semaphore, name).channel, channel);
        assert_eq!(&*object(url, Kind::Latch, name).channel, latch);
    }
}

#[test]
fn in_a_cluster_nothing_is_published_to_another_slot_and_keys_are_not_parted() {
    let url = "redis+cluster://localhost:7000";
    for (name, parted, told, latch_told) in [
        ("a", false, true, true),
        ("{t}x", false, true, false),
        ("a{b", true, false, true),
        ("a}b", true, false, false),
    ] {
        let (permits, semaphore) = (object(url, Kind::Permits, name), object(url, Kind::Semaphore, name));
        let latch = object(url, Kind::Latch, name);
        assert_eq!((permits.apart, semaphore.apart, latch.apart), (parted, false, false), "{name}");
        assert_eq!(!semaphore.channel.is_empty(), told, "{name}");
        assert_eq!(!latch.channel.is_empty(), latch_told, "{name}");
        assert!(!object("redis://localhost", Kind::Permits, name).apart, "{name}");
    }
}

#[test]
fn scripts_have_no_part_left_out() {
    for tells in [&["publish"][..], &["spublish"], &["publish", "spublish"]] {
        let scripts = Scripts::of(tells);
        for script in [
            &scripts.semaphore_set,
            &scripts.semaphore_add,
            &scripts.semaphore_release,
            &scripts.permits_acquire,
            &scripts.permits_release,
            &scripts.latch_count_down,
        ] {
            let code = script.code();
            assert!(!code.contains("@include") && !code.contains("@tell@"), "{script:?}");
            assert!(tells.iter().all(|word| code.contains(&format!("'{word}'"))), "{script:?}");
        }
    }
}

#[tokio::test]
async fn what_cannot_be_is_refused_before_anybody_is_asked() {
    // Nobody listens there: an answer of any other kind would have come from asking.
    let redis = Redis::from_url("redis+cluster://127.0.0.1:1?timeout=1s").unwrap();
    let (semaphore, permits) = (redis.redisson_semaphore("s"), redis.redisson_permits("p"));
    let latch = redis.redisson_latch("l");
    let id = PermitId::random().unwrap();
    let too_many = MOST + 1;
    let refused = [
        semaphore.try_set_permits(0, None).await.unwrap_err(),
        semaphore.try_set_permits(too_many, None).await.unwrap_err(),
        semaphore.try_set_permits(1, Some(Duration::ZERO)).await.unwrap_err(),
        semaphore.add_permits(0).await.unwrap_err(),
        semaphore.try_acquire(0).await.unwrap_err(),
        semaphore.acquire(0).await.unwrap_err(),
        semaphore.acquire_within(too_many, Duration::ZERO).await.unwrap_err(),
        semaphore.release(0).await.unwrap_err(),
        semaphore.release_if_exists(0).await.unwrap_err(),
        permits.try_set_permits(0).await.unwrap_err(),
        permits.set_permits(too_many).await.unwrap_err(),
        permits.add_permits(0).await.unwrap_err(),
        permits.try_acquire(0, None).await.unwrap_err(),
        permits.try_acquire(1 << 20, None).await.unwrap_err(),
        permits.try_acquire(1, Some(Duration::ZERO)).await.unwrap_err(),
        permits.acquire(0, None).await.unwrap_err(),
        permits.release_all(&[]).await.unwrap_err(),
        permits.update_lease(id, Some(Duration::ZERO)).await.unwrap_err(),
        redis.redisson_permits("a{b").release(id).await.unwrap_err(),
        latch.try_set_count(0).await.unwrap_err(),
        latch.try_set_count(u64::MAX).await.unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(!error.to_string().contains('\n') && error.to_string().contains("; use "), "{error}");
    }
}
