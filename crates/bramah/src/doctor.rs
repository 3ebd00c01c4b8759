//! Trying a store, and saying in words what it promises and what was found.
//!
//! What every engine tells of itself is put into words once ([`Promise`]); what only one kind of store has to be asked
//! for is in a file of its own, with a line in the table of kinds.

#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "file")]
mod file;
#[cfg(any(feature = "etcd", feature = "zookeeper"))]
mod majority;
mod memory;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
mod promise;
#[cfg(feature = "redis")]
mod redis;
mod times;
#[cfg(feature = "zookeeper")]
mod zookeeper;

use std::{sync::Arc, time::Duration};

use bramah_core::{
    About, Clock, Engine, Error, ErrorKind, Keep, Look, Name, Opening, Reply, Result, Scope, SessionId,
};

use promise::Crash;
pub use promise::{Latest, Promise};
pub use times::Times;

use crate::url;

/// What an examination of a store found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkup {
    /// The store's URL without secrets.
    pub store: String,
    /// What it promises.
    pub promises: Vec<Promise>,
    /// What was looked at, and what came of it.
    pub findings: Vec<Finding>,
    /// How long things take. `None` when locking failed: then there is a finding that says why.
    pub times: Option<Times>,
    /// Why the store could not be examined, if so: it is unreachable, or does not let us in. A finding has the details.
    pub failure: Option<ErrorKind>,
}

impl Checkup {
    /// Whether nothing was found that keeps the store from what it promises.
    pub fn is_healthy(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity < Severity::Problem)
    }
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What was looked at, such as `file.flock`. Stable: for scripts.
    pub code: &'static str,
    /// One line: what was found, and what to do about it.
    pub text: String,
}

impl Finding {
    fn new(severity: Severity, code: &'static str, text: impl Into<String>) -> Self {
        Self { severity, code, text: text.into() }
    }
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// As it should be.
    Ok,
    /// Good to know.
    Note,
    /// It works, and may stop to do so, or is slower than it could be.
    Warning,
    /// A promise is not kept.
    Problem,
}

impl Severity {
    /// In one lower-case word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// What is to be known of one kind of store beyond what its engine tells.
struct Kind {
    /// The schemes of its URLs; the first is the one that is shown.
    schemes: &'static [&'static str],
    excludes: Promise,
    /// How long the store lives.
    span: Span,
    /// Looks at what only this kind has. It gets the whole URL, with its secrets.
    look: fn(&str) -> Reply<Seen>,
    /// The code of a finding for an error of `look` that means something of its own on this kind of store.
    code: fn(&Error) -> Option<&'static str>,
    /// Removes what is left in the store of a name that was made up for the examination and is out of use.
    forget: fn(&str, &Name) -> Reply<()>,
}

/// What a look at one kind of store showed.
struct Seen {
    findings: Vec<Finding>,
    /// What a crash means, where that depends on more than the profile.
    crash: Option<Crash>,
}

impl From<Vec<Finding>> for Seen {
    fn from(findings: Vec<Finding>) -> Self {
        Self { findings, crash: None }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    /// As long as the engine's value in this process, which is the store.
    Engine,
    /// Longer than that.
    #[cfg_attr(
        not(any(
            feature = "file",
            feature = "redis",
            feature = "postgres",
            feature = "mysql",
            feature = "etcd",
            feature = "zookeeper"
        )),
        allow(dead_code, reason = "this build has no other store")
    )]
    Own,
}

const KINDS: &[Kind] = &[
    memory::KIND,
    #[cfg(feature = "file")]
    file::KIND,
    #[cfg(feature = "redis")]
    redis::ONE,
    #[cfg(feature = "redis")]
    redis::SENTINEL,
    #[cfg(feature = "redis")]
    redis::CLUSTER,
    #[cfg(feature = "redis")]
    redis::REDLOCK,
    #[cfg(feature = "postgres")]
    postgres::KIND,
    #[cfg(feature = "mysql")]
    mysql::KIND,
    #[cfg(feature = "etcd")]
    etcd::KIND,
    #[cfg(feature = "zookeeper")]
    zookeeper::KIND,
];

/// Where the locks go that the examination takes.
const TRIALS: &str = "bramah/doctor";

/// Tries the store at `url` and says what it promises, what was found and how long things take. Locks of a random name
/// below `bramah/doctor` are taken and released for it; nothing of them is left in the store.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> bramah::Result<()> {
/// let checkup = bramah::doctor::examine("memory:").await?;
/// assert!(checkup.is_healthy());
/// let order = checkup.promises.iter().find(|promise| promise.topic == "order");
/// assert_eq!(order.map(|order| order.word), Some("fifo"));
/// # Ok(()) }
/// ```
///
/// # Errors
/// Of a URL that is not understood, or a store that was not built in. Everything else is a finding: a store that is
/// unreachable or does not let us in has a [`failure`](Checkup::failure).
pub async fn examine(url: &str) -> Result<Checkup> {
    let (scheme, _) = url::scheme(url)?;
    let Some(kind) = KINDS.iter().find(|kind| kind.schemes.contains(&scheme)) else {
        return Err(url::unknown(scheme));
    };
    let engine = match crate::engine(url).await {
        Ok(engine) => engine,
        Err(error) if matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported) => {
            return Err(error);
        }
        Err(error) => return Ok(unexamined(url, kind, Vec::new(), &error)),
    };
    let Seen { mut findings, crash } = match (kind.look)(url).await {
        Ok(seen) => seen,
        Err(error) => {
            let promises = promise::all(kind, &engine.profile(), None, None);
            return Ok(unexamined(url, kind, promises, &error));
        }
    };
    findings.extend(lines(&*engine).await);
    let promises = promise::all(kind, &engine.profile(), crash, leaves(&*engine).await);
    let name = Name::new(format!("{TRIALS}/{}", SessionId::random()?))?;
    let times = times::measure(url, &engine, kind.span, &name).await;
    let cleaned = (kind.forget)(url, &name).await;
    let failed = |error| Finding::new(Severity::Problem, "store.lock", format!("locking failed: {error}"));
    findings.extend(times.as_ref().err().map(failed));
    if times.is_ok() {
        findings.push(Finding::new(
            Severity::Ok,
            "store.lock",
            "a lock can be taken, handed over and released",
        ));
    }
    findings.extend(cleaned.err().map(|error| {
        let text = format!("the lock of this trial was left behind, free: {error}");
        Finding::new(Severity::Warning, "store.left_over", text)
    }));
    Ok(Checkup { store: crate::redacted(url), promises, findings, times: times.ok(), failure: None })
}

/// A store that could not be looked at.
fn unexamined(url: &str, kind: &Kind, promises: Vec<Promise>, error: &Error) -> Checkup {
    let code = (kind.code)(error).unwrap_or(match error.kind() {
        ErrorKind::Denied => "store.denied",
        ErrorKind::Corrupt => "store.corrupt",
        ErrorKind::Invalid => "store.setup",
        ErrorKind::Unsupported => "store.unsupported",
        _ => "store.unreachable",
    });
    let text = format!("no lock can be taken, and nothing else was examined: {error}");
    let findings = vec![Finding::new(Severity::Problem, code, text)];
    Checkup { store: crate::redacted(url), promises, findings, times: None, failure: Some(error.kind()) }
}

/// Whether every lock can be read.
async fn lines(engine: &dyn Engine) -> Vec<Finding> {
    let problem = |error| Finding::new(Severity::Problem, "store.unreadable", format!("{error}"));
    match engine.survey(&Scope::All, Look::Once).await {
        Ok(survey) if survey.unreadable.is_empty() => {
            let text = match survey.lines.iter().filter(|line| !line.places.is_empty()).count() {
                0 => "every lock can be read; none is in use".to_owned(),
                count => format!("every lock can be read; in use: {count}"),
            };
            vec![Finding::new(Severity::Ok, "store.readable", text)]
        }
        Ok(survey) => survey.unreadable.into_iter().map(problem).collect(),
        // What is done with locks needs no list of them.
        Err(error) if error.kind() == ErrorKind::Denied => {
            vec![Finding::new(
                Severity::Warning,
                "store.unreadable",
                format!("locks cannot be listed: {error}"),
            )]
        }
        Err(error) => vec![problem(error)],
    }
}

/// Whether a lock can outlive its process; `None` if that could not be found out.
async fn leaves(engine: &dyn Engine) -> Option<bool> {
    match opens(engine, Keep::Nobody).await {
        Ok(()) => Some(true),
        // Where nothing can be opened that says nothing.
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            opens(engine, Keep::Process).await.ok().map(|()| false)
        }
        Err(_) => None,
    }
}

async fn opens(engine: &dyn Engine, keep: Keep) -> Result<()> {
    /// A store has a third of it to answer, and one that is slow is no store that refuses.
    const TTL: Duration = Duration::from_secs(15);
    let session = SessionId::random()?;
    let about = About::this_process();
    engine.open(Arc::new(Opening::new(session, TTL, keep, about))).await?;
    // What is left of it ends with its ttl.
    let _ = engine.close(session).await;
    Ok(())
}

/// Fences of a store that mints them by this machine's wall clock.
fn wall_clock(wall_us: u64) -> Finding {
    /// The start of 2024: this code is younger.
    const LEAST_US: u64 = 1_704_067_200_000_000;
    const CODE: &str = "host.wall_clock";
    if wall_us >= LEAST_US {
        return Finding::new(Severity::Ok, CODE, "the wall clock is past 2023, so fences can rise by it");
    }
    let text = "the wall clock is before 2024: fences start too low, and a resource that has seen later ones \
                refuses them; set the clock";
    Finding::new(Severity::Warning, CODE, text)
}

/// A time as finely as it was measured.
#[cfg(any(feature = "redis", feature = "etcd", feature = "zookeeper"))]
fn short(time: Duration) -> String {
    match time.as_micros() {
        us @ 0..1_000 => format!("{us}us"),
        us @ 1_000..1_000_000 => format!("{}.{}ms", us / 1_000, us % 1_000 / 100),
        us => format!("{}.{}s", us / 1_000_000, us % 1_000_000 / 100_000),
    }
}

fn wall_now() -> u64 {
    Clock::boot().wall_us()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_clock_that_was_never_set_is_told() {
        assert_eq!(wall_clock(0).severity, Severity::Warning);
        assert_eq!(wall_clock(1_704_067_199_999_999).severity, Severity::Warning);
        assert_eq!(wall_clock(1_704_067_200_000_000).severity, Severity::Ok);
    }

    #[test]
    fn every_store_of_this_build_has_a_kind() {
        let shown = |kind: &Kind| kind.schemes.first().map_or(String::new(), |scheme| format!("{scheme}:"));
        let known = |url: &&str| KINDS.iter().any(|kind| url.starts_with(&shown(kind)));
        assert!(crate::schemes().iter().all(known));
        assert_eq!(KINDS.len(), crate::schemes().len());
        #[cfg(feature = "redis")]
        for scheme in url::REDIS {
            assert_eq!(KINDS.iter().filter(|kind| kind.schemes.contains(scheme)).count(), 1, "{scheme}");
        }
        let said = url::unknown("gopher").to_string();
        assert!(said.ends_with(&crate::schemes().join(", ")), "{said}");
    }

    #[tokio::test]
    async fn a_store_that_cannot_be_opened_is_the_error_itself() {
        for (url, kind) in [("gopher://x", ErrorKind::Unsupported), ("nonsense", ErrorKind::Invalid)] {
            assert_eq!(examine(url).await.unwrap_err().kind(), kind);
        }
    }

    #[test]
    fn an_examination_can_move_between_threads() {
        fn is_send(_: impl Send) {}
        is_send(examine("memory:"));
    }

    #[tokio::test]
    async fn memory_is_healthy_and_ends_with_the_process() {
        let checkup = examine("memory:").await.unwrap();
        assert!(checkup.is_healthy() && checkup.times.is_some());
        let detached = checkup.promises.iter().find(|promise| promise.topic == "detached").unwrap();
        assert_eq!(detached.word, "no");
    }
}
