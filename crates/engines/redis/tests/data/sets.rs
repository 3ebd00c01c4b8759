//! Sets.

use crate::rig::*;

#[tokio::test]
async fn members_are_added_and_removed() {
    on_each(|on, data| async move {
        let set = data.set::<String>("sets:a");
        assert_eq!(set.members().await.unwrap(), [""; 0]);
        assert_eq!(set.size().await.unwrap(), 0);
        assert!(set.add("red").await.unwrap());
        assert!(!set.add("red").await.unwrap());
        assert_eq!(on.cli(&["SMEMBERS", "sets:a"]), r#""red""#);
        assert!(on.stays("sets:a"));
        assert!(set.add_with_ttl("blue", MINUTE).await.unwrap());
        assert!(!set.add_with_ttl("blue", MINUTE).await.unwrap());
        assert!(on.ends_in_a_minute("sets:a"));
        assert!(set.contains("blue").await.unwrap());
        assert!(!set.contains("green").await.unwrap());
        assert_eq!(set.add_many(["green", "red"]).await.unwrap(), 1);
        assert_eq!(set.size().await.unwrap(), 3);
        assert_eq!(on.sorted(&["SMEMBERS", "sets:a"]), [r#""blue""#, r#""green""#, r#""red""#]);
        let mut members = set.members().await.unwrap();
        members.sort();
        assert_eq!(members, ["blue", "green", "red"]);
        assert!(set.remove("red").await.unwrap());
        assert!(!set.remove("red").await.unwrap());
        assert_eq!(set.remove_many(["red", "green"]).await.unwrap(), 1);
        assert_eq!(on.cli(&["SMEMBERS", "sets:a"]), r#""blue""#);
        assert_eq!(set.remove_many::<str>([]).await.unwrap(), 0);
        assert_eq!(set.add_many::<str>([]).await.unwrap(), 0);
        data.delete("sets:a").await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn members_are_of_any_type_and_equal_by_their_text() {
    on_each(|on, data| async move {
        let set = data.set::<Order>("sets:orders");
        let (apple, pear) = (order("apple", 1), order("pear", 2));
        assert_eq!(set.add_many_with_ttl([&apple, &pear], MINUTE).await.unwrap(), 2);
        assert!(on.ends_in_a_minute("sets:orders"));
        let stored = [r#"{"item":"apple","count":1}"#, r#"{"item":"pear","count":2}"#];
        assert_eq!(on.sorted(&["SMEMBERS", "sets:orders"]), stored);
        assert!(set.contains(&apple.clone()).await.unwrap());
        assert!(!set.contains(&order("apple", 2)).await.unwrap());
        data.persist("sets:orders").await.unwrap();
        assert_eq!(set.add_many_with_ttl::<Order>([], MINUTE).await.unwrap(), 0);
        assert!(on.stays("sets:orders"), "nothing to add does not set the ttl");
        data.delete("sets:orders").await.unwrap();
    })
    .await;
}
