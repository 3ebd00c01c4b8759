//! Runs the cases.

use std::{fmt, io::Write, sync::Arc, time::Duration};

use bramah_core::{Clock, Engine, Error, ErrorKind, Profile, Result};
use tokio::{
    sync::{Semaphore, oneshot},
    task::JoinSet,
};

use crate::{
    Case, Later, Target, Verdict,
    bench::Bench,
    case::{Failure, Outcome, told},
    cases,
    child::Reconnect,
};

/// How long one case may take.
const LIMIT: Duration = Duration::from_secs(150);
/// How many run side by side if nobody says.
const ABREAST: usize = 8;

/// The cases and the store to run them on.
pub struct Suite {
    name: String,
    setup: Box<dyn Fn() -> Later<Result<Target>>>,
    reconnect: Option<Reconnect>,
    abreast: usize,
}

/// How a run went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Promises kept.
    pub passed: usize,
    /// Promises broken.
    pub failed: usize,
    /// Promises not made.
    pub skipped: usize,
}

/// The closing line of a run.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

impl Suite {
    /// The suite for the engine called `name`, on the store that `setup` makes ready.
    pub fn new(name: impl Into<String>, setup: impl Fn() -> Later<Result<Target>> + 'static) -> Self {
        Self { name: name.into(), setup: Box::new(setup), reconnect: None, abreast: ABREAST }
    }

    /// With child processes: `reconnect` gives an engine on the store at the address that the target says it is
    /// [reachable at](Target::reachable_at). It is called in a child, where `setup` is not.
    #[must_use]
    pub fn children(
        self,
        reconnect: impl Fn(String) -> Later<Result<Arc<dyn Engine>>> + Send + Sync + 'static,
    ) -> Self {
        Self { reconnect: Some(Box::new(reconnect)), ..self }
    }

    /// So many cases side by side, where a store is more than one and the machine has to run them all.
    #[must_use]
    pub fn abreast(self, cases: usize) -> Self {
        Self { abreast: cases, ..self }
    }

    pub(crate) fn into_reconnect(self) -> Option<Reconnect> {
        self.reconnect
    }

    /// Runs the cases that `chosen` picks, `repeat` times, and prints a line for each.
    ///
    /// # Errors
    /// `Unavailable` when there is no store to run them on.
    pub fn run(&self, chosen: impl Fn(&str) -> bool, repeat: usize) -> Result<Tally> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("conformance")
            .enable_all()
            .build()
            .map_err(|error| Error::caused(ErrorKind::Unavailable, format!("no runtime: {error}"), error))?;
        let tally = runtime.block_on(async {
            let target = (self.setup)().await?;
            let profile = target.client().await?.profile();
            say(format_args!("{}: {profile:?}", self.name));
            let mut tally = Tally::default();
            for _ in 0..repeat {
                let (alone, abreast): (Vec<Case>, Vec<Case>) =
                    cases::all().into_iter().filter(|case| chosen(case.name())).partition(Case::is_alone);
                run_all(abreast, self.abreast, &target, profile, &mut tally).await;
                run_all(alone, 1, &target, profile, &mut tally).await;
            }
            Ok(tally)
        });
        runtime.shutdown_timeout(Duration::from_secs(2));
        tally
    }
}

impl fmt::Debug for Suite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Suite").field("name", &self.name).finish_non_exhaustive()
    }
}

async fn run_all(cases: Vec<Case>, abreast: usize, target: &Target, profile: Profile, tally: &mut Tally) {
    let (clock, places) = (Clock::boot(), Arc::new(Semaphore::new(abreast)));
    let mut running = JoinSet::new();
    for case in cases {
        let (target, clock, places) = (target.clone(), clock.clone(), places.clone());
        running.spawn(async move {
            let _place = places.acquire_owned().await;
            let started = clock.now();
            let verdict = judge(case, target, profile).await;
            (case.name(), verdict, clock.now().since(started))
        });
    }
    while let Some(done) = running.join_next().await {
        let Ok((name, verdict, took)) = done else { continue };
        match verdict {
            Verdict::Passed => {
                tally.passed += 1;
                say(format_args!("ok {name} ({} ms)", took.as_millis()));
            }
            Verdict::Failed(why) => {
                tally.failed += 1;
                say(format_args!("FAILED {name} ({} ms): {why}", took.as_millis()));
            }
            Verdict::Skipped(why) => {
                tally.skipped += 1;
                say(format_args!("skipped {name}: {why}"));
            }
        }
    }
}

/// Runs the case called `name` on `target`.
///
/// # Errors
/// `Invalid` if there is no such case, and what the engine says when it cannot be reached at all.
pub async fn run_case(name: &str, target: Target) -> Result<Verdict> {
    let case = cases::all()
        .into_iter()
        .find(|case| case.name() == name)
        .ok_or_else(|| Error::new(ErrorKind::Invalid, format!("there is no case {name}")))?;
    let profile = target.client().await?.profile();
    Ok(judge(case, target, profile).await)
}

/// Runs one case on a runtime of its own: a panic or a hang fails it and nothing else, and a case that blocks its
/// executor (a last handle that waits for its withdrawals does) holds up no other.
async fn judge(case: Case, target: Target, profile: Profile) -> Verdict {
    if let Some(why) = case.missing(&profile, &target) {
        return Verdict::Skipped(why);
    }
    let bench = Bench::new(target, profile, case.name());
    let (tell, outcome) = oneshot::channel();
    let thread = std::thread::Builder::new().name(case.name().into());
    let started = thread.spawn(move || tell.send(run_alone(case, bench)));
    let outcome = match (started, tokio::time::timeout(LIMIT, outcome).await) {
        (Err(error), _) => Err(error.into()),
        (_, Ok(Ok(outcome))) => outcome,
        (_, Ok(Err(_))) => Err(Failure::new("its thread ended without a word")),
        (_, Err(_)) => Err(Failure::new(format!("it was not done after {LIMIT:?}"))),
    };
    outcome.map_or_else(|failure| Verdict::Failed(failure.to_string()), |()| Verdict::Passed)
}

fn run_alone(case: Case, bench: Bench) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let outcome = runtime.block_on(async { tokio::spawn(case.run(bench)).await });
    runtime.shutdown_background();
    outcome.unwrap_or_else(|error| Err(Failure::new(format!("it panicked: {}", told(error)))))
}

/// One line, written at once, so that a run that is stopped shows how far it came.
pub(crate) fn say(line: fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    // A closed pipe is no reason to stop.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}
