//! What others do to the files: damage, foreign and newer formats, cleaners; and sessions without a process.

mod rig;

use std::{fs, os::unix::fs::PermissionsExt, sync::Arc, time::Duration};

use bramah_core::{About, Clock, Engine, ErrorKind, Exit, Keep, Look, Name, Opening, Scope, Standing, Wait};
use bramah_file::File;
use rig::{Client, Dir, woken};

#[tokio::test]
async fn a_damaged_ledger_is_refused_and_never_reset() {
    let dir = Dir::new();
    let a = Client::new(&dir);
    let (held, _) = a.lock("x").await;
    a.lock("y").await;
    let good = fs::read(dir.ledger("x")).unwrap();
    let mut newer = good.clone();
    newer[8] = 2;
    let mut flipped = good.clone();
    flipped[70] ^= 4;
    let cases: [(&[u8], &str); 5] = [
        (b"#!/bin/sh\n", "not one of bramah's"),
        (&newer, "format 2"),
        (&flipped, "checksum"),
        (&good[..100], "cut short"),
        (&[0; 4096], "not one of bramah's"),
    ];
    for (bytes, part) in cases {
        fs::write(dir.ledger("x"), bytes).unwrap();
        let claim = a.draft("x", Wait::No);
        let withdrawn = a.engine.withdraw(Arc::new(held.clone()), Exit::Own).await.unwrap_err();
        for error in [a.claim(&claim).await.unwrap_err(), a.ask(&held).await.unwrap_err(), withdrawn] {
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert!(error.to_string().contains(part) && error.to_string().contains("locks/x"), "{error}");
        }
        let exact = Scope::Exact(held.name.clone());
        assert_eq!(a.engine.survey(&exact, Look::Once).await.unwrap_err().kind(), ErrorKind::Corrupt);
        let survey = a.engine.survey(&Scope::All, Look::Once).await.unwrap();
        assert!(survey.unreadable.iter().any(|error| error.to_string().contains("locks/x")), "{survey:?}");
        assert_eq!(survey.lines.len(), 1, "one damaged ledger hides no other");
        let renewal = a.engine.renew(a.session, [Arc::new(held.clone())].into()).await.unwrap();
        assert_eq!((renewal.unknown, renewal.gone.len()), (vec![held.id], 0));
        assert_eq!(fs::read(dir.ledger("x")).unwrap(), bytes, "never rewritten");
    }
    fs::write(dir.ledger("x"), good).unwrap();
    assert!(matches!(a.ask(&held).await.unwrap(), Standing::Held { .. }));
}

#[tokio::test]
async fn a_ledger_of_another_name_is_refused() {
    let dir = Dir::new();
    let a = Client::new(&dir);
    a.lock("x").await;
    fs::copy(dir.ledger("x"), dir.ledger("y")).unwrap();
    let error = a.claim(&a.draft("y", Wait::No)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("another name"), "{error}");
}

#[test]
fn a_directory_of_a_newer_layout_or_of_something_else_is_refused() {
    let dir = Dir::new();
    File::open(&dir.0).unwrap();
    assert_eq!(fs::metadata(&dir.0).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(dir.0.join("sessions")).unwrap().permissions().mode() & 0o777, 0o700);
    File::open(&dir.0).unwrap();
    for (text, part) in [("bramah-file 2\n", "format 2"), ("hello", "not one of")] {
        fs::write(dir.0.join("format"), text).unwrap();
        let error = File::open(&dir.0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains(part), "{error}");
        assert_eq!(fs::read_to_string(dir.0.join("format")).unwrap(), text);
    }
    let error = File::open(dir.0.join("format")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

#[tokio::test]
async fn a_session_whose_file_vanished_is_lost_and_its_claims_stay_dead() {
    let dir = Dir::new();
    let (a, b) = (Client::new(&dir), Client::new(&dir));
    let (held, before) = a.lock("x").await;
    let (waiting, _wake) = b.queue("x").await;
    for path in dir.sessions() {
        if path.to_str().unwrap().contains(&a.session.to_string()) {
            fs::remove_file(path).unwrap();
        }
    }
    let after = b.lock_as(&waiting).await;
    assert!(before < after);
    assert_eq!(a.ask(&held).await.unwrap_err().kind(), ErrorKind::Lost);
    assert_eq!(
        a.claim(&a.draft("y", Wait::No)).await.unwrap_err().kind(),
        ErrorKind::Lost,
        "nor may it enter"
    );
    let renewal = a.engine.renew(a.session, [Arc::new(held.clone())].into()).await.unwrap();
    assert_eq!(renewal.gone, [held.id]);
    a.open(Keep::Process, Duration::from_secs(30)).unwrap();
    assert!(matches!(a.ask(&held).await.unwrap(), Standing::Gone));
    assert!(
        matches!(b.ask(&waiting).await.unwrap(), Standing::Held { fence: Some(fence), .. } if fence == after)
    );
}

/// The entry is still in the ledger: nobody has asked since the file went. The new life must not find it.
#[tokio::test]
async fn a_session_opened_anew_does_not_revive_what_it_held() {
    let dir = Dir::new();
    let (a, b) = (Client::new(&dir), Client::new(&dir));
    let (held, _) = a.lock("x").await;
    for path in dir.sessions() {
        if path.to_str().unwrap().contains(&a.session.to_string()) {
            fs::remove_file(path).unwrap();
        }
    }
    a.open(Keep::Process, Duration::from_secs(30)).unwrap();
    assert!(matches!(a.ask(&held).await.unwrap(), Standing::Gone));
    let renewal = a.engine.renew(a.session, [Arc::new(held.clone())].into()).await.unwrap();
    assert_eq!(renewal.gone, [held.id]);
    assert!(matches!(b.claim(&b.draft("x", Wait::No)).await.unwrap(), Standing::Held { fence: Some(_), .. }));
}

#[tokio::test]
async fn opening_an_open_session_again_keeps_what_it_holds() {
    let dir = Dir::new();
    let a = Client::new(&dir);
    let (held, fence) = a.lock("x").await;
    assert_eq!(a.open(Keep::Process, Duration::from_secs(1)).unwrap(), Duration::MAX);
    assert!(matches!(a.ask(&held).await.unwrap(), Standing::Held { fence: Some(same), .. } if same == fence));
    assert_eq!(dir.sessions().len(), 1);
}

#[tokio::test]
async fn a_ledger_that_a_cleaner_removed_is_made_anew_and_not_two_of_it_used() {
    let dir = Dir::new();
    let (a, b) = (Client::new(&dir), Client::new(&dir));
    let (held, before) = a.lock("x").await;
    assert!(matches!(b.claim(&b.draft("x", Wait::No)).await.unwrap(), Standing::Refused));
    fs::remove_file(dir.ledger("x")).unwrap();
    let renewal = a.engine.renew(a.session, [Arc::new(held.clone())].into()).await.unwrap();
    assert_eq!(renewal.gone, [held.id]);
    let (_, after) = a.lock("x").await;
    assert!(before < after, "the clock remembers");
    assert!(
        matches!(b.claim(&b.draft("x", Wait::No)).await.unwrap(), Standing::Refused),
        "b sees the new one"
    );
}

#[tokio::test]
async fn a_detached_session_outlives_its_process_and_ends_on_time() {
    let dir = Dir::new();
    let clock = Clock::boot();
    let (a, b, c) = (Client::new(&dir), Client::new(&dir), Client::new(&dir));
    a.engine.close(a.session).await.unwrap();
    let ttl = Duration::from_secs(4);
    let start = clock.now();
    assert_eq!(a.open(Keep::Nobody, ttl).unwrap(), ttl);
    let (held, _) = a.lock("x").await;
    let session = a.session;
    drop(a);
    let scope = Scope::Exact(Name::new("x").unwrap());
    assert!(b.survey(scope.clone()).await.lines[0].places[0].left.is_some_and(|left| left <= ttl));
    assert!(matches!(b.claim(&b.draft("x", Wait::No)).await.unwrap(), Standing::Refused));
    let renewal = c.engine.renew(session, [Arc::new(held.clone())].into()).await.unwrap();
    let renewed = clock.now();
    assert_eq!((renewal.gone.len(), renewal.unknown.len()), (0, 0), "another process can renew it");
    b.lock("x").await;
    assert!(clock.now().since(renewed) >= ttl - Duration::from_millis(50), "not before its time");
    assert!(clock.now().since(start) < Duration::from_secs(20));
    let renewal = c.engine.renew(session, [Arc::new(held.clone())].into()).await.unwrap();
    assert_eq!(renewal.gone, [held.id], "too late is too late");
}

/// Whoever is granted something in a session that was opened a while ago counts on a ttl from there on.
#[tokio::test]
async fn a_detached_session_lives_for_its_ttl_from_every_claim_on() {
    let dir = Dir::new();
    let clock = Clock::boot();
    let (a, b) = (Client::new(&dir), Client::new(&dir));
    a.engine.close(a.session).await.unwrap();
    let ttl = Duration::from_secs(60);
    a.open(Keep::Nobody, ttl).unwrap();
    clock.sleep_until(clock.now() + Duration::from_secs(1)).await;
    let sent = clock.now();
    a.lock("x").await;
    let left = b.survey(Scope::Exact(Name::new("x").unwrap())).await.lines[0].places[0].left.unwrap();
    assert!(left + clock.now().since(sent) >= ttl, "it ends {left:?} from now");
}

#[tokio::test]
async fn a_detached_claim_can_be_withdrawn_by_another_process() {
    let dir = Dir::new();
    let (a, b) = (Client::new(&dir), Client::new(&dir));
    a.engine.close(a.session).await.unwrap();
    a.open(Keep::Nobody, Duration::from_secs(60)).unwrap();
    let (held, _) = a.lock("x").await;
    b.engine.open(Arc::new(opening_of(&a))).await.unwrap();
    assert!(matches!(b.ask(&held).await.unwrap(), Standing::Held { .. }), "the same life of it");
    b.withdraw(&held).await;
    b.engine.close(a.session).await.unwrap();
    assert!(matches!(b.claim(&b.draft("x", Wait::No)).await.unwrap(), Standing::Held { .. }));
    assert_eq!(dir.sessions().len(), 1);
}

#[tokio::test]
async fn a_closed_session_frees_what_it_held() {
    let dir = Dir::new();
    let (a, b) = (Client::new(&dir), Client::new(&dir));
    a.lock("x").await;
    let (claim, wake) = b.queue("x").await;
    a.engine.close(a.session).await.unwrap();
    woken(wake).await;
    assert!(matches!(b.ask(&claim).await.unwrap(), Standing::Held { fence: Some(_), .. }));
    assert_eq!(a.claim(&a.draft("x", Wait::No)).await.unwrap_err().kind(), ErrorKind::Lost);
}

fn opening_of(client: &Client) -> Opening {
    let about = About::this_process();
    Opening::new(client.session, Duration::from_secs(60), Keep::Nobody, about)
}

#[tokio::test]
async fn a_directory_that_is_gone_is_no_free_lock() {
    let dir = Dir::new();
    let a = Client::new(&dir);
    a.lock("x").await;
    let scope = |name: &str| Scope::Exact(Name::new(name).unwrap());
    assert!(a.engine.survey(&scope("never"), Look::Once).await.unwrap().lines.is_empty());
    let locks = dir.ledger("x").parent().unwrap().to_owned();
    fs::rename(&locks, locks.with_file_name("away")).unwrap();
    for name in ["x", "never"] {
        let error = a.engine.survey(&scope(name), Look::Once).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("is gone"), "{error}");
    }
}
