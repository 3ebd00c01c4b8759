//! What is found out about an ensemble.

use std::{
    io::{Read, Write},
    net::TcpListener,
    time::Duration,
};

use bramah_core::{ErrorKind, Name, Session};
use bramah_lab::ZooKeeper as Ensemble;
use bramah_zookeeper::{
    Access, ZooKeeper,
    checkup::{Facts, Rights, Role, Word, examine},
};
use zookeeper_client::{Acl, Acls, AuthId, Client, CreateMode, Permission};

const ALL: Rights = Rights { lock: true, records: true, list: true };

fn role(facts: &Facts, member: usize) -> Option<&Role> {
    match &facts.members[member].word {
        Word::Told { role, .. } => Some(role),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_says_what_it_is_and_nothing_is_left_in_it() {
    let ensemble = Ensemble::start(1).unwrap();
    let facts = examine(&format!("zookeeper://{}/app/locks", ensemble.connect_string())).await.unwrap();
    let told = Word::Told { version: ensemble.version().to_owned(), role: Role::Standalone };
    assert_eq!(facts.members[0].word, told);
    assert_eq!((facts.chroot.as_str(), facts.access, facts.is_private), ("/app/locks", Access::Open, false));
    let service = facts.service.unwrap();
    // Ticks of 200 ms, and the lab's longest.
    assert_eq!(service.shortest.map(|(shortest, _)| shortest), Some(Duration::from_millis(400)));
    assert_eq!(service.longest, Some(Duration::from_secs(60)));
    assert_eq!((service.voters, service.rights), (Some(1), ALL));
    assert!(service.has_containers && !service.has_chroot && service.round_trip > Duration::ZERO);
    let raw = Client::connect(&ensemble.connect_string()).await.unwrap();
    assert_eq!(raw.list_children("/").await.unwrap(), ["zookeeper"], "nothing was written");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_that_are_gone_are_told_apart_and_without_a_majority_nothing_is_granted() {
    let ensemble = Ensemble::start(3).unwrap();
    let url = format!("zookeeper://{}?connect_timeout=3s", ensemble.connect_string());
    let leader = ensemble.leader().unwrap();
    let facts = examine(&url).await.unwrap();
    assert_eq!(role(&facts, leader), Some(&Role::Leader));
    let followers = (0..3).filter(|member| role(&facts, *member) == Some(&Role::Follower)).count();
    assert_eq!((followers, facts.service.unwrap().voters), (2, Some(3)));
    let (gone, next) = ((leader + 1) % 3, (leader + 2) % 3);
    ensemble.kill(gone).unwrap();
    let facts = examine(&url).await.unwrap();
    assert!(matches!(facts.members[gone].word, Word::Silent(_)), "{facts:?}");
    assert!(facts.service.is_ok(), "{facts:?}");
    ensemble.kill(next).unwrap();
    bramah_lab::until("a leader that gives up", Duration::from_secs(30), || {
        let said = ensemble.ask(leader, "srvr")?;
        if said.contains("not currently serving") { Ok(()) } else { Err(said) }
    })
    .unwrap();
    let facts = examine(&url).await.unwrap();
    assert_eq!(facts.members[leader].word, Word::Idle);
    assert!(facts.service.is_err(), "{facts:?}");
    ensemble.kill(leader).unwrap();
    assert_eq!(examine(&url).await.unwrap_err().kind(), ErrorKind::Unavailable);
}

/// The lab's own members may say everything, so this one is played.
#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_may_not_say_is_told() {
    let ensemble = Ensemble::start(1).unwrap();
    let player = TcpListener::bind("127.0.0.1:0").unwrap();
    let played = player.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in player.incoming().flatten() {
            let mut stream = stream;
            let mut word = [0; 4];
            let _ = stream.read_exact(&mut word);
            let _ = stream.write_all(b"srvr is not executed because it is not in the whitelist.\n");
        }
    });
    let facts = examine(&format!("zookeeper://{},{played}", ensemble.connect_string())).await.unwrap();
    assert_eq!(role(&facts, 0), Some(&Role::Standalone));
    assert_eq!(facts.members[1].word, Word::Withheld);
    assert!(facts.service.is_ok(), "{facts:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_are_asked_for_and_not_tried() {
    let ensemble = Ensemble::start(1).unwrap();
    let raw = Client::connect(&ensemble.connect_string()).await.unwrap();
    let make = async |path: &str, permission| {
        let acls = [Acl::new(permission, AuthId::anyone())];
        raw.create(path, b"", &CreateMode::Persistent.with_acls(Acls::new(&acls))).await.unwrap();
    };
    make("/read", Permission::READ).await;
    make("/create", Permission::CREATE).await;
    make("/half", Permission::ALL).await;
    make("/half/%bramah", Permission::READ).await;
    let none = Rights { lock: false, records: true, list: false };
    for (chroot, has_chroot, rights) in [
        ("/read", true, Rights { list: true, ..none }),
        ("/read/below/it", false, Rights { list: true, ..none }),
        ("/create", true, Rights { lock: true, ..none }),
        ("/half", true, Rights { records: false, ..ALL }),
        ("", true, ALL),
    ] {
        let url = format!("zookeeper://ana:secret@{}{chroot}", ensemble.connect_string());
        let facts = examine(&url).await.unwrap();
        assert_eq!((facts.user.as_deref(), facts.access), (Some("ana"), Access::Creator));
        assert!(!format!("{facts:?}").contains("secret"), "{facts:?}");
        let service = facts.service.unwrap();
        assert_eq!((service.rights, service.has_chroot), (rights, has_chroot), "{chroot}");
    }
    let mut left = raw.list_children("/").await.unwrap();
    left.sort();
    assert_eq!(left, ["create", "half", "read", "zookeeper"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_folders_of_a_lock_that_is_free_can_be_forgotten() {
    let ensemble = Ensemble::start(1).unwrap();
    let url = format!("zookeeper://{}/app", ensemble.connect_string());
    let zookeeper = ZooKeeper::from_url(&url).unwrap();
    let session = Session::open(zookeeper.clone()).await.unwrap();
    let (gone, kept) = (Name::new("a/b/c").unwrap(), Name::new("a/x").unwrap());
    session.mutex(&gone).unwrap().lock().await.unwrap().release().await;
    let guard = session.mutex(&kept).unwrap().lock().await.unwrap();
    zookeeper.forget(&gone).await.unwrap();
    let raw = Client::connect(&ensemble.connect_string()).await.unwrap();
    assert_eq!(raw.list_children("/app/a").await.unwrap(), ["x"]);
    // One in use stays, and one that is not there is no error.
    zookeeper.forget(&kept).await.unwrap();
    zookeeper.forget(&gone).await.unwrap();
    assert!(guard.confirm().await.unwrap());
    guard.release().await;
}

#[cfg(feature = "tls")]
#[tokio::test(flavor = "multi_thread")]
async fn by_tls_members_are_not_asked_one_by_one() {
    let ensemble = Ensemble::with_tls(1).unwrap();
    let ca = ensemble.certificates().authority();
    let members = ensemble.secure_addresses().join(",");
    let facts = examine(&format!("zookeepers://{members}?ca={}", ca.display())).await.unwrap();
    assert_eq!((facts.members[0].word.clone(), facts.is_private), (Word::Unasked, true));
    assert_eq!(facts.service.unwrap().rights, ALL);
}
