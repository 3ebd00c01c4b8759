//! Maps.

use std::collections::BTreeMap;

use bramah_core::ErrorKind;

use crate::rig::*;

#[tokio::test]
async fn fields_are_written_one_by_one_or_together() {
    on_each(|on, data| async move {
        let map = data.map::<Order>("maps:a");
        assert_eq!(map.get("x").await.unwrap(), None);
        assert_eq!(map.entries().await.unwrap(), BTreeMap::new());
        assert!(map.set("x", &order("apple", 1)).await.unwrap());
        assert!(!map.set("x", &order("apple", 2)).await.unwrap());
        assert_eq!(on.cli(&["HGET", "maps:a", "x"]), r#"{"item":"apple","count":2}"#);
        assert!(on.stays("maps:a"));
        assert!(map.set_with_ttl("y", &order("pear", 3), MINUTE).await.unwrap());
        assert!(!map.set_with_ttl("y", &order("pear", 4), MINUTE).await.unwrap());
        assert_eq!(on.cli(&["HGET", "maps:a", "y"]), r#"{"item":"pear","count":4}"#);
        assert!(on.ends_in_a_minute("maps:a"));
        assert!(map.contains("y").await.unwrap());
        assert!(!map.contains("z").await.unwrap());
        let (plum, fig) = (order("plum", 5), order("fig", 6));
        assert_eq!(map.set_many([("y", &plum), ("z", &fig)]).await.unwrap(), 1);
        assert!(on.ends_in_a_minute("maps:a"), "what is set without a ttl leaves that of the map");
        assert_eq!(map.get("y").await.unwrap(), Some(plum.clone()));
        assert_eq!(map.size().await.unwrap(), 3);
        let all = [("x", order("apple", 2)), ("y", plum), ("z", fig)].map(|(k, v)| (k.to_owned(), v));
        assert_eq!(map.entries().await.unwrap(), BTreeMap::from(all));
        assert!(map.delete("x").await.unwrap());
        assert!(!map.delete("x").await.unwrap());
        assert_eq!(map.delete_many(["x", "y"]).await.unwrap(), 1);
        assert_eq!(on.cli(&["HKEYS", "maps:a"]), "z");
        assert_eq!(map.delete_many([]).await.unwrap(), 0);
        assert_eq!(map.delete_many(["z"]).await.unwrap(), 1);
        assert!(!data.exists("maps:a").await.unwrap());
    })
    .await;
}

#[tokio::test]
async fn many_fields_and_their_ttl_are_written_at_once() {
    on_each(|on, data| async move {
        let map = data.map::<u32>("maps:many");
        // More than a call in Lua takes.
        let entries: Vec<(String, u32)> = (0..9001).map(|n| (format!("f{n}"), n)).collect();
        let named = || entries.iter().map(|(field, n)| (field.as_str(), n));
        assert_eq!(map.set_many_with_ttl(named(), MINUTE).await.unwrap(), 9001);
        assert!(on.ends_in_a_minute("maps:many"));
        assert_eq!(on.cli(&["HLEN", "maps:many"]), "9001");
        assert_eq!(on.cli(&["HGET", "maps:many", "f8999"]), "8999");
        assert_eq!(map.entries().await.unwrap(), entries.iter().cloned().collect());
        assert_eq!(map.set_many_with_ttl([("f1", &7), ("new", &8)], MINUTE).await.unwrap(), 1);
        data.persist("maps:many").await.unwrap();
        assert_eq!(map.set_many_with_ttl::<u32>([], MINUTE).await.unwrap(), 0);
        assert!(on.stays("maps:many"), "nothing to set does not set the ttl");
        assert_eq!(map.set_many::<u32>([]).await.unwrap(), 0);
        data.delete("maps:many").await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn fields_count_in_whole_steps() {
    on_each(|on, data| async move {
        let map = data.map::<i64>("maps:whole");
        assert_eq!(map.increment("n", 5).await.unwrap(), 5);
        assert_eq!(map.decrement("n", 7).await.unwrap(), -2);
        assert_eq!(on.cli(&["HGET", "maps:whole", "n"]), "-2");
        assert_eq!(map.get("n").await.unwrap(), Some(-2));
        for step in [0, -3] {
            let parts = ["field \"n\"", "maps:whole", &format!("step of {step}"), "above zero"];
            refused(map.increment("n", step).await, ErrorKind::Invalid, &parts);
            refused(map.decrement("n", step).await, ErrorKind::Invalid, &parts);
        }
        map.set("n", &i64::MAX).await.unwrap();
        refused(
            map.increment("n", 1).await,
            ErrorKind::Invalid,
            &["maps:whole", "\"n\"", "out of the range"],
        );
        map.set("n", &i64::MIN).await.unwrap();
        refused(
            map.decrement("n", 1).await,
            ErrorKind::Invalid,
            &["maps:whole", "\"n\"", "out of the range"],
        );
        on.cli(&["HSET", "maps:whole", "n", "many"]);
        refused(
            map.increment("n", 1).await,
            ErrorKind::Corrupt,
            &["maps:whole", "\"n\"", "not a whole number"],
        );
        data.delete("maps:whole").await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn fields_count_in_fractions() {
    on_each(|on, data| async move {
        let map = data.map::<f64>("maps:fraction");
        assert_eq!(map.increment("x", 2.5).await.unwrap(), 2.5);
        assert_eq!(map.decrement("x", 0.25).await.unwrap(), 2.25);
        assert_eq!(on.cli(&["HGET", "maps:fraction", "x"]), "2.25");
        assert_eq!(map.get("x").await.unwrap(), Some(2.25));
        assert_eq!(map.increment("x", 0.75).await.unwrap(), 3.0);
        assert_eq!(map.get("x").await.unwrap(), Some(3.0), "Redis writes it without a point");
        for step in [0.0, -0.0, -1.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let parts = ["maps:fraction", "\"x\"", &format!("step of {step}"), "finite and above zero"];
            refused(map.increment("x", step).await, ErrorKind::Invalid, &parts);
            refused(map.decrement("x", step).await, ErrorKind::Invalid, &parts);
        }
        assert_eq!(map.increment("tiny", 1e-9).await.unwrap(), 1e-9);
        assert_eq!(map.increment("huge", 1e300).await.unwrap(), 1e300);
        assert_eq!(map.get("huge").await.unwrap(), Some(1e300));
        map.increment("over", f64::MAX).await.unwrap();
        let over = ["maps:fraction", "\"over\"", "out of the range"];
        refused(map.increment("over", f64::MAX).await, ErrorKind::Invalid, &over);
        refused(map.get("over").await, ErrorKind::Corrupt, &["maps:fraction", "\"over\"", "f64"]);
        on.cli(&["HSET", "maps:fraction", "x", "much"]);
        refused(
            map.increment("x", 1.0).await,
            ErrorKind::Corrupt,
            &["maps:fraction", "\"x\"", "not a number"],
        );
        data.delete("maps:fraction").await.unwrap();
    })
    .await;
}
