//! What goes wrong is told: which key, why, and never what is stored.

use std::{collections::BTreeMap, time::Duration};

use bramah_core::ErrorKind::{Corrupt, Denied, Invalid, Unavailable};
use bramah_redis::{Redis, data::End};

use crate::rig::*;

#[tokio::test]
async fn a_key_of_another_kind_is_named_with_what_it_holds() {
    on_each(|on, data| async move {
        on.cli(&["RPUSH", "faults:list", "1"]);
        on.cli(&["SET", "faults:value", "1"]);
        on.cli(&["ZADD", "faults:sorted", "1", "x"]);
        let key = "faults:list";
        let (value, map, set) = (data.value::<i64>(key), data.map::<i64>(key), data.set::<i64>(key));
        let parts = |noun: &'static str| [key, "holds a list", noun];
        refused(value.get().await, Corrupt, &parts("not a value"));
        refused(value.get_and_set(&1, None).await, Corrupt, &parts("not a value"));
        refused(value.increment(1).await, Corrupt, &parts("not a value"));
        refused(data.get_bytes(key).await, Corrupt, &parts("not a value"));
        refused(map.get("f").await, Corrupt, &parts("not a map"));
        refused(map.set("f", &1).await, Corrupt, &parts("not a map"));
        refused(map.set_with_ttl("f", &1, MINUTE).await, Corrupt, &parts("not a map"));
        refused(map.entries().await, Corrupt, &parts("not a map"));
        refused(map.increment("f", 1).await, Corrupt, &parts("not a map"));
        refused(data.map::<f64>(key).increment("f", 1.0).await, Corrupt, &parts("not a map"));
        refused(map.delete("f").await, Corrupt, &parts("not a map"));
        refused(map.contains("f").await, Corrupt, &parts("not a map"));
        refused(set.members().await, Corrupt, &parts("not a set"));
        refused(set.add(&1).await, Corrupt, &parts("not a set"));
        refused(set.add_with_ttl(&1, MINUTE).await, Corrupt, &parts("not a set"));
        refused(set.contains(&1).await, Corrupt, &parts("not a set"));
        assert!(on.stays(key), "who could not write does not give it an end");
        assert_eq!(on.cli(&["LRANGE", key, "0", "-1"]), "1");

        let list = data.list::<i64>("faults:value");
        let parts = ["faults:value", "holds a value and not a list"];
        refused(list.range(0, -1).await, Corrupt, &parts);
        refused(list.get(0).await, Corrupt, &parts);
        refused(list.set(0, &1).await, Corrupt, &parts);
        refused(list.remove(0, &1).await, Corrupt, &parts);
        refused(list.push(End::Back, &1).await, Corrupt, &parts);
        refused(list.push_with_ttl(End::Back, &1, MINUTE).await, Corrupt, &parts);
        refused(list.length().await, Corrupt, &parts);
        refused(
            data.set::<i64>("faults:sorted").size().await,
            Corrupt,
            &["holds a sorted set and not a set"],
        );
        data.delete_many(["faults:list", "faults:value", "faults:sorted"]).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_foreign_value_is_an_error_that_names_the_type_and_hides_the_value() {
    on_each(|on, data| async move {
        for foreign in ["hush", r#""hush""#, r#"{"item":"hush"}"#, ""] {
            on.cli(&["SET", "faults:foreign", foreign]);
            on.cli(&["HSET", "faults:foreign:map", "f", foreign]);
            on.cli(&["SADD", "faults:foreign:set", foreign]);
            on.cli(&["RPUSH", "faults:foreign:list", foreign]);
            let order = "Order";
            let errors = [
                data.value::<Order>("faults:foreign").get().await.unwrap_err(),
                data.map::<Order>("faults:foreign:map").get("f").await.unwrap_err(),
                data.map::<Order>("faults:foreign:map").entries().await.unwrap_err(),
                data.set::<Order>("faults:foreign:set").members().await.unwrap_err(),
                data.list::<Order>("faults:foreign:list").get(0).await.unwrap_err(),
                data.list::<Order>("faults:foreign:list").range(0, -1).await.unwrap_err(),
            ];
            for error in errors {
                assert_eq!(error.kind(), Corrupt, "{error}");
                let told = format!("{error} {error:?}");
                assert!(told.contains("faults:foreign") && told.contains(order), "{told}");
                assert!(!told.contains("hush") && !told.contains("127.0.0.1"), "{told}");
            }
            let keys = ["faults:foreign", "faults:foreign:map", "faults:foreign:set", "faults:foreign:list"];
            data.delete_many(keys).await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn what_json_has_no_form_for_is_not_written() {
    on_each(|on, data| async move {
        let pairs = BTreeMap::from([((1, 2), 3)]);
        let value = data.value::<BTreeMap<(i32, i32), i32>>("faults:pairs");
        refused(value.set(&pairs).await, Invalid, &["faults:pairs", "cannot be written as json"]);
        let list = data.list::<BTreeMap<(i32, i32), i32>>("faults:pairs");
        refused(list.push(End::Back, &pairs).await, Invalid, &["faults:pairs", "cannot be written as json"]);
        assert_eq!(on.cli(&["EXISTS", "faults:pairs"]), "0");
    })
    .await;
}

#[tokio::test]
async fn a_ttl_of_zero_is_refused_and_nothing_is_written() {
    on_each(|on, data| async move {
        let zero = Duration::ZERO;
        let key = "faults:zero";
        let parts = [key, "a ttl of zero"];
        let (value, map, set, list) =
            (data.value::<u32>(key), data.map::<u32>(key), data.set::<u32>(key), data.list::<u32>(key));
        refused(data.expire(key, zero).await, Invalid, &parts);
        refused(value.set_with_ttl(&1, zero).await, Invalid, &parts);
        refused(value.set_if_absent(&1, Some(zero)).await, Invalid, &parts);
        refused(value.set_if_present(&1, Some(zero)).await, Invalid, &parts);
        refused(value.get_and_set(&1, Some(zero)).await, Invalid, &parts);
        refused(data.set_bytes(key, b"1", Some(zero)).await, Invalid, &parts);
        refused(map.set_with_ttl("f", &1, zero).await, Invalid, &parts);
        refused(
            map.set_many_with_ttl([("f", &1)], Duration::MAX).await,
            Invalid,
            &[key, "longer than redis"],
        );
        refused(set.add_with_ttl(&1, zero).await, Invalid, &parts);
        refused(set.add_many_with_ttl([&1], zero).await, Invalid, &parts);
        refused(list.push_with_ttl(End::Back, &1, zero).await, Invalid, &parts);
        refused(list.push_many_with_ttl(End::Front, [&1], zero).await, Invalid, &parts);
        assert_eq!(on.cli(&["EXISTS", key]), "0");
    })
    .await;
}

#[tokio::test]
async fn a_server_that_is_not_there_is_an_error_that_names_the_key_and_no_secret() {
    // Nobody listens on the port of a server that has ended.
    let server = bramah_lab::Redis::start(bramah_lab::servers::Flavor::Redis7).unwrap();
    server.kill();
    let url = format!("redis://me:hush@{}?timeout=300ms", server.address());
    let data = Redis::from_url(&url).unwrap().data();
    let error = data.value::<u32>("faults:gone").get().await.unwrap_err();
    assert_eq!(error.kind(), Unavailable, "{error}");
    let told = format!("{error} {error:?}");
    assert!(told.contains("faults:gone") && !told.contains("hush"), "{told}");
    refused(
        data.map::<u32>("faults:gone").set_with_ttl("f", &1, MINUTE).await,
        Unavailable,
        &["faults:gone"],
    );
    refused(data.delete_many(["faults:gone"]).await, Unavailable, &["faults:gone"]);
    // Of nothing nobody is asked.
    assert_eq!(data.delete_many([]).await.unwrap(), 0);
    assert_eq!(data.list::<u32>("l").push_many::<u32>(End::Back, []).await.unwrap(), None);
    assert_eq!(data.map::<u32>("m").set_many::<u32>([]).await.unwrap(), 0);
}

#[tokio::test]
async fn who_may_not_set_a_ttl_writes_nothing() {
    on_each(|on, data| async move {
        for server in on.servers() {
            let rights = ["+@all", "-pexpire", "~*", "&*", ">hush"];
            server.cli(&[&["ACL", "SETUSER", "no-ttl", "reset", "on"][..], &rights].concat()).unwrap();
        }
        let url = on.url().replacen("://", "://no-ttl:hush@", 1);
        let limited = Redis::from_url(&url).unwrap().data();
        let key = "faults:rights";
        refused(limited.set::<u32>(key).add_with_ttl(&1, MINUTE).await, Denied, &[key, "pexpire"]);
        assert_eq!(on.cli(&["EXISTS", key]), "0");
        assert!(limited.set::<u32>(key).add(&1).await.unwrap());
        assert!(data.delete(key).await.unwrap());
    })
    .await;
}
