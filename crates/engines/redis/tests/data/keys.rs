//! Keys, whatever they hold.

use std::time::Duration;

use bramah_core::ErrorKind;
use bramah_redis::{Redis, data::Ttl};

use crate::rig::*;

#[tokio::test]
async fn a_key_without_a_ttl_one_with_it_and_none_are_told_apart() {
    on_each(|on, data| async move {
        assert_eq!(data.ttl("keys:a").await.unwrap(), Ttl::NoKey);
        assert!(!data.exists("keys:a").await.unwrap());
        assert!(!data.expire("keys:a", MINUTE).await.unwrap());
        assert!(!data.persist("keys:a").await.unwrap());
        on.cli(&["SET", "keys:a", "1"]);
        assert!(data.exists("keys:a").await.unwrap());
        assert_eq!(data.ttl("keys:a").await.unwrap(), Ttl::Unlimited);
        assert!(data.expire("keys:a", MINUTE).await.unwrap());
        assert!(on.ends_in_a_minute("keys:a"));
        let ttl = data.ttl("keys:a").await.unwrap();
        assert!(matches!(ttl, Ttl::Left(left) if left <= MINUTE && left > MINUTE / 2), "{ttl:?}");
        assert!(data.persist("keys:a").await.unwrap());
        assert!(on.stays("keys:a"));
        assert!(!data.persist("keys:a").await.unwrap());
        assert!(data.delete("keys:a").await.unwrap());
        assert!(!data.delete("keys:a").await.unwrap());
        assert_eq!(on.cli(&["EXISTS", "keys:a"]), "0");
    })
    .await;
}

#[tokio::test]
async fn many_keys_are_deleted_wherever_they_are() {
    on_each(|on, data| async move {
        let keys: Vec<String> = (0..300).map(|n| format!("keys:many:{n}")).collect();
        for key in &keys {
            data.value::<u32>(key).set(&1).await.unwrap();
        }
        assert_eq!(on.cli(&["GET", "keys:many:7"]), "1");
        let named = || keys.iter().map(String::as_str);
        // One of them twice, and one that is not there.
        let deleted = data.delete_many(named().chain(["keys:many:0", "keys:many:none"])).await.unwrap();
        assert_eq!(deleted, 300);
        for key in ["keys:many:0", "keys:many:150", "keys:many:299"] {
            assert_eq!(on.cli(&["EXISTS", key]), "0");
        }
        assert_eq!(data.delete_many(named()).await.unwrap(), 0);
        assert_eq!(data.delete_many([]).await.unwrap(), 0);
    })
    .await;
}

#[tokio::test]
async fn a_ttl_is_from_a_millisecond_to_what_redis_takes() {
    on_each(|on, data| async move {
        let value = data.value::<u32>("keys:ttl");
        for ttl in [Duration::ZERO, Duration::MAX, Duration::from_millis(i64::MAX as u64)] {
            refused(data.expire("keys:ttl", ttl).await, ErrorKind::Invalid, &["keys:ttl", "ttl"]);
            refused(value.set_with_ttl(&1, ttl).await, ErrorKind::Invalid, &["keys:ttl", "ttl"]);
        }
        assert_eq!(on.cli(&["EXISTS", "keys:ttl"]), "0");
        let longest = Duration::from_millis(i64::MAX as u64 - (1 << 48));
        value.set_with_ttl(&1, longest).await.unwrap();
        assert!(matches!(data.ttl("keys:ttl").await.unwrap(), Ttl::Left(left) if left > longest / 2));
        assert!(data.expire("keys:ttl", longest).await.unwrap());
        let set = data.set::<u32>("keys:ttl:set");
        set.add_with_ttl(&1, longest).await.unwrap();
        assert!(!on.stays("keys:ttl:set"));
        // Less than a millisecond is one, and not none.
        assert!(data.expire("keys:ttl", Duration::from_nanos(1)).await.unwrap());
        bramah_lab::until("the end of the key", MINUTE, || match on.cli(&["EXISTS", "keys:ttl"]).as_str() {
            "0" => Ok(()),
            other => Err(other.to_owned()),
        })
        .unwrap();
    })
    .await;
}

#[tokio::test]
async fn it_works_on_any_layout_and_over_several_connections() {
    for query in ["?layout=native", "?layout=plain", "?connections=4", "?layout=plain&prefix=locks:"] {
        let redis = Redis::from_url(&format!("{}{query}", On::One.url())).unwrap();
        let data = redis.data();
        for n in 0..16 {
            data.value::<u32>(&format!("keys:layout:{n}")).set(&n).await.unwrap();
        }
        assert_eq!(On::One.cli(&["GET", "keys:layout:9"]), "9");
        let keys: Vec<_> = (0..16).map(|n| format!("keys:layout:{n}")).collect();
        assert_eq!(data.delete_many(keys.iter().map(String::as_str)).await.unwrap(), 16);
    }
}
