//! The other servers that the engine is for.

use bramah_core::ErrorKind;
use bramah_lab::{Redis as Server, servers::Flavor};
use bramah_redis::{
    Redis,
    data::{End, Script, Ttl},
};

use crate::rig::*;

#[tokio::test]
async fn it_is_the_same_on_newer_servers_and_on_valkey() {
    for flavor in [Flavor::Redis8, Flavor::Valkey8] {
        let server = Server::start(flavor).unwrap();
        let data = Redis::from_url(&server.url()).unwrap().data();
        let (value, map) = (data.value::<Order>("value"), data.map::<i64>("map"));
        let (set, list) = (data.set::<String>("set"), data.list::<u32>("list"));
        value.set_with_ttl(&order("apple", 3), MINUTE).await.unwrap();
        assert_eq!(
            value.get_and_set(&order("pear", 1), Some(MINUTE)).await.unwrap(),
            Some(order("apple", 3))
        );
        map.set_many_with_ttl([("a", &1), ("b", &2)], MINUTE).await.unwrap();
        assert_eq!(map.increment("a", 4).await.unwrap(), 5);
        assert_eq!(data.map::<f64>("map").increment("b", 0.5).await.unwrap(), 2.5);
        assert_eq!(data.map::<f64>("map").entries().await.unwrap().into_values().sum::<f64>(), 7.5);
        assert!(set.add_with_ttl("red", MINUTE).await.unwrap());
        assert_eq!(set.members().await.unwrap(), ["red"]);
        list.push_many_with_ttl(End::Back, &[1, 2, 3], MINUTE).await.unwrap();
        assert_eq!(list.range(0, -1).await.unwrap(), [1, 2, 3]);
        for key in ["value", "map", "set", "list"] {
            assert!(matches!(data.ttl(key).await.unwrap(), Ttl::Left(left) if left <= MINUTE), "{key}");
        }
        refused(list.set(3, &1).await, ErrorKind::Invalid, &["no place 3", "shorter"]);
        refused(data.list::<u32>("none").set(0, &1).await, ErrorKind::Invalid, &["no list yet"]);
        refused(data.map::<i64>("map").increment("b", 1).await, ErrorKind::Corrupt, &["not a whole number"]);
        refused(data.value::<i64>("value").increment(1).await, ErrorKind::Corrupt, &["not a whole number"]);
        refused(map.increment("a", i64::MAX).await, ErrorKind::Invalid, &["out of the range"]);
        refused(data.set::<u32>("list").size().await, ErrorKind::Corrupt, &["holds a list and not a set"]);
        let gone = Script::new("return redis.call('DEL', KEYS[1])").call().key("list");
        assert_eq!(data.run::<u32>(gone).await.unwrap(), 1);
    }
}
