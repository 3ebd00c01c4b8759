use proptest::prelude::*;

use super::*;

fn good(url: &str) -> Config {
    Config::from_url(url).unwrap_or_else(|error| panic!("{url}: {error}"))
}

/// What is wrong with it.
fn bad(url: &str) -> String {
    let error = Config::from_url(url).expect_err(url);
    assert_eq!(error.kind(), ErrorKind::Invalid, "{url}: {error}");
    assert!(!error.to_string().contains('\n'), "{error}");
    error.to_string()
}

#[test]
fn one_node() {
    assert_eq!(good("redis://host"), Config::single("host", 6379));
    assert_eq!(good("redis://host/"), Config::single("host", 6379));
    assert_eq!(good("redis://host:7/2"), Config::single("host", 7).database(2));
    assert_eq!(good("redis://[::1]:7"), Config::single("::1", 7));
    assert_eq!(good("redis://[::1]"), Config::single("::1", 6379));
    assert_eq!(good("redis://:p%40ss%2F@host"), Config::single("host", 6379).password("p@ss/"));
    assert_eq!(good("redis://u:p@host"), Config::single("host", 6379).user("u").password("p"));
    assert_eq!(
        good("redis://u@host?password_file=/f"),
        Config::single("host", 6379).user("u").password_file("/f")
    );
}

#[test]
fn sentinels_and_clusters() {
    let sentinels = [("a", 26379), ("b", 7), ("::1", 26379)];
    assert_eq!(good("redis+sentinel://a,b:7,[::1]/main"), Config::sentinel(sentinels, "main"));
    assert_eq!(
        good("redis+sentinel://a,b:7,[::1]/ma%69n/3"),
        Config::sentinel(sentinels, "main").database(3)
    );
    assert_eq!(
        good("redis+sentinel://:p@a/m?sentinel_user=s&sentinel_password_file=/f"),
        Config::sentinel([("a", 26379)], "m").password("p").sentinel_user("s").sentinel_password_file("/f")
    );
    let cluster = Config::cluster([("a", 6379), ("b", 7)]);
    assert_eq!(good("redis+cluster://a,b:7"), cluster);
    assert_eq!(good("redis+cluster://a,b:7/0"), cluster);
    let closed = cluster.user("u").password("p");
    assert_eq!(good("redis+cluster://u:p@a,u:p@b:7"), closed);
    assert_eq!(good("redis+cluster://u:p@a,b:7"), closed);
}

#[test]
fn options_are_read() {
    let config = good(
        "redis://h?layout=plain&prefix=my%3A&replicas=majority&connections=4&connect_timeout=500ms&timeout=3s\
         &client_name=me&eviction=allow",
    );
    let same = Config::single("h", 6379)
        .layout(Layout::Plain)
        .prefix("my:")
        .replicas(Replicas::Majority)
        .connections(4)
        .connect_timeout(Duration::from_millis(500))
        .timeout(Duration::from_secs(3))
        .client_name("me")
        .eviction(Eviction::Allowed);
    assert_eq!(config, same);
    assert_eq!(good("redis://h?replicas=2").replicas, Replicas::Count(2));
}

#[test]
#[cfg(feature = "tls")]
fn tls_is_asked_for_with_an_s() {
    assert_eq!(good("rediss://h"), Config::single("h", 6379).tls(Tls::default()));
    let tls = Tls { ca: Some("/ca".into()), identity: Some(("/c".into(), "/k".into())) };
    assert_eq!(good("rediss+cluster://h?ca=/ca&cert=/c&key=/k"), Config::cluster([("h", 6379)]).tls(tls));
    assert!(good("rediss+sentinel://h/s").tls.is_some());
    assert!(bad("rediss://h?cert=/c").contains("together"));
}

#[test]
#[cfg(not(feature = "tls"))]
fn tls_is_unsupported_without_the_feature() {
    assert_eq!(Config::from_url("rediss://h").unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn what_is_wrong_is_named_with_what_is_allowed() {
    for (url, says) in [
        ("host:6379", "redis://"),
        ("http://h", "rediss+cluster"),
        ("redis://", "host"),
        ("redis://a,b", "redis+cluster"),
        ("redis://h:0", "65535"),
        ("redis://h:x", "65535"),
        ("redis://::1", "brackets"),
        ("redis://[::1", "]"),
        ("redis://[::x]", "ipv6"),
        ("redis://[::1]x", "port"),
        ("redis://h/x", "database"),
        ("redis://h/1/2", "path"),
        ("redis+sentinel://h", "service"),
        ("redis+sentinel://h/", "service"),
        ("redis+cluster://h/1", "database 0"),
        ("redis://h?layout=other", "native, plain or redisson"),
        ("redis://h?replicas=0", "majority"),
        ("redis://h?connections=65", "1 to 64"),
        ("redis://h?connections=0", "1 to 64"),
        ("redis://h?timeout=2", "500ms"),
        ("redis://h?timeout=0s", "500ms"),
        ("redis://h?timeout=2h", "500ms"),
        ("redis://h?tls=yes", "there is no option tls"),
        ("redis://h?layout=plain&layout=plain", "twice"),
        ("redis://h?layout", "needs a value"),
        ("redis://h?eviction=no", "refuse or allow"),
        ("redis://h?ca=/f", "rediss://"),
        ("redis://h?sentinel_user=x", "redis+sentinel"),
        ("redis://h?prefix=%zz", "%25"),
        ("redis://h?client_name=a%20b", "ascii"),
        ("redis://h#x", "fragment"),
        ("redis://u@h", "password"),
        ("redis+cluster://:a@h,:b@i", "same"),
    ] {
        let error = bad(url);
        assert!(error.contains(says), "{url}: {error}");
    }
}

#[test]
fn no_error_shows_a_password() {
    for url in [
        "redis://:hunter2@h?password_file=/f",
        "redis://u:hunter2@h:x",
        "redis://u:hunter2/@h",
        "redis://u:hunter2?@h",
        "redis://u:x?hunter2=1@h",
        "redis://u:hun#hunter2@h",
        "redis://u:%zzhunter2@h",
        "redis+cluster://u:hunter2@h,u:hunter3@i",
        "redis://u:hunter2@h?what=1",
    ] {
        let error = bad(url);
        assert!(!error.contains("hunter"), "{url}: {error}");
    }
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC*") {
        let _ = Config::from_url(&text);
    }

    #[test]
    fn nothing_that_looks_like_a_url_panics(
        scheme in "rediss?(\\+sentinel|\\+cluster)?",
        rest in "[a-z0-9:@/?&=%,.\\[\\]#é]{0,40}",
    ) {
        let _ = Config::from_url(&format!("{scheme}://{rest}"));
    }

    #[test]
    fn what_is_percent_encoded_comes_back(user in "\\PC{1,12}", password in "\\PC{1,12}", prefix in "\\PC{0,12}") {
        let encode = |text: &str| text.bytes().map(|b| format!("%{b:02X}")).collect::<String>();
        let url = format!("redis://{}:{}@h?prefix={}", encode(&user), encode(&password), encode(&prefix));
        let config = good(&url);
        prop_assert_eq!(config.user.as_deref(), Some(&*user));
        prop_assert_eq!(config.password.as_ref().map(Secret::expose), Some(&*password));
        prop_assert_eq!(config.prefix.as_deref(), Some(&*prefix));
    }
}
