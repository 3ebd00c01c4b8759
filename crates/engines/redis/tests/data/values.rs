//! Values and counters.

use bramah_core::ErrorKind;

use crate::rig::*;

#[tokio::test]
async fn a_value_is_json_and_read_back_as_its_type() {
    on_each(|on, data| async move {
        let value = data.value::<Order>("values:a");
        assert_eq!(value.key(), "values:a");
        assert_eq!(value.get().await.unwrap(), None);
        value.set(&order("apple", 3)).await.unwrap();
        assert_eq!(on.cli(&["GET", "values:a"]), r#"{"item":"apple","count":3}"#);
        assert!(on.stays("values:a"));
        assert_eq!(value.get().await.unwrap(), Some(order("apple", 3)));
        value.set_with_ttl(&order("pear", 1), MINUTE).await.unwrap();
        assert_eq!(on.cli(&["GET", "values:a"]), r#"{"item":"pear","count":1}"#);
        assert!(on.ends_in_a_minute("values:a"));
        value.set(&order("plum", 2)).await.unwrap();
        assert!(on.stays("values:a"), "it stays when it is set without a ttl");
        data.value::<String>("values:b").set("né \"\n").await.unwrap();
        assert_eq!(on.cli(&["GET", "values:b"]), r#""né \"\n""#);
        let nothing = data.value::<Option<u32>>("values:c");
        nothing.set(&None).await.unwrap();
        assert_eq!(nothing.get().await.unwrap(), Some(None));
        data.delete_many(["values:a", "values:b", "values:c"]).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_value_is_set_only_if_it_is_absent_or_present() {
    on_each(|on, data| async move {
        let value = data.value::<String>("values:if");
        assert!(!value.set_if_present("a", None).await.unwrap());
        assert_eq!(on.cli(&["EXISTS", "values:if"]), "0");
        assert!(value.set_if_absent("b", None).await.unwrap());
        assert!(on.stays("values:if"));
        assert!(!value.set_if_absent("c", Some(MINUTE)).await.unwrap());
        assert!(on.stays("values:if"));
        assert_eq!(on.cli(&["GET", "values:if"]), r#""b""#);
        assert!(value.set_if_present("d", Some(MINUTE)).await.unwrap());
        assert_eq!(on.cli(&["GET", "values:if"]), r#""d""#);
        assert!(on.ends_in_a_minute("values:if"));
        data.delete("values:if").await.unwrap();
        assert!(value.set_if_absent("e", Some(MINUTE)).await.unwrap());
        assert!(on.ends_in_a_minute("values:if"));
        data.delete("values:if").await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_value_is_read_and_set_in_one_step() {
    on_each(|on, data| async move {
        let value = data.value::<u32>("values:swap");
        assert_eq!(value.get_and_set(&1, None).await.unwrap(), None);
        assert_eq!(value.get_and_set(&2, Some(MINUTE)).await.unwrap(), Some(1));
        assert_eq!(on.cli(&["GET", "values:swap"]), "2");
        assert!(on.ends_in_a_minute("values:swap"));
        on.cli(&["SET", "values:swap", "hush"]);
        let parts = ["values:swap", "u32", "the new value is written"];
        refused(value.get_and_set(&3, None).await, ErrorKind::Corrupt, &parts);
        assert_eq!(on.cli(&["GET", "values:swap"]), "3");
        data.delete("values:swap").await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_counter_goes_up_and_down_by_steps_above_zero() {
    on_each(|on, data| async move {
        let hits = data.value::<i64>("values:hits");
        assert_eq!(hits.increment(5).await.unwrap(), 5);
        assert_eq!(hits.decrement(7).await.unwrap(), -2);
        assert_eq!(on.cli(&["GET", "values:hits"]), "-2");
        assert_eq!(hits.get().await.unwrap(), Some(-2));
        for step in [0, -1, i64::MIN] {
            let parts = ["values:hits", &format!("step of {step}"), "above zero"];
            refused(hits.increment(step).await, ErrorKind::Invalid, &parts);
            refused(hits.decrement(step).await, ErrorKind::Invalid, &parts);
        }
        hits.set_with_ttl(&i64::MAX, MINUTE).await.unwrap();
        refused(hits.increment(1).await, ErrorKind::Invalid, &["values:hits", "out of the range"]);
        assert_eq!(hits.decrement(i64::MAX).await.unwrap(), 0);
        assert!(on.ends_in_a_minute("values:hits"), "a step leaves the ttl as it is");
        hits.set(&i64::MIN).await.unwrap();
        refused(hits.decrement(1).await, ErrorKind::Invalid, &["values:hits", "out of the range"]);
        assert_eq!(on.cli(&["GET", "values:hits"]), i64::MIN.to_string());
        for foreign in ["many", "1.5", r#""1""#] {
            on.cli(&["SET", "values:hits", foreign]);
            refused(hits.increment(1).await, ErrorKind::Corrupt, &["values:hits", "not a whole number"]);
            refused(hits.decrement(1).await, ErrorKind::Corrupt, &["values:hits", "not a whole number"]);
        }
        data.delete("values:hits").await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn bytes_are_taken_as_they_are() {
    on_each(|on, data| async move {
        assert_eq!(data.get_bytes("values:bytes").await.unwrap(), None);
        data.set_bytes("values:bytes", b"\x00\xff", Some(MINUTE)).await.unwrap();
        assert_eq!(data.get_bytes("values:bytes").await.unwrap().unwrap(), b"\x00\xff");
        assert!(on.ends_in_a_minute("values:bytes"));
        data.set_bytes("values:bytes", b"plain", None).await.unwrap();
        assert_eq!(on.cli(&["GET", "values:bytes"]), "plain");
        assert!(on.stays("values:bytes"));
        data.delete("values:bytes").await.unwrap();
    })
    .await;
}
