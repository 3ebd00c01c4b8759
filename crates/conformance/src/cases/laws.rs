//! The three laws, below the faces.

use std::sync::Arc;

use bramah_core::{About, Fence, Keep, Opening, Standing, Wait};

use crate::{
    bench::{Bench, held, is_gone},
    case::{Failure, Outcome, cases, ensure, ensure_eq, wait_until},
};

cases! { "laws":
    order_a_later_grant_has_the_larger_fence [Fences],
    order_repeating_a_held_claim_never_answers_an_older_fence [Fences],
    order_a_floor_raises_this_fence_and_those_after_it [Fences],
    order_a_fence_is_minted_at_the_grant_not_at_the_entry [Fences, Fifo],
    finality_a_withdrawn_claim_is_gone_and_asking_writes_nothing,
    finality_an_expired_claim_is_gone_and_asking_writes_nothing,
    finality_an_expired_waiter_is_gone [Fifo],
    finality_a_late_renewal_brings_nothing_back,
    finality_a_late_question_takes_nothing_from_the_next_holder,
    finality_a_renewal_keeps_a_claim_past_its_ttl,
    doubt_a_held_claim_sent_twice_takes_one_place,
    doubt_a_waiting_claim_sent_twice_keeps_its_place [Fifo],
    doubt_a_withdrawal_can_be_repeated,
    doubt_a_withdrawal_of_an_unknown_claim_succeeds,
    doubt_a_withdrawal_takes_nothing_from_anybody_else,
    doubt_a_question_about_an_unknown_claim_leaves_nothing_behind,
    doubt_a_refused_claim_leaves_nothing_behind,
    doubt_opening_twice_is_harmless,
    doubt_strays_are_listed [Strays],
    doubt_a_renewal_tells_what_is_gone,
    doubt_a_repeat_replaces_the_note,
}

#[track_caller]
fn some(fence: Option<Fence>) -> Outcome<Fence> {
    fence.ok_or_else(|| Failure::new("an exclusive grant without a fence"))
}

async fn order_a_later_grant_has_the_larger_fence(bench: Bench) -> Outcome {
    let raws = [bench.raw().await?, bench.raw().await?];
    let name = bench.name("x");
    let mut last = None;
    for round in 0..40 {
        let raw = &raws[round % 2];
        let claim = raw.mutex(&name);
        let fence = some(raw.hold(&claim).await?)?;
        ensure!(last < Some(fence), "{fence:?} after {last:?}");
        last = Some(fence);
        raw.withdraw(&claim).await?;
    }
    Ok(())
}

async fn order_repeating_a_held_claim_never_answers_an_older_fence(bench: Bench) -> Outcome {
    let raw = bench.raw().await?;
    let claim = raw.mutex(&bench.name("x"));
    let mut last = some(raw.hold(&claim).await?)?;
    for _ in 0..5 {
        for standing in [raw.ask(&claim).await?, raw.enter(&claim).await?] {
            let fence = some(held(standing)?)?;
            ensure!(fence >= last, "{fence:?} after {last:?} of one grant");
            last = fence;
        }
    }
    raw.withdraw(&claim).await?;
    Ok(())
}

async fn order_a_floor_raises_this_fence_and_those_after_it(bench: Bench) -> Outcome {
    let raw = bench.raw().await?;
    let name = bench.name("x");
    let mut claim = raw.mutex(&name);
    let minted = some(raw.hold(&claim).await?)?;
    let floor = Fence::new(minted.get() + 1_000_000);
    claim.floor = Some(floor);
    let raised = some(held(raw.ask(&claim).await?)?)?;
    ensure!(raised >= floor, "asked with the floor {floor:?}, answered {raised:?}");
    claim.floor = Some(minted);
    let asked = some(held(raw.ask(&claim).await?)?)?;
    ensure!(asked >= raised, "a lower floor took the fence from {raised:?} back to {asked:?}");
    raw.withdraw(&claim).await?;
    let next = raw.mutex(&name);
    let fence = some(raw.hold(&next).await?)?;
    ensure!(fence > raised, "{fence:?} after one that was raised to {raised:?}");
    raw.withdraw(&next).await?;
    Ok(())
}

async fn order_a_fence_is_minted_at_the_grant_not_at_the_entry(bench: Bench) -> Outcome {
    let (a, b) = (bench.raw().await?, bench.raw().await?);
    let name = bench.name("x");
    let (mut first, second) = (a.mutex(&name), b.mutex(&name));
    let minted = some(a.hold(&first).await?)?;
    ensure!(matches!(b.enter(&second).await?, Standing::Queued { .. }), "two hold it");
    // Raised while the second waits: had its fence been taken at the entry, it would be older.
    let floor = Fence::new(minted.get() + 1_000_000);
    first.floor = Some(floor);
    let raised = some(held(a.ask(&first).await?)?)?;
    ensure!(raised >= floor, "asked with the floor {floor:?}, answered {raised:?}");
    a.withdraw(&first).await?;
    let fence = some(held(b.ask(&second).await?)?)?;
    ensure!(fence > raised, "the waiter's {fence:?} after {raised:?}");
    b.withdraw(&second).await?;
    Ok(())
}

async fn finality_a_withdrawn_claim_is_gone_and_asking_writes_nothing(bench: Bench) -> Outcome {
    let raw = bench.raw().await?;
    let name = bench.name("x");
    let claim = raw.mutex(&name);
    raw.hold(&claim).await?;
    raw.withdraw(&claim).await?;
    let answer = raw.ask(&claim).await;
    ensure!(is_gone(&answer), "asked about a withdrawn claim: {answer:?}");
    let renewal = raw.renew(&[&claim]).await?;
    ensure_eq!(renewal.gone, [claim.id], "gone of a withdrawn claim");
    ensure_eq!(bench.standing(&name).await?, (0, 0), "holders and waiters after the questions");
    Ok(())
}

async fn finality_an_expired_claim_is_gone_and_asking_writes_nothing(bench: Bench) -> Outcome {
    let short = bench.short();
    let mortal = bench.mortal(short).await?;
    let name = bench.name("x");
    let claim = mortal.mutex(&name);
    mortal.hold(&claim).await?;
    bench.emptied(&name).await?;
    let answer = mortal.ask(&claim).await;
    ensure!(is_gone(&answer), "asked about an expired claim: {answer:?}");
    ensure_eq!(bench.standing(&name).await?, (0, 0), "holders and waiters after the question");
    Ok(())
}

async fn finality_an_expired_waiter_is_gone(bench: Bench) -> Outcome {
    let short = bench.short();
    let (holder, mortal) = (bench.raw().await?, bench.mortal(short).await?);
    let name = bench.name("x");
    let (held, waits) = (holder.mutex(&name), mortal.mutex(&name));
    holder.hold(&held).await?;
    ensure!(matches!(mortal.enter(&waits).await?, Standing::Queued { .. }), "two hold it");
    bench.pass(mortal.ttl + mortal.ttl / 4).await;
    let renewal = mortal.renew(&[&waits]).await?;
    ensure_eq!(renewal.gone, [waits.id], "gone of a waiter that expired");
    holder.withdraw(&held).await?;
    let answer = mortal.ask(&waits).await;
    ensure!(is_gone(&answer), "a waiter that expired: {answer:?}");
    ensure_eq!(bench.standing(&name).await?, (0, 0), "holders and waiters");
    Ok(())
}

async fn finality_a_late_renewal_brings_nothing_back(bench: Bench) -> Outcome {
    let short = bench.short();
    let (next, mortal) = (bench.raw().await?, bench.mortal(short).await?);
    let name = bench.name("x");
    let claim = mortal.mutex(&name);
    mortal.hold(&claim).await?;
    // Nobody looks at the line before the renewal: it has to judge the expiry itself.
    bench.pass(mortal.ttl + mortal.ttl / 4).await;
    let renewal = mortal.renew(&[&claim]).await?;
    ensure_eq!(renewal.gone, [claim.id], "gone of a claim that expired");
    let after = next.mutex(&name);
    next.hold(&after).await?;
    let renewal = mortal.renew(&[&claim]).await?;
    ensure_eq!(renewal.gone, [claim.id], "gone of a claim whose lock was handed on");
    ensure_eq!(bench.standing(&name).await?, (1, 0), "holders and waiters");
    next.withdraw(&after).await?;
    Ok(())
}

async fn finality_a_late_question_takes_nothing_from_the_next_holder(bench: Bench) -> Outcome {
    let short = bench.short();
    let (next, mortal) = (bench.raw().await?, bench.mortal(short).await?);
    let name = bench.name("x");
    let (claim, after) = (mortal.mutex(&name), next.mutex(&name));
    mortal.hold(&claim).await?;
    bench.emptied(&name).await?;
    let fence = next.hold(&after).await?;
    let answer = mortal.ask(&claim).await;
    ensure!(is_gone(&answer), "asked about an expired claim: {answer:?}");
    mortal.withdraw(&claim).await?;
    let still = held(next.ask(&after).await?)?;
    ensure!(still >= fence, "the holder's fence went from {fence:?} to {still:?}");
    next.withdraw(&after).await?;
    Ok(())
}

async fn finality_a_renewal_keeps_a_claim_past_its_ttl(bench: Bench) -> Outcome {
    let short = bench.short();
    let mortal = bench.mortal(short * 2).await?;
    let name = bench.name("x");
    let claim = mortal.mutex(&name);
    let fence = mortal.hold(&claim).await?;
    for _ in 0..12 {
        bench.pass(short / 3).await;
        let renewal = mortal.renew(&[&claim]).await?;
        ensure!(renewal.gone.is_empty(), "gone although it was renewed every sixth of its ttl");
    }
    let still = held(mortal.ask(&claim).await?)?;
    ensure!(still >= fence, "the fence went from {fence:?} to {still:?}");
    mortal.withdraw(&claim).await?;
    Ok(())
}

async fn doubt_a_held_claim_sent_twice_takes_one_place(bench: Bench) -> Outcome {
    let raw = bench.raw().await?;
    let name = bench.name("x");
    let claim = raw.mutex(&name);
    let fence = raw.hold(&claim).await?;
    let again = raw.hold(&claim).await?;
    ensure!(again >= fence, "the fence went from {fence:?} to {again:?}");
    ensure_eq!(bench.standing(&name).await?, (1, 0), "holders and waiters");
    raw.withdraw(&claim).await?;
    ensure_eq!(bench.standing(&name).await?, (0, 0), "holders and waiters after one withdrawal");
    Ok(())
}

async fn doubt_a_waiting_claim_sent_twice_keeps_its_place(bench: Bench) -> Outcome {
    let raws = [bench.raw().await?, bench.raw().await?, bench.raw().await?];
    let name = bench.name("x");
    let claims: Vec<_> = raws.iter().map(|raw| raw.mutex(&name)).collect();
    for (raw, claim) in raws.iter().zip(&claims) {
        raw.enter(claim).await?;
    }
    for standing in [raws[1].enter(&claims[1]).await?, raws[1].ask(&claims[1]).await?] {
        ensure!(matches!(standing, Standing::Queued { .. }), "it does not wait any more: {standing:?}");
    }
    let line = bench.line(&name).await?;
    let ids: Vec<_> = line.iter().flat_map(|line| &line.places).map(|place| place.claim.id).collect();
    ensure_eq!(ids, claims.iter().map(|claim| claim.id).collect::<Vec<_>>(), "the line");
    for (raw, claim) in raws.iter().zip(&claims) {
        held(raw.ask(claim).await?)?;
        raw.withdraw(claim).await?;
    }
    Ok(())
}

async fn doubt_a_withdrawal_can_be_repeated(bench: Bench) -> Outcome {
    let raw = bench.raw().await?;
    let name = bench.name("x");
    let claim = raw.mutex(&name);
    raw.hold(&claim).await?;
    for _ in 0..3 {
        raw.withdraw(&claim).await?;
    }
    ensure_eq!(bench.standing(&name).await?, (0, 0), "holders and waiters");
    Ok(())
}

async fn doubt_a_withdrawal_of_an_unknown_claim_succeeds(bench: Bench) -> Outcome {
    let raw = bench.raw().await?;
    let name = bench.name("x");
    raw.withdraw(&raw.mutex(&name)).await?;
    ensure_eq!(bench.standing(&name).await?, (0, 0), "holders and waiters");
    Ok(())
}

async fn doubt_a_withdrawal_takes_nothing_from_anybody_else(bench: Bench) -> Outcome {
    let (a, b) = (bench.raw().await?, bench.raw().await?);
    let name = bench.name("x");
    let (held_by_a, of_b) = (a.mutex(&name), b.mutex(&name));
    a.hold(&held_by_a).await?;
    b.withdraw(&of_b).await?;
    a.withdraw(&a.mutex(&name)).await?;
    held(a.ask(&held_by_a).await?)?;
    a.withdraw(&held_by_a).await?;
    Ok(())
}

async fn doubt_a_question_about_an_unknown_claim_leaves_nothing_behind(bench: Bench) -> Outcome {
    let raw = bench.raw().await?;
    let name = bench.name("x");
    let claim = raw.mutex(&name);
    let answer = raw.ask(&claim).await?;
    ensure!(matches!(answer, Standing::Gone), "asked about a claim that never entered: {answer:?}");
    ensure_eq!(bench.standing(&name).await?, (0, 0), "holders and waiters");
    // The same behind a holder.
    let holder = bench.raw().await?;
    let ahead = holder.mutex(&name);
    holder.hold(&ahead).await?;
    let answer = raw.ask(&claim).await?;
    ensure!(matches!(answer, Standing::Gone), "asked about a claim that never entered: {answer:?}");
    ensure_eq!(bench.standing(&name).await?, (1, 0), "holders and waiters");
    holder.withdraw(&ahead).await?;
    Ok(())
}

async fn doubt_a_refused_claim_leaves_nothing_behind(bench: Bench) -> Outcome {
    let (a, b) = (bench.raw().await?, bench.raw().await?);
    let name = bench.name("x");
    let ahead = a.mutex(&name);
    a.hold(&ahead).await?;
    let mut tried = b.mutex(&name);
    tried.wait = Wait::No;
    let answer = b.enter(&tried).await?;
    ensure!(matches!(answer, Standing::Refused), "a try for a busy lock: {answer:?}");
    ensure_eq!(bench.standing(&name).await?, (1, 0), "holders and waiters");
    let answer = b.ask(&tried).await?;
    ensure!(matches!(answer, Standing::Gone), "asked about a refused claim: {answer:?}");
    a.withdraw(&ahead).await?;
    Ok(())
}

async fn doubt_opening_twice_is_harmless(bench: Bench) -> Outcome {
    let raw = bench.raw().await?;
    let claim = raw.mutex(&bench.name("x"));
    raw.hold(&claim).await?;
    let about = About::this_process();
    let opening = Opening::new(raw.session, raw.ttl, Keep::Process, about);
    raw.engine.open(Arc::new(opening)).await?;
    held(raw.ask(&claim).await?)?;
    raw.withdraw(&claim).await?;
    Ok(())
}

async fn doubt_strays_are_listed(bench: Bench) -> Outcome {
    let (raw, other) = (bench.raw().await?, bench.raw().await?);
    let (known, stray) = (raw.mutex(&bench.name("known")), raw.mutex(&bench.name("stray")));
    raw.hold(&known).await?;
    raw.hold(&stray).await?;
    let apart = other.mutex(&bench.name("other"));
    other.hold(&apart).await?;
    let all: Vec<_> = raw.renew(&[]).await?.stray.iter().map(|claim| claim.id).collect();
    ensure!(
        all.len() == 2 && all.contains(&known.id) && all.contains(&stray.id),
        "the strays of a session that asks about nothing: {all:?}"
    );
    let renewal = raw.renew(&[&known]).await?;
    let ids: Vec<_> = renewal.stray.iter().map(|claim| claim.id).collect();
    ensure_eq!(ids, [stray.id], "the strays");
    // What is listed is enough to withdraw it by.
    for claim in renewal.stray {
        raw.engine.withdraw(claim, bramah_core::Exit::Own).await?;
    }
    bench.emptied(&bench.name("stray")).await?;
    raw.withdraw(&known).await?;
    other.withdraw(&apart).await?;
    Ok(())
}

async fn doubt_a_renewal_tells_what_is_gone(bench: Bench) -> Outcome {
    let raw = bench.raw().await?;
    let (here, gone) = (raw.mutex(&bench.name("here")), raw.mutex(&bench.name("gone")));
    raw.hold(&here).await?;
    let renewal = raw.renew(&[&here, &gone]).await?;
    ensure_eq!(renewal.gone, [gone.id], "gone");
    ensure_eq!(renewal.unknown, [], "unknown");
    raw.withdraw(&here).await?;
    Ok(())
}

async fn doubt_a_repeat_replaces_the_note(bench: Bench) -> Outcome {
    let short = bench.short();
    let raw = bench.raw().await?;
    let name = bench.name("x");
    let mut claim = raw.mutex(&name);
    claim.note = "one".into();
    raw.hold(&claim).await?;
    claim.note = "two".into();
    held(raw.ask(&claim).await?)?;
    wait_until!(
        bench,
        short,
        bench
            .line(&name)
            .await?
            .iter()
            .flat_map(|line| &line.places)
            .any(|place| &*place.claim.note == "two"),
        "the new note in a survey"
    );
    raw.withdraw(&claim).await?;
    Ok(())
}
