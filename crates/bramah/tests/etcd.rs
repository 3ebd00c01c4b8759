//! Through the URL alone: locks are taken beside etcdctl, and the doctor says what it found.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use bramah::{
    ErrorKind,
    doctor::{Checkup, Severity, examine},
};
use bramah_lab::{Etcd, servers::Flavor};

/// What is not as it should be.
fn told(checkup: &Checkup) -> Vec<(Severity, &'static str)> {
    let bad = checkup.findings.iter().filter(|finding| finding.severity > Severity::Ok);
    bad.map(|finding| (finding.severity, finding.code)).collect()
}

#[track_caller]
fn text<'a>(checkup: &'a Checkup, code: &str) -> &'a str {
    let found = checkup.findings.iter().find(|finding| finding.code == code);
    found.map(|finding| finding.text.as_str()).unwrap_or_else(|| panic!("no {code}: {:#?}", checkup.findings))
}

fn word(checkup: &Checkup, topic: &str) -> &'static str {
    checkup.promises.iter().find(|promise| promise.topic == topic).unwrap().word
}

#[tokio::test]
async fn a_lock_by_url_is_etcdctls_and_the_doctor_leaves_nothing() {
    let server = Etcd::start(Flavor::Etcd35, 1).unwrap();
    let url = format!("etcd://{}/locks", server.addresses().remove(0));
    let checkup = examine(&url).await.unwrap();
    let expected = [
        (Severity::Note, "etcd.members"),
        (Severity::Note, "etcd.version"),
        (Severity::Note, "etcd.user"),
        (Severity::Note, "etcd.tls"),
    ];
    assert_eq!(told(&checkup), expected, "{:#?}", checkup.findings);
    assert!(checkup.times.is_some());
    assert!(text(&checkup, "etcd.member").contains(&format!("it is etcd {} and leads", server.version())));
    assert_eq!((word(&checkup, "excludes"), word(&checkup, "detached")), ("majority", "yes"));
    let keys = || server.ctl(&["get", "", "--prefix=true", "--keys-only"]).unwrap().trim().to_owned();
    assert_eq!(keys(), "");
    let session = bramah::connect(&url).await.unwrap();
    let guard = session.mutex("orders/42").unwrap().lock().await.unwrap();
    assert!(keys().starts_with("locks/orders/42/"), "{}", keys());
    guard.release().await;
    assert_eq!(keys(), "");
}

#[tokio::test]
async fn three_members_by_one_url_and_one_of_them_may_be_gone() {
    let server = Etcd::start(Flavor::Etcd35, 3).unwrap();
    let url = format!("etcd://{}", server.addresses().join(","));
    server.kill(2).unwrap();
    server.await_leader(&[0, 1]).unwrap();
    let session = bramah::connect(&url).await.unwrap();
    session.mutex("a").unwrap().lock().await.unwrap().release().await;
    let checkup = examine(&url).await.unwrap();
    assert!(told(&checkup).contains(&(Severity::Warning, "etcd.silent")), "{:#?}", checkup.findings);
    assert!(checkup.is_healthy(), "{:#?}", checkup.findings);
    assert!(text(&checkup, "etcd.silent").contains(&server.addresses()[2]));
    assert!(text(&checkup, "etcd.members").contains("2 of 3 voting members have to be there, 1 may be gone"));
    server.kill(1).unwrap();
    let checkup = examine(&format!("{url}?timeout=500ms")).await.unwrap();
    assert!(!checkup.is_healthy() && checkup.times.is_none(), "{:#?}", checkup.findings);
    assert!(told(&checkup).contains(&(Severity::Problem, "etcd.service")), "{:#?}", checkup.findings);
}

#[tokio::test]
async fn a_user_without_the_rights_is_told_which_and_never_its_password() {
    let server = Etcd::start(Flavor::Etcd34, 1).unwrap();
    server.enable_auth().unwrap();
    server.ctl(&["role", "add", "locks"]).unwrap();
    server.ctl(&["role", "grant-permission", "locks", "readwrite", "locks/", "--prefix=true"]).unwrap();
    server.ctl(&["user", "add", "ana:hush"]).unwrap();
    server.ctl(&["user", "grant-role", "ana", "locks"]).unwrap();
    let at = |user: &str, prefix: &str| format!("etcd://{user}@{}{prefix}", server.addresses()[0]);
    let checkup = examine(&at("ana:hush", "/locks")).await.unwrap();
    assert!(checkup.is_healthy() && !format!("{checkup:?}").contains("hush"), "{checkup:?}");
    assert!(text(&checkup, "etcd.version").contains("a keep-alive for a lease that it has revoked"));
    let checkup = examine(&at("ana:hush", "/others")).await.unwrap();
    assert!(told(&checkup).contains(&(Severity::Problem, "etcd.rights")), "{checkup:?}");
    let said = text(&checkup, "etcd.rights");
    assert!(said.contains("grant-permission ROLE readwrite others/ --prefix=true"), "{said}");
    assert!(!format!("{checkup:?}").contains("hush"), "{checkup:?}");
    let wrong = bramah::connect(&at("ana:hash", "")).await.unwrap_err();
    assert_eq!(wrong.kind(), ErrorKind::Denied, "{wrong}");
    assert!(!wrong.to_string().contains("hash"), "{wrong}");
    let checkup = examine(&at("ana:hash", "")).await.unwrap();
    assert_eq!(checkup.failure, Some(ErrorKind::Denied), "{checkup:?}");
    assert_eq!(told(&checkup), [(Severity::Problem, "store.denied")], "{checkup:?}");
    assert!(!format!("{checkup:?}").contains("hash"), "{checkup:?}");
}

#[tokio::test]
async fn tls_by_url() {
    let server = Etcd::with_tls(Flavor::Etcd35, 1).unwrap();
    let ca = server.certificates().authority();
    let url = format!("etcds://{}?cacert={}", server.addresses().remove(0), ca.display());
    let checkup = examine(&url).await.unwrap();
    assert!(checkup.is_healthy() && text(&checkup, "etcd.tls").contains("private (TLS)"), "{checkup:?}");
    let plain = bramah::connect(&url.replace("etcds:", "etcd:")).await.unwrap_err();
    assert!(plain.to_string().contains("needs etcds://"), "{plain}");
}
