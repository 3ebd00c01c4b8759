//! Standing in line: order, repeats, capacities, fences, breaks.

mod rig;

use std::{sync::Arc, time::Duration};

use bramah_core::{
    Break, Engine, ErrorKind, Exit, Fence, Health, LineView, Name, PlaceState, Scope, Session, Standing,
    Wait, Woken, line::WHOLE,
};
use bramah_file::File;
use rig::{Client, Dir, LIMIT, fence_of, woken};

#[tokio::test]
async fn two_processes_take_turns_in_the_order_they_came() {
    let dir = Dir::new();
    let (a, b, c) = (Client::new(&dir), Client::new(&dir), Client::new(&dir));
    let (held, first) = a.lock("x").await;
    let (b_claim, b_wake) = b.queue("x").await;
    let (c_claim, c_wake) = c.queue("x").await;
    a.withdraw(&held).await;
    let told = woken(b_wake).await;
    let Woken::Held(Some(second)) = told else { panic!("{told:?}") };
    let told = woken(c_wake).await;
    assert_eq!(told, Woken::Ask, "c is the front now and should look after b");
    let Standing::Queued { ahead, wake, .. } = c.ask(&c_claim).await.unwrap() else { panic!() };
    assert_eq!(ahead, Some(1));
    b.withdraw(&b_claim).await;
    let Woken::Held(Some(third)) = woken(wake).await else { panic!() };
    assert!(first < second && second < third);
    assert_eq!(fence_of(c.ask(&c_claim).await.unwrap()), third);
}

#[tokio::test]
async fn entering_and_leaving_twice_is_harmless() {
    let dir = Dir::new();
    let (a, b) = (Client::new(&dir), Client::new(&dir));
    let (held, fence) = a.lock("x").await;
    assert_eq!(fence_of(a.claim(&held).await.unwrap()), fence, "a resent claim is the same claim");
    assert_eq!(fence_of(a.ask(&held).await.unwrap()), fence);
    a.withdraw(&held).await;
    a.withdraw(&held).await;
    let (other, _) = b.lock("x").await;
    a.withdraw(&held).await;
    assert!(
        matches!(b.ask(&other).await.unwrap(), Standing::Held { fence: Some(_), .. }),
        "a late withdrawal takes nobody's place"
    );
}

#[tokio::test]
async fn a_question_never_enters() {
    let dir = Dir::new();
    let a = Client::new(&dir);
    let claim = a.draft("x", Wait::Line);
    assert!(matches!(a.ask(&claim).await.unwrap(), Standing::Gone));
    assert!(!dir.ledger("x").exists(), "nothing was written");
    let (held, _) = a.lock("x").await;
    let before = std::fs::read(dir.ledger("x")).unwrap();
    assert!(matches!(a.ask(&claim).await.unwrap(), Standing::Gone));
    assert_eq!(std::fs::read(dir.ledger("x")).unwrap(), before);
    a.withdraw(&held).await;
    assert!(matches!(a.ask(&held).await.unwrap(), Standing::Gone));
}

#[tokio::test]
async fn who_does_not_want_to_wait_is_refused_and_leaves_nothing() {
    let dir = Dir::new();
    let (a, b) = (Client::new(&dir), Client::new(&dir));
    let (_held, _) = a.lock("x").await;
    let claim = b.draft("x", Wait::No);
    let before = std::fs::read(dir.ledger("x")).unwrap();
    assert!(matches!(b.claim(&claim).await.unwrap(), Standing::Refused));
    assert_eq!(std::fs::read(dir.ledger("x")).unwrap(), before);
}

#[tokio::test]
async fn a_watcher_takes_no_place_and_is_told_of_the_next_change() {
    let dir = Dir::new();
    let (a, b) = (Client::new(&dir), Client::new(&dir));
    let (held, _) = a.lock("x").await;
    let claim = b.draft("x", Wait::Watch);
    let Standing::Queued { ahead: None, wake, .. } = b.claim(&claim).await.unwrap() else { panic!() };
    a.withdraw(&held).await;
    let told = woken(wake).await;
    assert_eq!(told, Woken::Ask);
    assert!(
        matches!(a.claim(&a.draft("x", Wait::No)).await.unwrap(), Standing::Held { .. }),
        "the place is free"
    );
}

#[tokio::test]
async fn a_line_in_use_keeps_its_capacity() {
    let dir = Dir::new();
    let (a, b) = (Client::new(&dir), Client::new(&dir));
    let (held, _) = a.lock("x").await;
    let mut semaphore = b.draft("x", Wait::Line);
    semaphore.capacity = 3;
    let error = b.claim(&semaphore).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict);
    a.withdraw(&held).await;
    assert!(
        matches!(b.claim(&semaphore).await.unwrap(), Standing::Held { fence: None, .. }),
        "an empty line takes any"
    );
    let error = a.claim(&a.draft("x", Wait::No)).await.unwrap_err();
    assert!(error.to_string().contains("semaphore of 3"), "{error}");
    b.engine.close(b.session).await.unwrap();
    assert!(
        matches!(a.claim(&a.draft("x", Wait::No)).await.unwrap(), Standing::Held { fence: Some(_), .. }),
        "the dead use nothing"
    );
}

#[tokio::test]
async fn claims_that_fit_no_line_are_invalid() {
    let dir = Dir::new();
    let a = Client::new(&dir);
    let (mut light, mut heavy, mut wordy) =
        (a.draft("x", Wait::No), a.draft("x", Wait::No), a.draft("x", Wait::No));
    (light.weight, heavy.weight, wordy.note) = (0, 2, "n".repeat(1025).into());
    for claim in [light, heavy, wordy] {
        assert_eq!(a.claim(&claim).await.unwrap_err().kind(), ErrorKind::Invalid);
    }
}

#[tokio::test]
async fn readers_share_and_a_writer_waits_for_them() {
    let dir = Dir::new();
    let (a, b, c) = (Client::new(&dir), Client::new(&dir), Client::new(&dir));
    let as_reader = |client: &Client| bramah_core::Claim { capacity: WHOLE, ..client.draft("x", Wait::Line) };
    let (first, second) = (as_reader(&a), as_reader(&b));
    assert!(matches!(a.claim(&first).await.unwrap(), Standing::Held { fence: None, .. }));
    assert!(matches!(b.claim(&second).await.unwrap(), Standing::Held { fence: None, .. }));
    let writer = bramah_core::Claim { weight: WHOLE, ..as_reader(&c) };
    let Standing::Queued { wake, .. } = c.claim(&writer).await.unwrap() else { panic!() };
    let late = as_reader(&a);
    let Standing::Queued { wake: late_wake, .. } = a.claim(&late).await.unwrap() else { panic!() };
    a.withdraw(&first).await;
    b.withdraw(&second).await;
    let Woken::Held(Some(_)) = woken(wake).await else { panic!() };
    c.withdraw(&writer).await;
    assert_eq!(woken(late_wake).await, Woken::Ask, "the front after the writer's grant");
    assert!(matches!(a.ask(&late).await.unwrap(), Standing::Held { fence: None, .. }));
}

#[tokio::test]
async fn a_note_is_replaced_and_a_floor_raises_the_fence_for_good() {
    let dir = Dir::new();
    let (a, b) = (Client::new(&dir), Client::new(&dir));
    let (held, fence) = a.lock("x").await;
    let floor = Fence::new(fence.get() + 1_000_000_000_000);
    let again = bramah_core::Claim { note: "leader at :80".into(), floor: Some(floor), ..held.clone() };
    assert_eq!(fence_of(a.ask(&again).await.unwrap()), floor);
    assert_eq!(fence_of(a.ask(&held).await.unwrap()), floor, "never an older one");
    a.ask(&again).await.unwrap();
    let survey = b.survey(Scope::Exact(Name::new("x").unwrap())).await;
    assert_eq!(&*survey.lines[0].places[0].claim.note, "leader at :80");
    a.withdraw(&held).await;
    assert!(b.lock("x").await.1 > floor);
}

#[tokio::test]
async fn fences_rise_over_release_reopening_and_a_restart_of_everyone() {
    let dir = Dir::new();
    let mut last = Fence::new(0);
    for _ in 0..5 {
        let a = Client::new(&dir);
        for _ in 0..50 {
            let (held, fence) = a.lock("x").await;
            assert!(fence > last);
            last = fence;
            a.withdraw(&held).await;
        }
    }
}

#[tokio::test]
async fn a_broken_hold_goes_to_the_next_and_leaves_a_record() {
    let dir = Dir::new();
    let (a, b, c) = (Client::new(&dir), Client::new(&dir), Client::new(&dir));
    let (held, fence) = a.lock("x").await;
    let (waiting, wake) = b.queue("x").await;
    let cause = Arc::new(Break { by: "ana".into(), reason: "hung since noon".into() });
    c.engine.withdraw(Arc::new(held.clone()), Exit::Broken(Arc::clone(&cause))).await.unwrap();
    let Woken::Held(Some(next)) = woken(wake).await else { panic!() };
    assert!(next.get() > fence.get() + 1, "the mark went up by itself");
    let renewal = a.engine.renew(a.session, [Arc::new(held.clone())].into()).await.unwrap();
    assert_eq!(renewal.gone, [held.id]);
    b.withdraw(&waiting).await;
    let survey = c.survey(Scope::Exact(held.name.clone())).await;
    let broken = survey.lines[0].broken.as_ref().unwrap();
    assert_eq!((broken.id, &broken.cause), (held.id, &cause));
    assert!(survey.lines[0].places.is_empty() && c.survey(Scope::All).await.lines.is_empty());
}

/// The next renewal is minutes away.
#[tokio::test]
async fn a_broken_hold_is_known_to_be_lost_at_once() {
    let dir = Dir::new();
    let open = || Session::builder(File::open(&dir.0).unwrap()).ttl(Duration::from_secs(900)).open();
    let (a, b) = (open().await.unwrap(), open().await.unwrap());
    let names = ["free", "waited-for", "by-itself"];
    for (name, breaker) in names.into_iter().zip([&b, &b, &a]) {
        let guard = match name {
            "waited-for" => {
                let before = b.mutex(name).unwrap().lock().await.unwrap();
                let mutex = a.mutex(name).unwrap();
                let waiter = tokio::spawn(async move { mutex.lock().await.unwrap() });
                let waits = |line: LineView| line.waiters().next().is_some();
                while !b.inspect(&before.name()).await.unwrap().is_some_and(waits) {
                    tokio::task::yield_now().await;
                }
                drop(before);
                waiter.await.unwrap()
            }
            _ => a.mutex(name).unwrap().lock().await.unwrap(),
        };
        assert!(breaker.break_hold(&guard.name(), guard.tag(), "a test").await.unwrap());
        tokio::time::timeout(LIMIT, guard.lost())
            .await
            .unwrap_or_else(|_| panic!("{name}: it does not know"));
        assert!(!guard.is_held());
    }
}

#[tokio::test]
async fn a_waiter_that_is_put_out_is_told_to_ask_and_finds_itself_gone() {
    let dir = Dir::new();
    let (a, b) = (Client::new(&dir), Client::new(&dir));
    let (_held, _) = a.lock("x").await;
    let (waiting, wake) = b.queue("x").await;
    let cause = Arc::new(Break { by: "ana".into(), reason: "no".into() });
    a.engine.withdraw(Arc::new(waiting.clone()), Exit::Broken(cause)).await.unwrap();
    assert_eq!(woken(wake).await, Woken::Ask);
    assert!(matches!(b.ask(&waiting).await.unwrap(), Standing::Gone));
}

#[tokio::test]
async fn a_survey_shows_the_line_and_wakes_on_a_change() {
    let dir = Dir::new();
    let (a, b) = (Client::new(&dir), Client::new(&dir));
    let (held, fence) = a.lock("jobs/nightly").await;
    let (waiting, _wake) = b.queue("jobs/nightly").await;
    let (_other, _) = b.lock("other").await;
    assert_eq!(a.survey(Scope::All).await.lines.len(), 2);
    let survey = a.survey(Scope::Under(Name::new("jobs").unwrap())).await;
    let line = &survey.lines[0];
    assert_eq!(
        (survey.lines.len(), line.name.as_str(), line.capacity, line.places.len()),
        (1, "jobs/nightly", 1, 2)
    );
    assert_eq!((line.places[0].claim.id, line.places[1].claim.id), (held.id, waiting.id));
    assert!(matches!(line.places[0].state, PlaceState::Held { fence: Some(shown), .. } if shown == fence));
    assert_eq!(line.places[1].state, PlaceState::Waiting);
    assert_eq!(line.places[0].about.as_ref().unwrap().pid, std::process::id());
    assert_eq!((line.places[0].health, line.places[0].left), (Health::Running, None));
    assert!(line.places[0].age.unwrap() < LIMIT);
    b.withdraw(&waiting).await;
    assert_eq!(woken(survey.wake).await, Woken::Ask);
    let absent = a.survey(Scope::Exact(Name::new("absent").unwrap())).await;
    assert!(absent.lines.is_empty());
    b.lock("absent").await;
    assert_eq!(woken(absent.wake).await, Woken::Ask);
}

#[tokio::test]
async fn a_long_line_outgrows_a_page_and_drains_in_order() {
    let dir = Dir::new();
    let (a, b) = (Client::new(&dir), Client::new(&dir));
    let (mut held, _) = a.lock("x").await;
    let mut line = Vec::new();
    for place in 0..150 {
        line.push(if place % 2 == 0 { a.queue("x").await } else { b.queue("x").await });
    }
    assert_eq!(a.survey(Scope::All).await.lines[0].places.len(), 151);
    for (claim, wake) in line {
        a.withdraw(&held).await;
        match woken(wake).await {
            Woken::Held(Some(_)) => {}
            _ => assert!(
                matches!(a.ask(&claim).await, Ok(Standing::Held { .. }))
                    || matches!(b.ask(&claim).await, Ok(Standing::Held { .. }))
            ),
        }
        held = claim;
    }
}

#[tokio::test]
async fn many_claims_of_many_names_renew_in_one_go_and_strays_are_listed() {
    let dir = Dir::new();
    let a = Client::new(&dir);
    let mut held = Vec::new();
    for number in 0..400 {
        held.push(Arc::new(a.lock(&format!("n{number}")).await.0));
    }
    let stray = held.pop().unwrap();
    let renewal = a.engine.renew(a.session, held.clone().into()).await.unwrap();
    assert!(renewal.gone.is_empty() && renewal.unknown.is_empty());
    assert_eq!(renewal.stray, [stray]);
    assert_eq!(a.survey(Scope::All).await.lines.len(), 400);
}

#[test]
fn an_uncontended_lock_needs_no_runtime() {
    let dir = Dir::new();
    let a = Client::new(&dir);
    let claim = Arc::new(a.draft("x", Wait::Line));
    assert!(matches!(
        a.engine.claim(claim.clone()).into_now().unwrap().unwrap(),
        Standing::Held { fence: Some(_), .. }
    ));
    let renewal = a.engine.renew(a.session, [claim.clone()].into()).into_now().unwrap().unwrap();
    assert_eq!(renewal, Default::default());
    a.engine.survey(&Scope::All, bramah_core::Look::Watching).into_now().unwrap().unwrap();
    a.engine.withdraw(claim, Exit::Own).into_now().unwrap().unwrap();
    a.engine.close(a.session).into_now().unwrap().unwrap();
    assert!(dir.sessions().is_empty());
    assert!(format!("{:?}", File::open(&dir.0).unwrap()).starts_with("File("));
}
