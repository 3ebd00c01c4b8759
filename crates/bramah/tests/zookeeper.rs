//! Through the URL alone: locks are taken where Curator has them, and the doctor says what it found.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use bramah::{
    ErrorKind, Keep, Session,
    doctor::{Checkup, Severity, examine},
};
use bramah_lab::{Fault, Proxy, ZooKeeper};

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
async fn a_lock_by_url_ends_with_its_process_and_the_doctor_leaves_the_chroot_alone() {
    let ensemble = ZooKeeper::start(1).unwrap();
    let url = format!("zookeeper://{}/app", ensemble.connect_string());
    let checkup = examine(&url).await.unwrap();
    let expected = [
        (Severity::Note, "zookeeper.members"),
        (Severity::Note, "zookeeper.folders"),
        (Severity::Note, "zookeeper.acl"),
        (Severity::Note, "zookeeper.tls"),
    ];
    assert_eq!(told(&checkup), expected, "{:#?}", checkup.findings);
    assert!(checkup.times.is_some());
    assert_eq!((word(&checkup, "excludes"), word(&checkup, "detached")), ("majority", "no"));
    let version = format!("it is ZooKeeper {} and stands alone", ensemble.version());
    assert!(text(&checkup, "zookeeper.member").contains(&version), "{:#?}", checkup.findings);
    let sessions = text(&checkup, "zookeeper.sessions");
    assert!(sessions.contains("sessions last 400ms to 60s"), "{sessions}");
    // Nothing is left but the chroot, which is there now.
    let again = examine(&url).await.unwrap();
    assert_eq!(told(&again), [expected[0], expected[2], expected[3]], "{:#?}", again.findings);
    let session = bramah::connect(&url).await.unwrap();
    let guard = session.mutex("orders/42").unwrap().lock().await.unwrap();
    assert!(guard.fence().is_some());
    guard.release().await;
    let engine = bramah::engine(&url).await.unwrap();
    let left = Session::builder(engine).keep(Keep::Nobody).open().await.unwrap_err();
    assert_eq!(left.kind(), ErrorKind::Unsupported, "{left}");
    assert!(left.to_string().contains("ends with its process"), "{left}");
}

#[tokio::test]
async fn of_a_slow_server_the_doctor_finds_out_what_it_promises() {
    let ensemble = ZooKeeper::start(1).unwrap();
    let proxy = Proxy::to(&ensemble.connect_string()).unwrap();
    proxy.replies(Fault::Delay(Duration::from_millis(100)));
    let checkup = examine(&format!("zookeeper://{}/app", proxy.address())).await.unwrap();
    assert_eq!(word(&checkup, "detached"), "no");
}

#[tokio::test]
async fn three_members_by_one_url_and_one_of_them_may_be_gone() {
    let ensemble = ZooKeeper::start(3).unwrap();
    let url = format!("zookeeper://{}", ensemble.connect_string());
    let gone = (ensemble.leader().unwrap() + 1) % 3;
    ensemble.kill(gone).unwrap();
    let session = bramah::connect(&url).await.unwrap();
    session.mutex("a").unwrap().lock().await.unwrap().release().await;
    let checkup = examine(&url).await.unwrap();
    assert!(told(&checkup).contains(&(Severity::Warning, "zookeeper.silent")), "{:#?}", checkup.findings);
    assert!(checkup.is_healthy(), "{:#?}", checkup.findings);
    assert!(text(&checkup, "zookeeper.silent").contains(&ensemble.addresses()[gone]));
    assert!(
        text(&checkup, "zookeeper.members").contains("2 of 3 voting members have to be there, 1 may be gone")
    );
    ensemble.kill((gone + 1) % 3).unwrap();
    let left = (gone + 2) % 3;
    bramah_lab::until("a member that gives up", Duration::from_secs(30), || {
        let said = ensemble.ask(left, "srvr")?;
        if said.contains("not currently serving") { Ok(()) } else { Err(said) }
    })
    .unwrap();
    let checkup = examine(&format!("{url}?timeout=500ms&connect_timeout=1s")).await.unwrap();
    assert!(!checkup.is_healthy() && checkup.times.is_none(), "{:#?}", checkup.findings);
    assert!(told(&checkup).contains(&(Severity::Problem, "zookeeper.service")), "{:#?}", checkup.findings);
}

#[tokio::test]
async fn an_observer_in_the_url_does_not_stand_for_a_member_that_votes() {
    let ensemble = ZooKeeper::with_observer().unwrap();
    let at = |members: &[usize]| {
        let addresses = ensemble.addresses();
        let named: Vec<&str> = members.iter().map(|member| addresses[*member].as_str()).collect();
        format!("zookeeper://{}", named.join(","))
    };
    let members = async |url: String| {
        let findings = examine(&url).await.unwrap().findings.into_iter();
        let members = findings.filter(|finding| finding.code == "zookeeper.members");
        members.map(|finding| finding.text).collect::<Vec<_>>().join("\n")
    };
    let all = members(at(&[0, 1, 2])).await;
    assert!(
        all.contains("2 of 2 voting members have to be there") && !all.contains("the url names"),
        "{all}"
    );
    let one = members(at(&[0, 2])).await;
    assert!(one.contains("the url names 1 of 2 voting members"), "{one}");
}

#[tokio::test]
async fn a_user_without_the_rights_is_told_which_and_never_its_password() {
    let ensemble = ZooKeeper::start(1).unwrap();
    let at = |user: &str| format!("zookeeper://{user}@{}/closed", ensemble.connect_string());
    let ana = bramah::connect(&at("ana:hush")).await.unwrap();
    ana.mutex("a").unwrap().lock().await.unwrap().release().await;
    let checkup = examine(&at("ana:hush")).await.unwrap();
    assert!(checkup.is_healthy() && !format!("{checkup:?}").contains("hush"), "{checkup:?}");
    assert!(text(&checkup, "zookeeper.rights").contains("the user ana may create"), "{checkup:?}");
    // Another password is another user to ZooKeeper.
    let checkup = examine(&at("ana:hash")).await.unwrap();
    assert!(told(&checkup).contains(&(Severity::Problem, "zookeeper.rights")), "{checkup:?}");
    assert!(text(&checkup, "zookeeper.rights").contains("CREATE, READ, WRITE and DELETE"), "{checkup:?}");
    assert!(!format!("{checkup:?}").contains("hash"), "{checkup:?}");
}

#[tokio::test]
async fn tls_by_url() {
    let ensemble = ZooKeeper::with_tls(1).unwrap();
    let ca = ensemble.certificates().authority();
    let members = ensemble.secure_addresses().join(",");
    let checkup = examine(&format!("zookeepers://{members}/x?ca={}", ca.display())).await.unwrap();
    assert!(checkup.is_healthy() && text(&checkup, "zookeeper.tls").contains("private (TLS)"), "{checkup:?}");
    let error = bramah::connect(&format!("zookeepers://{members}/x")).await.unwrap_err();
    assert!(error.to_string().contains("needs ca="), "{error}");
}
