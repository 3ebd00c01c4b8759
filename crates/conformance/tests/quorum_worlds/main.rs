//! Seeded worlds of a quorum: the same code over model nodes that crash, forget, drift and are out of reach.
//! `BRAMAH_SEEDS=20000` runs more of them, `BRAMAH_SEED=7` one.
//!
//! While clocks stay within the bound that core allows for and nodes keep the rules, no two hold at once and fences
//! rise. Each rule has a control that breaks it, and in which that is seen.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod fleet;
mod node;

use fleet::{Blows, Outcome, Rules};
use node::{Floors, Restart};

fn number(key: &str) -> Option<u64> {
    std::env::var(key).ok()?.parse().ok()
}

fn run(seed: u64, rules: &Rules) -> Outcome {
    fleet::run(seed, rules).unwrap()
}

#[test]
fn no_seed_breaks_a_promise() {
    let (first, count) = match number("BRAMAH_SEED") {
        Some(seed) => (seed, 1),
        None => (0, number("BRAMAH_SEEDS").unwrap_or(150)),
    };
    let (mut holds, mut losses, mut all) = (0, 0, Blows::default());
    for seed in first..first + count {
        let Outcome { tale, blows } = run(seed, &Rules::KEPT);
        holds += tale.holds;
        losses += tale.losses;
        all.amnesias += blows.amnesias;
        all.outages += blows.outages;
        all.partitions += blows.partitions;
        all.freezes += blows.freezes;
        if let Some(violation) = tale.violation {
            panic!(
                "{}\nseed {seed}: {violation}\nreplay: BRAMAH_SEED={seed} cargo test -p bramah-conformance --test quorum_worlds no_seed",
                tale.events.join("\n")
            );
        }
    }
    println!("{count} worlds: {holds} holds, {losses} of them lost, {all:?}, no promise broken");
    assert!(
        count < 100 || (holds > 1_000 && losses > 10 && all.amnesias > 100),
        "the worlds are too quiet to show anything"
    );
}

#[test]
fn a_seed_replays() {
    for seed in 0..10 {
        assert_eq!(run(seed, &Rules::KEPT), run(seed, &Rules::KEPT), "seed {seed}");
    }
}

/// Nodes that break a rule, and whether that is seen.
mod controls {
    use super::*;

    /// In so many a broken rule has to be seen.
    const WORLDS: u64 = 300;

    fn is_caught(rules: &Rules, word: &str) {
        let is_it = |seed| run(seed, rules).tale.violation.is_some_and(|violation| violation.contains(word));
        let caught = (0..WORLDS).find(|&seed| is_it(seed));
        let seed = caught.unwrap_or_else(|| panic!("{rules:?} went unnoticed in {WORLDS} worlds"));
        println!("seen with seed {seed}");
    }

    #[test]
    fn nodes_that_forget_and_vote_at_once_grant_twice() {
        is_caught(&Rules { restart: Restart::Votes, ..Rules::KEPT }, "at once");
    }

    #[test]
    fn nodes_that_forget_and_wait_for_the_ttl_of_who_asks_grant_what_was_left_for_longer_twice() {
        is_caught(&Rules { restart: Restart::GoesByTheAsker, ..Rules::KEPT }, "at once");
    }

    #[test]
    fn clocks_outside_of_the_bound_grant_twice() {
        is_caught(&Rules { drift: 0.15, ..Rules::KEPT }, "at once");
    }

    #[test]
    fn fences_that_are_not_written_back_fall() {
        is_caught(&Rules { floors: Floors::Ignored, ..Rules::KEPT }, "fence");
    }

    #[test]
    fn wall_clocks_that_are_behind_by_more_than_the_outage_let_fences_fall() {
        is_caught(&Rules { skew: 20.0, ..Rules::KEPT }, "fence");
    }

    #[test]
    fn clocks_that_jump_grant_twice_and_the_fence_saves_the_resource() {
        let rules = Rules { jumps: true, amnesia: false, ..Rules::KEPT };
        let (mut overlaps, mut jumps) = (0, 0);
        let count = number("BRAMAH_SEEDS").unwrap_or(80);
        for seed in 0..count {
            let Outcome { tale, blows } = run(seed, &rules);
            jumps += blows.jumps;
            for event in tale.events.iter().filter(|event| event.contains("VIOLATION")) {
                assert!(event.contains("at once"), "seed {seed}: {event}\n{}", tale.events.join("\n"));
                overlaps += 1;
            }
        }
        println!("{jumps} jumps, {overlaps} times held twice");
        assert!(overlaps > 0, "no jump was noticed in {count} worlds");
    }
}
