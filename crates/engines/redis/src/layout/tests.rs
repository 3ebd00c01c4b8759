use proptest::prelude::*;

use super::*;

fn scheme(layout: Layout, prefix: Option<&str>, cluster: bool) -> Scheme {
    Scheme::new(Setting { layout, prefix, cluster, connections: 1, fair: false, pubsub: PubSub::Auto })
}

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

proptest! {
    #[test]
    fn a_name_is_read_back_from_its_key(text in "[^/\\p{Cc}]{1,40}(/[^/\\p{Cc}]{1,20})?", cluster: bool) {
        let Ok(name) = Name::new(&text) else { return Ok(()) };
        for layout in [Layout::Native, Layout::Plain] {
            let scheme = scheme(layout, Some("app:"), cluster);
            let place = scheme.place(&name);
            prop_assert_eq!(scheme.name_at(&place.key), Some(name.clone()));
            prop_assert!(place.key.starts_with(&scheme.keys_under(Some(&name))));
        }
    }

    #[test]
    fn in_a_cluster_everything_of_a_name_has_one_slot(text in "[^/\\p{Cc}]{1,40}") {
        let Ok(name) = Name::new(&text) else { return Ok(()) };
        for layout in [Layout::Native, Layout::Plain] {
            let scheme = scheme(layout, None, true);
            let place = scheme.place(&name);
            let session = SessionId::from_bits(7);
            for other in [scheme.mark(place.slot), scheme.channel(place.slot, session), scheme.record(&place)] {
                prop_assert_eq!(slot::slot_of(other.as_bytes()), place.slot, "{}", other);
            }
        }
    }

    #[test]
    fn no_key_panics(key in ".*") {
        for layout in [Layout::Native, Layout::Plain] {
            let _ = scheme(layout, None, false).name_at(&key);
        }
    }
}

#[test]
fn keys_look_as_documented() {
    let native = scheme(Layout::Native, None, false);
    assert_eq!(native.place(&name("orders/42")).key, "bramah:{orders/42}");
    assert_eq!(native.place(&name("a}%")).key, "bramah:{a%7d%25}");
    assert_eq!(native.mark(0), "bramah:mark");
    assert_eq!(native.name_at("bramah:mark"), None);
    assert_eq!(native.name_at("bramah:session:1"), None);
    let plain = scheme(Layout::Plain, None, false);
    assert_eq!(plain.place(&name("orders/42")).key, "orders/42");
    for beside in ["bramah:mark", "bramah:session:00", "bramah:broken:x", "bramah:{2s}:mark"] {
        assert_eq!(plain.name_at(beside), None, "{beside}");
    }
    assert_eq!(plain.name_at("bramah:mine"), Some(name("bramah:mine")));
}

#[test]
fn a_prefix_cannot_end_the_text_that_it_stands_in() {
    let scheme = scheme(Layout::Native, Some("it's\\\n"), false);
    assert!(scheme.enter.code().contains(r"'it\'s\\\nmark'"), "{}", scheme.enter.code());
}

#[test]
fn scripts_have_no_part_left_out() {
    for layout in [Layout::Native, Layout::Plain] {
        let scheme = scheme(layout, None, true);
        for script in [&scheme.enter, &scheme.ask, &scheme.leave, &scheme.renew, &scheme.look] {
            assert!(
                !script.code().contains("@include") && !script.code().contains("@publish@"),
                "{script:?}"
            );
        }
    }
}
