//! Scripts, the caller's and those that write a ttl.

use bramah_core::ErrorKind;
use bramah_redis::data::{End, Script};
use serde::de::IgnoredAny;

use crate::rig::*;

#[tokio::test]
async fn a_script_takes_typed_arguments_and_gives_a_typed_answer() {
    on_each(|on, data| async move {
        let put = Script::new("redis.call('SET', KEYS[1], ARGV[1]) return redis.call('GET', KEYS[1])");
        let put = |value: &Order| put.call().key("scripts:a").arg(value);
        assert_eq!(data.run::<Order>(put(&order("apple", 3))).await.unwrap(), order("apple", 3));
        assert_eq!(on.cli(&["GET", "scripts:a"]), r#"{"item":"apple","count":3}"#);
        assert_eq!(data.value::<Order>("scripts:a").get().await.unwrap(), Some(order("apple", 3)));
        refused(
            data.run::<u32>(put(&order("hush", 1))).await,
            ErrorKind::Corrupt,
            &["the script", "not of the type u32"],
        );

        let field = Script::new(
            "redis.call('HINCRBY', KEYS[1], ARGV[1], ARGV[2]) return redis.call('HKEYS', KEYS[2])",
        );
        let call = field.call().key("{scripts}:b").key("{scripts}:c").text("n").arg(&5);
        assert_eq!(data.run::<Vec<String>>(call).await.unwrap(), [""; 0]);
        assert_eq!(on.cli(&["HGET", "{scripts}:b", "n"]), "5");

        let answer = |code: &str| Script::new(code).call();
        assert_eq!(data.run::<i64>(answer("return 7")).await.unwrap(), 7);
        assert_eq!(data.run::<Option<i64>>(answer("return false")).await.unwrap(), None);
        data.run::<()>(answer("return nil")).await.unwrap();
        data.run::<IgnoredAny>(answer("return 1")).await.unwrap();
        assert_eq!(data.run::<String>(answer("return {ok = 'done'}")).await.unwrap(), "done");
        assert_eq!(data.run::<String>(answer("return redis.status_reply('OK')")).await.unwrap(), "OK");
        assert_eq!(data.run::<String>(answer("return cjson.encode('a b')")).await.unwrap(), "a b");
        let mixed =
            data.run::<(i64, String, Vec<f64>)>(answer("return {1, '\"x\"', {2, '0.5'}}")).await.unwrap();
        assert_eq!(mixed, (1, "x".to_owned(), vec![2.0, 0.5]));
        refused(
            data.run::<String>(answer("return 'hush me'")).await,
            ErrorKind::Corrupt,
            &["not json", "alloc::string::String", "cjson.encode"],
        );
        data.delete_many(["scripts:a", "{scripts}:b"]).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_script_that_fails_says_how() {
    on_each(|on, data| async move {
        let run = |code: &str| data.run::<IgnoredAny>(Script::new(code).call().key("scripts:fail"));
        refused(run("return nonsense(").await, ErrorKind::Invalid, &["the script", "compil"]);
        refused(run("error('boom')").await, ErrorKind::Invalid, &["the script", "boom"]);
        refused(run("return redis.error_reply('MINE is it')").await, ErrorKind::Invalid, &["MINE is it"]);
        on.cli(&["SET", "scripts:fail", "1"]);
        refused(run("return redis.call('LLEN', KEYS[1])").await, ErrorKind::Invalid, &["WRONGTYPE"]);
        data.delete("scripts:fail").await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn keys_of_several_slots_are_refused_in_a_cluster_and_only_there() {
    on_each(|on, data| async move {
        let script = Script::new("return redis.call('EXISTS', KEYS[1], KEYS[2])");
        let done = data.run::<i64>(script.call().key("scripts:x").key("scripts:y")).await;
        match on {
            On::Cluster => {
                let parts = ["\"scripts:x\"", "\"scripts:y\"", "different slots", "{tag}"];
                refused(done, ErrorKind::Invalid, &parts);
            }
            On::One | On::Sentinels => assert_eq!(done.unwrap(), 0),
        }
    })
    .await;
}

#[tokio::test]
async fn scripts_that_the_server_forgot_are_sent_again() {
    on_each(|on, data| async move {
        let flush = || {
            for server in on.servers() {
                server.cli(&["SCRIPT", "FLUSH"]).unwrap();
            }
        };
        let script = Script::new("return redis.call('INCR', KEYS[1])");
        let (map, set, list) = (
            data.map::<u32>("scripts:map"),
            data.set::<u32>("scripts:set"),
            data.list::<u32>("scripts:list"),
        );
        for n in 1..=3_u32 {
            flush();
            map.set_with_ttl("n", &n, MINUTE).await.unwrap();
            flush();
            set.add_with_ttl(&n, MINUTE).await.unwrap();
            flush();
            assert_eq!(list.push_with_ttl(End::Back, &n, MINUTE).await.unwrap(), u64::from(n));
            flush();
            assert_eq!(data.run::<u32>(script.call().key("scripts:n")).await.unwrap(), n, "once each");
        }
        assert_eq!(on.cli(&["HGET", "scripts:map", "n"]), "3");
        assert_eq!(on.cli(&["SCARD", "scripts:set"]), "3");
        assert_eq!(on.cli(&["LRANGE", "scripts:list", "0", "-1"]), "1\n2\n3");
        data.delete_many(["scripts:map", "scripts:set", "scripts:list", "scripts:n"]).await.unwrap();
    })
    .await;
}
