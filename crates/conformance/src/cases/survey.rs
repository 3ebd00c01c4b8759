//! Who holds what, who waits, and who leads.

use std::time::Duration;

use bramah_core::{ErrorKind, LineView, PlaceState, Scope, Session};

use crate::{
    bench::{Bench, LONG, SOON, got},
    case::{Failure, Outcome, cases, ensure, ensure_eq, wait_until},
};

cases! { "survey":
    holders_and_waiters_are_shown_in_order [Fifo],
    readers_are_all_shown [Shared],
    a_place_shows_who_why_and_since_when,
    a_free_lock_is_not_shown,
    a_scope_goes_by_segments,
    every_change_fires_the_wake [Pushed],
    a_tag_leads_to_its_hold,
    a_hold_is_broken_with_a_reason_on_record,
    a_waiter_is_broken_and_comes_back_at_the_end [Fifo],
    a_break_needs_a_reason_and_somebody_there,
    a_leader_is_seen_by_everybody,
    a_leader_proclaims,
    a_candidate_leads_when_the_leader_resigns,
    an_observer_sees_every_change,
}

async fn shown(session: &Session, bench: &Bench, leaf: &str) -> Outcome<LineView> {
    let line = session.inspect(&bench.name(leaf)).await?;
    line.ok_or_else(|| Failure::new(format!("{leaf} is held and is not shown")))
}

async fn holders_and_waiters_are_shown_in_order(bench: Bench) -> Outcome {
    let sessions = bench.sessions(4).await?;
    let name = bench.name("x");
    let guard = sessions[0].mutex(&name)?.lock().await?;
    let mut waiters = Vec::new();
    for (index, session) in sessions[1..].iter().enumerate() {
        let mutex = session.mutex(&name)?;
        waiters.push(tokio::spawn(async move { mutex.lock().await }));
        bench.waiting(&name, index + 1).await?;
    }
    let line = shown(&sessions[3], &bench, "x").await?;
    let order: Vec<_> = line.places.iter().map(|place| place.claim.id.session).collect();
    ensure_eq!(order, sessions.iter().map(Session::id).collect::<Vec<_>>(), "the sessions in line");
    ensure_eq!(line.holders().count(), 1, "holders");
    ensure_eq!(line.capacity, 1, "the capacity");
    ensure!(line.places[0].is_held(), "the holder is not first");
    let fence = match line.places[0].state {
        PlaceState::Held { fence, .. } => fence,
        PlaceState::Waiting => None,
    };
    ensure_eq!(fence, guard.fence(), "the holder's fence");
    for waiter in waiters {
        waiter.abort();
    }
    bench.waiting(&name, 0).await
}

async fn readers_are_all_shown(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let _guards = (a.rwlock(&name)?.read().lock().await?, b.rwlock(&name)?.read().lock().await?);
    let line = shown(&a, &bench, "x").await?;
    ensure_eq!(line.holders().count(), 2, "readers");
    Ok(())
}

async fn a_place_shows_who_why_and_since_when(bench: Bench) -> Outcome {
    let short = bench.short();
    let engine = bench.client().await?;
    let session =
        Session::builder(engine).ttl(LONG).owner("ana & co=1 %20").label("build", "812 \"x\"").open().await?;
    let name = bench.name("x");
    let reason = "nightly: 100% 'quoted' \u{1f512}\nsecond line";
    let guard = session.mutex(&name)?.reason(reason).lock().await?;
    bench.pass(short / 4).await;
    let other = bench.session().await?;
    let line = shown(&other, &bench, "x").await?;
    let place = &line.places[0];
    ensure_eq!(&*place.claim.note, reason, "the reason");
    // A store that does not know since when says nothing; one that does is right.
    let PlaceState::Held { since, .. } = place.state else { return Err(Failure::new("the holder waits")) };
    for (what, time) in [("there", place.age), ("held", since)] {
        let Some(time) = time else { continue };
        ensure!(time >= short / 4 && time < SOON, "{what} for {time:?} after {:?}", short / 4);
    }
    if let (Some(age), Some(since)) = (place.age, since) {
        ensure!(since <= age, "held for {since:?}, there for {age:?}");
    }
    if let Some(left) = place.left {
        ensure!(left <= LONG, "{left:?} left of a ttl of {LONG:?}");
    }
    if let Some(renewed) = place.renewed {
        ensure!(renewed < SOON, "renewed {renewed:?} ago, and taken just now");
    }
    // A store that does not know the process says nothing; one that does is right.
    if let Some(about) = &place.about {
        ensure_eq!(**about, *session.about(), "the process behind the holder");
    }
    drop(guard);
    Ok(())
}

async fn a_free_lock_is_not_shown(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let name = bench.name("x");
    ensure!(session.inspect(&name).await?.is_none(), "a lock that nobody ever held is shown");
    session.mutex(&name)?.lock().await?.release().await;
    ensure!(session.inspect(&name).await?.is_none(), "a lock that was released is shown");
    let under = session.survey(&Scope::Under(bench.root())).await?;
    ensure!(under.is_empty(), "lines although nobody stands in any: {:?}", under);
    Ok(())
}

async fn a_scope_goes_by_segments(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let mut guards = Vec::new();
    for leaf in ["a", "a/b", "a/b/c", "ab", "b"] {
        guards.push(session.mutex(bench.name(leaf))?.lock().await?);
    }
    let names = |lines: &[LineView]| lines.iter().map(|line| line.name.clone()).collect::<Vec<_>>();
    let want = |leaves: &[&str]| leaves.iter().map(|leaf| bench.name(leaf)).collect::<Vec<_>>();
    let under = session.survey(&Scope::Under(bench.name("a"))).await?;
    ensure_eq!(names(&under), want(&["a", "a/b", "a/b/c"]), "what is under a, by name");
    let exact = session.survey(&Scope::Exact(bench.name("a"))).await?;
    ensure_eq!(names(&exact), want(&["a"]), "what is exactly a");
    let all = session.survey(&Scope::All).await?;
    let ours: Vec<_> = all.iter().filter(|line| line.name.is_under(&bench.root())).cloned().collect();
    ensure_eq!(names(&ours), want(&["a", "a/b", "a/b/c", "ab", "b"]), "all, by name");
    Ok(())
}

async fn every_change_fires_the_wake(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    for scope in [Scope::Exact(name.clone()), Scope::Under(bench.root()), Scope::All] {
        let free = b.watch(&scope).await?;
        let guard = a.mutex(&name)?.lock().await?;
        bench.soon("the wake of a grant", free.wake).await?;
        let held = b.watch(&scope).await?;
        guard.release().await;
        bench.soon("the wake of a release", held.wake).await?;
    }
    Ok(())
}

async fn a_tag_leads_to_its_hold(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let name = bench.name("x");
    let mut tags = Vec::new();
    for _ in 0..4 {
        let guard = session.mutex(&name)?.lock().await?;
        let line = shown(&session, &bench, "x").await?;
        ensure_eq!(line.places[0].claim.id.tag(), guard.tag(), "the tag in a survey");
        ensure!(!tags.contains(&guard.tag()), "a tag was used twice");
        tags.push(guard.tag());
        guard.release().await;
    }
    Ok(())
}

async fn a_hold_is_broken_with_a_reason_on_record(bench: Bench) -> Outcome {
    let short = bench.short();
    let (a, b) = (bench.session_of(short).await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lock().await?;
    let mutex = b.mutex(&name)?;
    let waiter = tokio::spawn(async move { mutex.lock().await });
    ensure!(b.break_hold(&name, guard.tag(), "stuck since noon").await?, "the hold was not found");
    let next = bench.soon("the turn after a break", waiter).await???;
    ensure!(next.is_held(), "what was granted is not held");
    let survey = b.survey(&Scope::Exact(name.clone())).await?;
    // A store that keeps no record says nothing.
    if let Some(broken) = survey.first().and_then(|line| line.broken.as_ref()) {
        ensure_eq!(&*broken.cause.reason, "stuck since noon", "the reason on record");
        ensure_eq!(broken.cause.by, b.about().owner, "who did it");
        ensure_eq!(broken.id.tag(), guard.tag(), "what was broken");
        ensure!(broken.ago < SOON, "broken {:?} ago", broken.ago);
    }
    bench.soon("the loss of a broken hold", guard.lost()).await
}

async fn a_waiter_is_broken_and_comes_back_at_the_end(bench: Bench) -> Outcome {
    let short = bench.short();
    let (a, b, c) = (bench.session().await?, bench.session_of(short).await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lock().await?;
    let mutex = b.mutex(&name)?;
    let broken = tokio::spawn(async move { mutex.lock().await });
    bench.waiting(&name, 1).await?;
    let mutex = c.mutex(&name)?;
    let second = tokio::spawn(async move { mutex.lock().await });
    bench.waiting(&name, 2).await?;
    let line = shown(&a, &bench, "x").await?;
    let first = line.waiters().next().ok_or_else(|| Failure::new("no waiter"))?;
    ensure!(a.break_hold(&name, first.claim.id.tag(), "a test").await?, "the waiter was not found");
    // It learns with its next renewal, and enters anew: now it stands behind the other.
    let last = || async {
        let line = bench.line(&name).await?;
        Outcome::Ok(line.and_then(|line| line.places.last().map(|place| place.claim.id.session)))
    };
    wait_until!(
        bench,
        SOON,
        bench.standing(&name).await? == (1, 2) && last().await? == Some(b.id()),
        "the broken waiter at the end of the line"
    );
    guard.release().await;
    let second = bench.soon("the other's turn", second).await???;
    second.release().await;
    let _ = bench.soon("the broken waiter's turn", broken).await???;
    Ok(())
}

async fn a_break_needs_a_reason_and_somebody_there(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let name = bench.name("x");
    let guard = session.mutex(&name)?.lock().await?;
    let kind = session.break_hold(&name, guard.tag(), "  ").await.err().map(|error| error.kind());
    ensure_eq!(kind, Some(ErrorKind::Invalid), "a break without a reason");
    let old = guard.tag();
    guard.release().await;
    ensure!(!session.break_hold(&name, old, "a test").await?, "a hold that was released was broken");
    let next = session.mutex(&name)?.lock().await?;
    ensure!(!session.break_hold(&name, old, "a test").await?, "somebody else's hold was broken");
    ensure!(next.is_held(), "somebody else's hold was broken");
    Ok(())
}

async fn a_leader_is_seen_by_everybody(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let (one, two) = (a.election(&name)?, b.election(&name)?);
    ensure!(two.leader().await?.is_none(), "somebody leads before anyone stood");
    let leadership = one.campaign("10.0.0.7:8080").await?;
    let leader = two.leader().await?.ok_or_else(|| Failure::new("nobody leads"))?;
    ensure_eq!(&*leader.value, "10.0.0.7:8080", "the leader's value");
    ensure_eq!(leader.fence, leadership.guard().fence(), "the leader's fence");
    ensure_eq!(leader.tag, leadership.guard().tag(), "the leader's tag");
    ensure!(two.try_campaign("10.0.0.8:8080").await?.is_none(), "two lead");
    leadership.resign().await;
    ensure!(two.leader().await?.is_none(), "somebody leads after the leader resigned");
    Ok(())
}

async fn a_leader_proclaims(bench: Bench) -> Outcome {
    let short = bench.short();
    let (a, b) = (bench.session_of(short).await?, bench.session().await?);
    let name = bench.name("x");
    let leadership = a.election(&name)?.campaign("one").await?;
    for value in ["two", "", "three"] {
        leadership.proclaim(value).await?;
        let leader = b.election(&name)?.leader().await?.ok_or_else(|| Failure::new("nobody leads"))?;
        ensure_eq!(&*leader.value, value, "the value that was proclaimed");
    }
    // Renewals go on under the new value.
    bench.pass(short * 2).await;
    ensure!(leadership.guard().is_held(), "a leader that proclaimed lost the lead");
    ensure!(b.break_hold(&name, leadership.guard().tag(), "a test").await?, "the leader was not found");
    let kind = leadership.proclaim("four").await.err().map(|error| error.kind());
    ensure_eq!(kind, Some(ErrorKind::Lost), "a proclamation of who does not lead any more");
    ensure!(!leadership.guard().is_held(), "it leads after it was told that it does not");
    Ok(())
}

async fn a_candidate_leads_when_the_leader_resigns(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let first = a.election(&name)?.campaign("one").await?;
    let election = b.election(&name)?;
    let kind = election.campaign_within("two", Duration::from_millis(50)).await.err().map(|e| e.kind());
    ensure_eq!(kind, Some(ErrorKind::Timeout), "a campaign against a leader");
    let second = tokio::spawn(async move { election.campaign("two").await });
    first.resign().await;
    let second = bench.soon("the candidate's election", second).await???;
    let leader = a.election(&name)?.leader().await?.ok_or_else(|| Failure::new("nobody leads"))?;
    ensure_eq!(&*leader.value, "two", "the next leader's value");
    drop(second);
    Ok(())
}

async fn an_observer_sees_every_change(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let mut observer = b.election(&name)?.observe();
    let mut next = async || -> Outcome<Option<String>> {
        let seen = bench.soon("the next change of leader", observer.next()).await??;
        Ok(seen.map(|leader| leader.value.to_string()))
    };
    ensure_eq!(next().await?, None, "the leader at first");
    let leadership = a.election(&name)?.campaign("one").await?;
    ensure_eq!(next().await?.as_deref(), Some("one"), "the leader after the election");
    leadership.proclaim("two").await?;
    ensure_eq!(next().await?.as_deref(), Some("two"), "the leader after the proclamation");
    leadership.resign().await;
    ensure_eq!(next().await?, None, "the leader after the resignation");
    let again = got(a.election(&name)?.try_campaign("three").await.map(|l| l.map(bramah_core::Guard::from)))?;
    ensure_eq!(next().await?.as_deref(), Some("three"), "the leader after the next election");
    drop(again);
    Ok(())
}
