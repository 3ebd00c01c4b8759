//! The doctor on real servers.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use bramah::{
    ErrorKind,
    doctor::{Checkup, Severity, examine},
};
use bramah_lab::{Cluster, Redis, Sentinels, servers::Flavor};

const DURABLE: [(&str, &str); 2] = [("appendonly", "yes"), ("appendfsync", "always")];

fn look(url: &str) -> bramah::Result<Checkup> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(examine(url))
}

/// What is not as it should be, each once.
fn told(checkup: &Checkup) -> Vec<(Severity, &'static str)> {
    let bad = checkup.findings.iter().filter(|finding| finding.severity > Severity::Ok);
    let mut told: Vec<_> = bad.map(|finding| (finding.severity, finding.code)).collect();
    told.dedup();
    told
}

#[track_caller]
fn text<'a>(checkup: &'a Checkup, code: &str) -> &'a str {
    let found = checkup.findings.iter().find(|finding| finding.code == code);
    found.map(|finding| finding.text.as_str()).unwrap_or_else(|| panic!("no {code}: {:#?}", checkup.findings))
}

fn word(checkup: &Checkup, topic: &str) -> &'static str {
    checkup.promises.iter().find(|promise| promise.topic == topic).unwrap().word
}

#[test]
fn a_server_that_keeps_its_data_is_healthy_and_only_the_mark_is_left_in_it() {
    let redis = Redis::with(Flavor::Redis7, &DURABLE).unwrap();
    let checkup = look(&redis.url()).unwrap();
    assert_eq!(told(&checkup), [], "{:#?}", checkup.findings);
    assert!(checkup.times.is_some());
    assert!(text(&checkup, "redis.server").contains(&format!("Redis {}", redis.version())));
    assert_eq!((word(&checkup, "excludes"), word(&checkup, "detached")), ("server", "yes"));
    assert_eq!(redis.cli(&["KEYS", "*"]).unwrap(), "bramah:mark");
}

#[test]
fn the_plain_layout_is_examined_as_well() {
    let redis = Redis::with(Flavor::Redis7, &DURABLE).unwrap();
    let checkup = look(&format!("{}?layout=plain", redis.url())).unwrap();
    assert_eq!(told(&checkup), [], "{:#?}", checkup.findings);
    assert!(checkup.times.is_some());
    assert_eq!(word(&checkup, "order"), "unordered");
    assert_eq!(redis.cli(&["KEYS", "*"]).unwrap(), "bramah:mark");
}

#[test]
fn a_server_without_a_disk_forgets_and_one_with_replicas_may() {
    let redis = Redis::start(Flavor::Redis7).unwrap();
    let checkup = look(&redis.url()).unwrap();
    assert_eq!(told(&checkup), [(Severity::Warning, "redis.persistence")]);
    assert!(text(&checkup, "redis.persistence").contains("a restart forgets every lock"));
    assert!(checkup.is_healthy());
}

#[test]
fn a_server_that_evicts_is_a_problem_unless_that_is_accepted() {
    let options = [&DURABLE[..], &[("maxmemory", "100mb"), ("maxmemory-policy", "allkeys-lru")]].concat();
    let redis = Redis::with(Flavor::Redis7, &options).unwrap();
    let checkup = look(&redis.url()).unwrap();
    let problems = [(Severity::Problem, "redis.eviction"), (Severity::Problem, "store.lock")];
    assert_eq!(told(&checkup), problems, "{:#?}", checkup.findings);
    assert!(checkup.promises.iter().all(|promise| promise.topic != "detached"), "nothing could be opened");
    let checkup = look(&format!("{}?eviction=allow", redis.url())).unwrap();
    assert_eq!(told(&checkup), [(Severity::Warning, "redis.eviction")]);
}

#[test]
fn a_user_without_all_rights_is_told_which_are_missing_and_never_its_password() {
    let redis = Redis::with(Flavor::Redis7, &DURABLE).unwrap();
    // May ask for everything, and lacks what a line is made of.
    redis
        .cli(&[
            "ACL",
            "SETUSER",
            "ana",
            "on",
            ">hush",
            "~*",
            "resetchannels",
            "&x",
            "+@all",
            "-zadd",
            "-scan",
        ])
        .unwrap();
    let url = format!("redis://ana:hush@{}", redis.address());
    let checkup = look(&url).unwrap();
    let rights: Vec<&str> = checkup
        .findings
        .iter()
        .filter(|finding| finding.code == "redis.rights")
        .map(|finding| finding.text.as_str())
        .collect();
    assert!(rights.iter().any(|text| text.contains("the user ana lacks +zadd: locks")), "{rights:#?}");
    assert!(rights.iter().any(|text| text.contains("lacks &bramah:*: nobody can wait")), "{rights:#?}");
    assert!(rights.iter().any(|text| text.contains("lacks +scan: ls")), "{rights:#?}");
    assert!(!checkup.is_healthy());
    assert!(!format!("{checkup:?}").contains("hush"));
}

#[test]
fn what_a_user_may_not_ask_for_is_a_note_and_its_rights_are_tried() {
    let redis = Redis::with(Flavor::Redis7, &DURABLE).unwrap();
    redis
        .cli(&[
            "ACL",
            "SETUSER",
            "ana",
            "on",
            ">hush",
            "~bramah:*",
            "&bramah:*",
            "+@all",
            "-@dangerous",
            "-acl",
        ])
        .unwrap();
    let checkup = look(&format!("redis://ana:hush@{}", redis.address())).unwrap();
    assert_eq!(told(&checkup), [(Severity::Note, "redis.hidden")], "{:#?}", checkup.findings);
    assert!(text(&checkup, "redis.rights").contains("it was tried, except for +unsubscribe"));
    redis.cli(&["ACL", "SETUSER", "ana", "-zadd", "-subscribe", "-client|tracking", "-evalsha"]).unwrap();
    let checkup = look(&format!("redis://ana:hush@{}", redis.address())).unwrap();
    let texts: Vec<&str> = checkup.findings.iter().map(|finding| finding.text.as_str()).collect();
    for rule in ["+zadd", "+subscribe", "+client|tracking", "+evalsha"] {
        let lacks = |text: &&str| text.contains("our user lacks") && text.contains(rule);
        assert!(texts.iter().any(lacks), "{rule}: {texts:#?}");
    }
    assert_eq!(redis.cli(&["KEYS", "*"]).unwrap(), "bramah:mark");
}

#[test]
fn a_user_who_may_not_load_scripts_is_told_so() {
    let redis = Redis::with(Flavor::Redis7, &DURABLE).unwrap();
    let rules = ["on", ">hush", "~*", "&*", "+@all", "-acl", "-script|load"];
    redis.cli(&[&["ACL", "SETUSER", "ana"], &rules[..]].concat()).unwrap();
    let checkup = look(&format!("redis://ana:hush@{}", redis.address())).unwrap();
    let mut rights = checkup.findings.iter().filter(|finding| finding.code == "redis.rights");
    let (lacks, untried) = (rights.next().unwrap(), rights.next().unwrap());
    assert!(lacks.text.contains("our user lacks +script|load: locks cannot be taken"), "{lacks:?}");
    assert!(untried.text.contains("+evalsha +unsubscribe was not tried"), "{untried:?}");
    assert_eq!((checkup.failure, checkup.is_healthy()), (None, false));
}

#[test]
fn a_server_that_is_not_there_or_does_not_let_us_in_is_a_finding_with_a_failure() {
    let redis = Redis::with(Flavor::Redis7, &[("requirepass", "hush")]).unwrap();
    let failed = |url: &str, kind: ErrorKind, code: &'static str| {
        let checkup = look(url).unwrap();
        assert_eq!((checkup.failure, checkup.times), (Some(kind), None), "{checkup:#?}");
        assert_eq!(told(&checkup), [(Severity::Problem, code)], "{checkup:#?}");
        assert!(text(&checkup, code).contains(&redis.address()), "{checkup:#?}");
        assert!(!format!("{checkup:?}").contains("whisper"));
        assert_eq!(word(&checkup, "order"), "fifo");
    };
    failed(&redis.url(), ErrorKind::Denied, "redis.password");
    failed(&format!("redis://:whisper@{}", redis.address()), ErrorKind::Denied, "redis.password");
    redis.kill();
    failed(&format!("redis://:hush@{}", redis.address()), ErrorKind::Unavailable, "store.unreachable");
}

#[test]
fn whether_a_server_is_open_is_tried_without_the_password_of_the_url() {
    // An address for documentation: the server listens there if it has it (`-`).
    let beyond = [("bind", "127.0.0.1 -192.0.2.1"), ("protected-mode", "no")];
    let redis = Redis::with(Flavor::Redis7, &[&DURABLE[..], &beyond].concat()).unwrap();
    redis.cli(&["ACL", "SETUSER", "ana", "on", ">hush", "~*", "&*", "+@all"]).unwrap();
    let url = format!("redis://ana:hush@{}", redis.address());
    assert_eq!(told(&look(&url).unwrap()), [(Severity::Warning, "redis.password")]);
    redis.cli(&["ACL", "SETUSER", "default", "resetpass", ">secret"]).unwrap();
    assert_eq!(told(&look(&url).unwrap()), []);
}

#[test]
fn sentinels_are_asked_whether_they_agree() {
    let sentinels = Sentinels::start(Flavor::Redis7, 1).unwrap();
    let url = format!("redis+sentinel://{}/{}", sentinels.url_list().join(","), sentinels.service());
    let checkup = look(&url).unwrap();
    let expected = [(Severity::Warning, "redis.persistence"), (Severity::Warning, "redis.replicas")];
    assert_eq!(told(&checkup), expected, "{:#?}", checkup.findings);
    assert!(text(&checkup, "redis.sentinels").contains("there are 3, and 2 must"));
    assert_eq!(word(&checkup, "excludes"), "until_failover");
    let checkup = look(&format!("{url}?replicas=majority")).unwrap();
    assert_eq!(told(&checkup), expected[..1], "{:#?}", checkup.findings);
    // Two of three are gone.
    sentinels.sentinels()[0].kill();
    sentinels.sentinels()[1].kill();
    bramah_lab::until("the third to see it", std::time::Duration::from_secs(30), || {
        let said = sentinels.sentinels()[2].call(&["SENTINEL", "CKQUORUM", sentinels.service()]);
        said.map_or(Ok(()), |_| Err("they agree".into()))
    })
    .unwrap();
    let checkup = look(&url).unwrap();
    assert!(told(&checkup).contains(&(Severity::Problem, "redis.sentinels")), "{:#?}", checkup.findings);
}

#[test]
fn a_cluster_is_asked_node_by_node() {
    let cluster = Cluster::start(Flavor::Redis7).unwrap();
    let url = format!("redis+cluster://{}", cluster.addresses().join(","));
    let checkup = look(&url).unwrap();
    let expected = [(Severity::Warning, "redis.persistence"), (Severity::Warning, "redis.cluster")];
    let mut told = told(&checkup);
    told.sort();
    told.dedup();
    let mut sorted = expected;
    sorted.sort();
    assert_eq!(told, sorted, "{:#?}", checkup.findings);
    let servers = checkup.findings.iter().filter(|finding| finding.code == "redis.server");
    assert_eq!(servers.count(), 3);
    assert!(checkup.times.is_some());
}

#[test]
fn masters_are_looked_at_one_by_one_and_a_minority_may_be_gone() {
    let masters: Vec<Redis> = (0..3).map(|_| Redis::start(Flavor::Redis7).unwrap()).collect();
    let hosts: Vec<String> = masters.iter().map(Redis::address).collect();
    let url = |options: &str| format!("redlock://{}?{options}", hosts.join(","));
    // They were just started: a doctor's ttl is longer than that.
    let young = look(&url("max_ttl=1m")).unwrap();
    assert_eq!(
        told(&young),
        [(Severity::Warning, "redis.persistence"), (Severity::Problem, "store.lock")],
        "{:#?}",
        young.findings
    );
    assert!(text(&young, "store.lock").contains(&format!("{} in ", hosts[0])), "{:#?}", young.findings);
    let trusted = look(&url("restart=trust")).unwrap();
    assert_eq!(told(&trusted), [(Severity::Warning, "redis.persistence")], "{:#?}", trusted.findings);
    assert!(trusted.times.is_some());
    assert_eq!((word(&trusted, "excludes"), word(&trusted, "order")), ("quorum", "unordered"));
    masters[1].kill();
    let fewer = look(&url("restart=trust")).unwrap();
    assert!(told(&fewer).contains(&(Severity::Warning, "redis.silent")), "{:#?}", fewer.findings);
    assert!(fewer.is_healthy(), "{:#?}", fewer.findings);
    assert!(text(&fewer, "redlock.masters").contains("2 of 3"), "{:#?}", fewer.findings);
    masters[2].kill();
    let refused = look(&url("restart=trust"));
    let unhealthy = refused.as_ref().is_ok_and(|checkup| !checkup.is_healthy());
    assert!(unhealthy, "{refused:#?}");
}
