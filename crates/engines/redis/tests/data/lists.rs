//! Lists.

use bramah_core::ErrorKind;
use bramah_redis::data::End;

use crate::rig::*;

#[tokio::test]
async fn items_are_pushed_at_both_ends() {
    on_each(|on, data| async move {
        let list = data.list::<String>("lists:a");
        assert_eq!(list.length().await.unwrap(), 0);
        assert_eq!(list.push(End::Back, "c").await.unwrap(), 1);
        assert_eq!(list.push(End::Front, "b").await.unwrap(), 2);
        assert!(on.stays("lists:a"));
        assert_eq!(list.push_with_ttl(End::Back, "d", MINUTE).await.unwrap(), 3);
        assert!(on.ends_in_a_minute("lists:a"));
        assert_eq!(list.push_many(End::Back, ["e", "f"]).await.unwrap(), Some(5));
        assert_eq!(list.push_many(End::Front, ["a", "_"]).await.unwrap(), Some(7));
        let lines = on.cli(&["LRANGE", "lists:a", "0", "-1"]);
        assert_eq!(lines.lines().collect::<Vec<_>>().join(""), r#""_""a""b""c""d""e""f""#);
        assert_eq!(list.push_many::<str>(End::Back, []).await.unwrap(), None);
        data.persist("lists:a").await.unwrap();
        assert_eq!(list.push_many_with_ttl::<str>(End::Back, [], MINUTE).await.unwrap(), None);
        assert!(on.stays("lists:a"), "nothing to push does not set the ttl");
        assert_eq!(list.push_with_ttl(End::Front, "0", MINUTE).await.unwrap(), 8);
        assert_eq!(on.cli(&["LINDEX", "lists:a", "0"]), r#""0""#);
        assert!(on.ends_in_a_minute("lists:a"));
        data.delete("lists:a").await.unwrap();
        assert_eq!(list.push_many_with_ttl(End::Front, ["x", "y"], MINUTE).await.unwrap(), Some(2));
        assert_eq!(list.range(0, -1).await.unwrap(), ["y", "x"]);
        assert!(on.ends_in_a_minute("lists:a"));
        data.delete("lists:a").await.unwrap();
        let many: Vec<String> = (0..9001).map(|n| n.to_string()).collect();
        assert_eq!(list.push_many_with_ttl(End::Back, &many, MINUTE).await.unwrap(), Some(9001));
        assert_eq!(list.range(0, -1).await.unwrap(), many);
        data.delete("lists:a").await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn items_are_read_and_set_by_their_place() {
    on_each(|on, data| async move {
        let list = data.list::<u32>("lists:b");
        refused(list.set(0, &1).await, ErrorKind::Invalid, &["lists:b", "no place 0", "no list yet"]);
        list.push_many(End::Back, &[10, 11, 12, 13]).await.unwrap();
        assert_eq!(list.length().await.unwrap(), 4);
        assert_eq!(list.range(0, -1).await.unwrap(), [10, 11, 12, 13]);
        assert_eq!(list.range(1, 2).await.unwrap(), [11, 12]);
        assert_eq!(list.range(-2, 99).await.unwrap(), [12, 13]);
        assert_eq!(list.range(3, 1).await.unwrap(), [0; 0]);
        assert_eq!(list.get(0).await.unwrap(), Some(10));
        assert_eq!(list.get(-1).await.unwrap(), Some(13));
        assert_eq!(list.get(4).await.unwrap(), None);
        assert_eq!(list.get(-5).await.unwrap(), None);
        list.set(1, &21).await.unwrap();
        list.set(-1, &23).await.unwrap();
        assert_eq!(on.cli(&["LRANGE", "lists:b", "0", "-1"]), "10\n21\n12\n23");
        for index in [4, -5, i64::MAX, i64::MIN] {
            let place = format!("no place {index}");
            refused(list.set(index, &1).await, ErrorKind::Invalid, &["lists:b", &place, "shorter"]);
        }
        data.delete("lists:b").await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn equal_items_are_removed_from_either_end_or_all() {
    on_each(|on, data| async move {
        let list = data.list::<Order>("lists:c");
        let (a, b) = (order("a", 1), order("b", 1));
        let fill = || async {
            data.delete("lists:c").await.unwrap();
            list.push_many(End::Back, [&a, &b, &a, &b, &a]).await.unwrap();
        };
        let left = || {
            on.cli(&["LRANGE", "lists:c", "0", "-1"])
                .replace(r#"","count":1}"#, "")
                .replace(r#"{"item":""#, "")
        };
        fill().await;
        assert_eq!(list.remove(2, &a).await.unwrap(), 2);
        assert_eq!(left(), "b\nb\na");
        fill().await;
        assert_eq!(list.remove(-2, &a).await.unwrap(), 2);
        assert_eq!(left(), "a\nb\nb");
        fill().await;
        assert_eq!(list.remove(0, &a).await.unwrap(), 3);
        assert_eq!(left(), "b\nb");
        assert_eq!(list.remove(9, &order("c", 1)).await.unwrap(), 0);
        assert_eq!(list.remove(9, &b).await.unwrap(), 2);
        assert!(!data.exists("lists:c").await.unwrap());
    })
    .await;
}
