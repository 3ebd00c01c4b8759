use bramah_core::{Engine, ErrorKind, Fencing, Modes};

use super::*;

fn good(url: &str) -> Redlock {
    Redlock::from_url(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

/// What is wrong with it.
fn bad(url: &str) -> String {
    let error = Redlock::from_url(url).expect_err(url);
    assert_eq!(error.kind(), ErrorKind::Invalid, "{url}: {error}");
    assert!(!error.to_string().contains('\n'), "{error}");
    error.to_string()
}

#[test]
fn masters_and_what_they_share() {
    let plain = Redlock::new([("a", 6379), ("b", 7), ("::1", 6379)]);
    assert_eq!(good("redlock://a,b:7,[::1]"), plain);
    assert_eq!(
        good("redlock://u:p%40@a,b:7,[::1]/2?prefix=x"),
        plain.clone().each(|each| each.user("u").password("p@").database(2).prefix("x"))
    );
    assert_eq!(
        good("redlock://a,b:7,[::1]?quorum=all&node_timeout=20ms&fences=false&restart=trust"),
        plain
            .clone()
            .share(Share::All)
            .node_timeout(Duration::from_millis(20))
            .fences(false)
            .each(|each| each.restart(Restart::Trusted))
    );
    let minute = Restart::Waits(Some(Duration::from_secs(60)));
    assert_eq!(good("redlock://a,b:7,[::1]?max_ttl=1m"), plain.clone().each(|each| each.restart(minute)));
    assert_eq!(good("redlock://a,b:7,[::1]?restart=wait&fences=true&quorum=majority"), plain);
    let tls = cfg!(feature = "tls");
    assert_eq!(Redlock::from_url("redlocks://a").is_ok(), tls);
}

#[test]
fn a_restart_is_waited_for_unless_it_is_said_not_to() {
    assert_eq!(good("redlock://a").each.restart, Restart::Waits(None));
    assert_eq!(Redlock::new([("a", 1)]).each.restart, Restart::Waits(None));
}

#[test]
fn what_is_wrong_is_said() {
    for (url, said) in [
        ("redis://a", "redlock"),
        ("redlock://a,b,a", "a:6379 is named twice"),
        ("redlock://a,b,a:6379", "a:6379 is named twice"),
        ("redlock://a,b/1/2", "too many parts"),
        ("redlock://a?quorum=most", "majority or all"),
        ("redlock://a?fences=1", "true or false"),
        ("redlock://a?restart=never", "wait or trust"),
        ("redlock://a?node_timeout=fast", "500ms"),
        ("redlock://a?node_timeout=0ms", "500ms"),
        ("redlock://a?max_ttl=", "500ms"),
        ("redlock://a?max_ttl=1m&max_ttl=2m", "given twice"),
        ("redlock://a?max_ttl=1m&restart=trust", "restart=trust"),
        ("redlock://a?timeout=1s", "node_timeout"),
        ("redlock://a?replicas=any", "other masters"),
        ("redlock://a?layout=redisson&fair=true", "for ever"),
        ("redlock://a?layout=native", "layout=plain or layout=redisson"),
        ("redlock://a?layout=fancy", "native, plain or redisson"),
        ("redlock://a?qurum=all", "quorum, node_timeout, fences, max_ttl, restart"),
        ("redlock://", "host"),
        ("redlock://u:hush@a,v:hush@b", "the same for every host"),
    ] {
        let why = bad(url);
        assert!(why.contains(said), "{url}: {why}");
        assert!(!why.contains("hush"), "{why}");
    }
}

#[test]
fn what_it_promises_depends_on_the_layout_and_on_fences() {
    let profile = |options: &str| good(&format!("redlock://a,b,c?{options}")).engine().unwrap().profile();
    assert_eq!((profile("").modes, profile("").fence), (Modes::Exclusive, Fencing::Clocked));
    assert_eq!(profile("fences=false").fence, Fencing::None);
    assert_eq!(profile("layout=redisson").modes, Modes::Shared);
}
