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
    for beside in [
        "bramah:mark",
        "bramah:session:00",
        "bramah:broken:x",
        "bramah:{2s}:mark",
        "bramah:{2s}:broken:x",
        "bramah:{orders/42}",
        "bramah:{orders/42}:b",
    ] {
        assert_eq!(plain.name_at(beside), None, "{beside}");
    }
    assert_eq!(plain.name_at("{bramah}"), Some(name("{bramah}")));
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

#[test]
fn redissons_keys_are_named_by_its_rules() {
    let scheme = scheme(Layout::Redisson, None, true);
    for (name, token, permits) in [
        ("orders", "redisson_lock_token:{orders}", "{orders}:timeout"),
        ("{shop}:orders", "redisson_lock_token:{shop}:orders", "{shop}:orders:timeout"),
        ("a/b", "redisson_lock_token:{a/b}", "{a/b}:timeout"),
    ] {
        let place = scheme.place(&Name::new(name).unwrap());
        assert_eq!(place.key, name);
        let [found, ends, channel] = scheme.beside_redisson(&place).map(|place| place.key);
        assert_eq!((found.as_str(), ends.as_str()), (token, permits));
        assert_eq!(channel, token.replace("lock_token", "lock__channel"));
        for key in [&found, &ends, &channel] {
            assert_eq!(slot::slot_of(key.as_bytes()), place.slot, "{key}");
        }
    }
}

#[test]
fn a_lock_is_found_by_what_stands_beside_it() {
    let scheme = scheme(Layout::Redisson, Some("shop:"), false);
    let names = |key: &str| scheme.names_at(key).iter().map(Name::to_string).collect::<Vec<_>>();
    assert_eq!(names("shop:orders"), ["orders"]);
    assert_eq!(names("{shop:orders}:timeout"), ["orders"]);
    assert_eq!(names("shop:orders:timeout"), ["orders:timeout", "orders"]);
    assert_eq!(names("redisson_lock_queue:{shop:orders}"), ["orders"]);
    for other in [
        "orders",
        "redisson_lock_token:{shop:orders}",
        "redisson_lock_timeout:{shop:orders}",
        "redisson_unlock_latch:{shop:orders}:0",
        "{shop:orders}:6f1c1f0e-0d8c-4b0e-9f0a-1c2d3e4f5a6b:53:rwlock_timeout:1",
        "bramah:session:1",
        "bramah:card:x",
    ] {
        assert_eq!(names(other), [""; 0], "{other}");
    }
}

#[test]
fn owners_are_read_back_and_strangers_known_by_their_hash() {
    let text = "6f1c1f0e-0d8c-4b0e-9f0a-1c2d3e4f5a6b:53";
    let id = redisson::read_owner(text.as_bytes());
    assert_eq!((redisson::owner(id), id.seq), (text.to_owned(), 53));
    for strange in
        ["", "a:1", "6f1c1f0e-0d8c-4b0e-9f0a-1c2d3e4f5a6b:053", "6f1c1f0e-0d8c-4b0e-9f0a-1c2d3e4f5a6b:-1"]
    {
        let id = redisson::read_owner(strange.as_bytes());
        assert_eq!(
            (id.seq, id.session.to_string()),
            (0, crate::script::sha1_hex(strange.as_bytes())[..32].to_owned())
        );
    }
}

#[test]
fn in_a_cluster_a_name_whose_keys_would_be_apart_is_refused() {
    let claim = |name: &str| bramah_core::Claim {
        id: bramah_core::ClaimId { session: SessionId::from_bits(7), seq: 1 },
        name: Name::new(name).unwrap(),
        capacity: 1,
        weight: 1,
        wait: Wait::No,
        again: false,
        floor: None,
        ttl: Duration::from_secs(30),
        lease: None,
        note: "".into(),
    };
    for (cluster, name, fine) in
        [(true, "{a}b", true), (true, "a", true), (true, "a{b", false), (false, "a{b", true)]
    {
        let scheme = scheme(Layout::Redisson, None, cluster);
        let claim = claim(name);
        let text = scheme.text(&claim, &scheme.place(&claim.name));
        assert_eq!(text.is_ok(), fine, "{name}: {text:?}");
    }
}
