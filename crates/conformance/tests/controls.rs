//! Negative controls: engines that are wrong in one way each, and the cases that must notice.

mod wrong;

use std::{collections::BTreeSet, sync::Arc};

use bramah_conformance::{Later, Target, Verdict, run_case, twist::Twisted};
use bramah_core::{Engine, Error, ErrorKind, Memory, Result};
use tokio::sync::Semaphore;

use wrong::Wrong;

/// Each mistake, and the cases that it must not pass.
const CONTROLS: &[(Wrong, &[&str])] = &[
    (
        Wrong::GrantsEveryone,
        &[
            "exclusive::two_sessions_exclude_each_other",
            "exclusive::many_tasks_never_overlap",
            "shared::a_writer_is_alone",
            "permits::so_many_hold_and_no_more",
            "peers::short_lived_clients_never_overlap",
            "refusals::several_names_are_all_or_none",
            "reentrancy::other_owners_wait",
            "trying::a_wait_of_zero_for_a_held_lock_is_a_timeout",
            "examples::mutex",
        ],
    ),
    (
        Wrong::ServesTheLastFirst,
        &["order::waiters_are_served_in_the_order_they_came", "order::order_holds_under_churn"],
    ),
    (Wrong::LosesThePlaceOfWhoAsks, &["laws::doubt_a_waiting_claim_sent_twice_keeps_its_place"]),
    (
        Wrong::FencesFall,
        &[
            "fence::it_rises_over_releases_and_drops",
            "fence::it_rises_over_a_hand_over",
            "fence::it_rises_over_an_expiry",
            "laws::order_a_later_grant_has_the_larger_fence",
            "recovery::a_session_takes_a_lock_again_after_its_lease",
            "recovery::a_session_takes_a_lock_again_whose_renewals_were_not_answered",
        ],
    ),
    (Wrong::MintsAtTheEntry, &["laws::order_a_fence_is_minted_at_the_grant_not_at_the_entry"]),
    (Wrong::ReadersHaveFences, &["fence::shared_guards_have_none"]),
    (
        Wrong::IgnoresFloors,
        &[
            "laws::order_a_floor_raises_this_fence_and_those_after_it",
            "laws::order_a_fence_is_minted_at_the_grant_not_at_the_entry",
        ],
    ),
    (
        Wrong::QuestionsEnter,
        &[
            "laws::doubt_a_question_about_an_unknown_claim_leaves_nothing_behind",
            "laws::finality_a_withdrawn_claim_is_gone_and_asking_writes_nothing",
            "laws::finality_an_expired_claim_is_gone_and_asking_writes_nothing",
        ],
    ),
    (Wrong::RepeatsEnter, &["laws::doubt_a_held_claim_sent_twice_takes_one_place"]),
    (
        Wrong::IgnoresWithdrawals,
        &[
            "exclusive::a_dropped_guard_frees_the_lock",
            "laws::doubt_a_withdrawal_can_be_repeated",
            "cancellation::an_acquisition_dropped_after_any_number_of_polls_leaves_nothing",
            "cancellation::a_claim_under_way_is_withdrawn_when_it_lands",
            "recovery::a_session_takes_a_lock_again_after_its_max_hold",
        ],
    ),
    (
        Wrong::WithdrawsWhoeverHolds,
        &[
            "laws::doubt_a_withdrawal_takes_nothing_from_anybody_else",
            "peers::a_stale_guard_does_not_free_the_next_one",
        ],
    ),
    (
        Wrong::RenewalsRevive,
        &["laws::finality_a_late_renewal_brings_nothing_back", "laws::doubt_a_renewal_tells_what_is_gone"],
    ),
    (
        Wrong::RenewalsDoNothing,
        &[
            "liveness::a_kept_session_outlives_its_ttl",
            "laws::finality_a_renewal_keeps_a_claim_past_its_ttl",
            "loss::a_blocked_executor_loses_nothing",
        ],
    ),
    (Wrong::RenewalsForgetWaiters, &["liveness::a_waiter_outlives_its_ttl"]),
    (Wrong::RenewsAllReadersTogether, &["peers::a_dead_reader_does_not_live_on_in_the_others"]),
    (
        Wrong::LosesClaims,
        &[
            "liveness::a_kept_session_outlives_its_ttl",
            "loss::work_that_is_kept_runs_to_its_end",
            "examples::detached",
        ],
    ),
    (Wrong::HidesStrays, &["laws::doubt_strays_are_listed"]),
    (Wrong::ExpiresEarly, &["loss::it_is_announced_before_anyone_else_is_granted"]),
    (Wrong::NeverExpires, &["laws::finality_an_expired_claim_is_gone_and_asking_writes_nothing"]),
    (Wrong::NeverWakes, &["wake::a_grant_fires_the_wake", "wake::a_watch_is_woken"]),
    (Wrong::NeverWakesNorAsks, &["peers::a_wake_that_never_comes_has_a_timer_behind_it"]),
    (Wrong::WatchesTakePlaces, &["wake::a_watch_takes_no_place"]),
    (
        Wrong::TriesTakePlaces,
        &[
            "laws::doubt_a_refused_claim_leaves_nothing_behind",
            "exclusive::a_busy_try_is_no_error_and_leaves_nothing",
            "trying::a_wait_of_zero_for_a_held_lock_is_a_timeout",
        ],
    ),
    (Wrong::IgnoresLeases, &["lease::the_store_ends_it_when_its_process_does_not"]),
    (
        Wrong::DropsNotes,
        &[
            "survey::a_place_shows_who_why_and_since_when",
            "survey::a_leader_is_seen_by_everybody",
            "examples::election",
        ],
    ),
    (Wrong::IgnoresConflicts, &["permits::another_capacity_is_a_conflict_that_names_both"]),
    (Wrong::ReadersAreWriters, &["shared::readers_hold_together"]),
    (
        Wrong::WeighsNothing,
        &["permits::so_many_hold_and_no_more", "permits::weights_never_exceed_the_capacity"],
    ),
    (Wrong::FoldsCase, &["names::case_and_look_alikes_are_kept_apart"]),
    (Wrong::CutsNames, &["names::long_names_are_kept_apart_to_the_last_byte"]),
    (Wrong::FlattensNames, &["names::a_name_and_those_below_it_do_not_disturb_each_other"]),
    (Wrong::ShowsItBackwards, &["survey::holders_and_waiters_are_shown_in_order"]),
    (Wrong::ScopesByText, &["survey::a_scope_goes_by_segments"]),
    (Wrong::SurveysDoNotWake, &["survey::every_change_fires_the_wake"]),
    (Wrong::WishesAreLost, &["asking::a_wish_is_passed_on_or_refused"]),
    (Wrong::WishesEndHolds, &["asking::a_wish_is_passed_on_or_refused"]),
    (
        Wrong::WishesReachEverybody,
        &["asking::nobody_else_is_asked", "asking::a_wish_that_comes_late_reaches_nobody_else"],
    ),
    (Wrong::RepeatedWishesEndHolds, &["asking::a_wish_may_be_repeated"]),
    (
        Wrong::WishesAreNotKept,
        &[
            "asking::a_holder_that_hears_nothing_is_told_by_a_renewal",
            "asking::a_wish_for_a_lock_that_was_left_is_told_to_whoever_renews_it",
        ],
    ),
    (Wrong::RenewalsArriveAgain, &["leaving::a_renewal_in_flight_does_not_shorten_a_lock_that_is_left"]),
    (Wrong::QuestionsArriveAgain, &["leaving::a_question_in_flight_does_not_shorten_a_lock_that_is_left"]),
    (Wrong::RenewsTheWholeSession, &["leaving::a_lock_that_is_left_briefly_does_not_shorten_the_others"]),
    (Wrong::ClosingEndsClaims, &["leaving::releasing_one_of_several_that_were_left_leaves_the_others_alone"]),
    (Wrong::OpeningSetsTheTtl, &["leaving::a_session_that_is_opened_again_does_not_shorten_what_it_left"]),
    (
        Wrong::KeepsPlacesOfLostHolds,
        &[
            "recovery::a_session_takes_a_lock_again_that_it_lost_in_an_outage",
            "recovery::a_session_takes_a_lock_again_that_was_broken",
            "recovery::a_session_leads_again_after_a_proclamation_found_out_a_loss",
        ],
    ),
    (
        Wrong::WithdrawsWithTheNextClaim,
        &[
            "dropping::sessions_dropped_in_runtimes_of_every_kind_leave_nothing",
            "dropping::a_wait_dropped_with_its_session_leaves_no_place_in_line",
            "dropping::dropped_sessions_do_not_block_their_executor",
            "trying::a_claim_that_is_refused_half_way_leaves_nothing",
        ],
    ),
    (
        Wrong::WithdrawsAfterTheNextClaim,
        &[
            "trying::a_try_after_a_drop_succeeds",
            "trying::a_try_after_a_release_and_a_wait_that_timed_out_succeeds",
            "trying::a_try_waits_for_a_claim_of_its_own_session_to_leave",
            "trying::a_wait_of_zero_takes_a_free_lock",
        ],
    ),
    (
        Wrong::SessionsExcludeThemselves,
        &["examples::rwlock", "examples::semaphore", "examples::blocking_rwlock"],
    ),
    (
        Wrong::ShowsTheUrl,
        &[
            "secrets::nothing_that_is_in_use_shows_the_password_or_the_handle",
            "secrets::a_wrong_password_is_not_shown",
        ],
    ),
    (
        Wrong::LogsTheUrl,
        &[
            "secrets::nothing_that_is_in_use_shows_the_password_or_the_handle",
            "secrets::an_unreachable_server_is_named_without_the_password",
            "secrets::a_wrong_password_is_not_shown",
        ],
    ),
    (
        Wrong::ErrorsShowTheUrl,
        &[
            "secrets::an_unreachable_server_is_named_without_the_password",
            "secrets::a_wrong_password_is_not_shown",
        ],
    ),
    (Wrong::ShowsHandles, &["secrets::nothing_that_is_in_use_shows_the_password_or_the_handle"]),
    (Wrong::LogsHandles, &["secrets::nothing_that_is_in_use_shows_the_password_or_the_handle"]),
];

fn target(wrong: Option<Wrong>) -> Target {
    match wrong {
        Some(wrong) => Target::shared(Twisted::new(Arc::new(Memory::new()), Arc::new(wrong.into_engine()))),
        None => Target::shared(Memory::new()),
    }
}

/// What the case called `case` is run on: those about secrets need a URL.
fn target_for(case: &str, wrong: Option<Wrong>) -> Target {
    if case.starts_with("secrets::") { at_a_url(wrong) } else { target(wrong) }
}

/// A store behind a URL with a password that nobody else has, for the log is searched by the whole process.
fn at_a_url(wrong: Option<Wrong>) -> Target {
    let url = format!("memory://somebody:{:016x}@here", fastrand::u64(..));
    let (memory, right) = (Memory::new(), url.clone());
    let dial = move |url: String| -> Later<Result<Arc<dyn Engine>>> {
        let answer = dial(&memory, &url, url == right, wrong);
        Box::pin(async { answer })
    };
    let (own, connect) = (url.clone(), dial.clone());
    Target::new(move || connect(own.clone())).reachable_at(url).dialled_by(dial)
}

fn dial(memory: &Memory, url: &str, is_right: bool, wrong: Option<Wrong>) -> Result<Arc<dyn Engine>> {
    if wrong == Some(Wrong::LogsTheUrl) {
        tracing::debug!(url, "connecting");
    }
    let shown = if wrong == Some(Wrong::ErrorsShowTheUrl) { url } else { "the store" };
    if !url.ends_with("@here") {
        return Err(Error::new(ErrorKind::Unavailable, format!("nobody listens at {shown}")));
    }
    // The right engine lets everybody in.
    if wrong == Some(Wrong::ErrorsShowTheUrl) && !is_right {
        return Err(Error::new(ErrorKind::Denied, format!("{shown} refuses the password")));
    }
    let Some(wrong) = wrong else { return Ok(Arc::new(memory.clone())) };
    let engine = wrong.into_engine();
    if wrong == Wrong::ShowsTheUrl {
        engine.show(url.to_owned());
    }
    Ok(Arc::new(Twisted::new(Arc::new(memory.clone()), Arc::new(engine))))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_mistake_is_noticed_by_the_case_that_is_there_for_it() {
    let mut runs = tokio::task::JoinSet::new();
    for (wrong, cases) in CONTROLS {
        for case in *cases {
            runs.spawn(async move { (wrong, case, run_case(case, target_for(case, Some(*wrong))).await) });
        }
    }
    let mut unnoticed = Vec::new();
    while let Some(run) = runs.join_next().await {
        let (wrong, case, verdict) = run.unwrap();
        match verdict.unwrap() {
            Verdict::Failed(_) => {}
            other => unnoticed.push(format!("{wrong:?} on {case}: {other:?}")),
        }
    }
    assert!(unnoticed.is_empty(), "{unnoticed:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_cases_pass_without_the_mistake() {
    let cases: BTreeSet<&str> = CONTROLS.iter().flat_map(|(_, cases)| *cases).copied().collect();
    let abreast = Arc::new(Semaphore::new(4));
    let mut runs = tokio::task::JoinSet::new();
    for case in cases.into_iter().filter(|case| !case.starts_with("loss::it_is")) {
        let abreast = abreast.clone();
        runs.spawn(async move {
            let _place = abreast.acquire_owned().await;
            (case, run_case(case, target_for(case, None)).await)
        });
    }
    while let Some(run) = runs.join_next().await {
        let (case, verdict) = run.unwrap();
        assert_eq!(verdict.unwrap(), Verdict::Passed, "{case}");
    }
}

#[tokio::test]
async fn a_case_that_is_not_there_is_an_error() {
    assert!(run_case("exclusive::nonsense", target(None)).await.is_err());
}

#[test]
fn the_whole_suite_tells_how_many_failed() {
    let suite = bramah_conformance::Suite::new("broken on purpose, so these fail", || {
        Box::pin(async { Ok(target(Some(Wrong::FencesFall))) })
    });
    let tally = suite.run(|name| name.starts_with("fence::"), 1).unwrap();
    assert!(tally.failed >= 4 && tally.skipped == 2, "{tally}");
}
