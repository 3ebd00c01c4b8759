//! Runs all test binaries of the workspace, several at a time.
//!
//! Most tests wait for servers and for time, so one binary after another leaves the machine idle. Here there are as many at once as the
//! machine has cores. Those that took long last time begin first, so that the end does not wait for one of them. A few have the
//! machine for themselves. What a binary prints goes to a file, and is shown if it fails.

mod tally;

use std::{
    collections::HashMap,
    env, fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    cargo::{cargo, root},
    interop,
    report::{Outcome, Report},
};
use tally::Tally;

/// How long a binary may take. Whatever takes longer hangs.
const LIMIT: Duration = Duration::from_secs(15 * 60);

/// The time between two looks at the binaries that run.
const PAUSE: Duration = Duration::from_millis(50);

/// How many of the slowest tests are told.
const SLOWEST: usize = 20;

/// A test binary.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Binary {
    /// The package and the target, such as `bramah-redis faults`.
    name: String,
    executable: PathBuf,
    /// The package's directory, which the binary runs in.
    dir: PathBuf,
}

/// How a binary ended.
#[derive(Debug)]
struct Ended {
    why: Option<String>,
    took: Duration,
    output: String,
}

/// Builds the tests, runs them, and documentation tests after them.
pub(crate) fn run(report: &mut Report, only: Option<&[String]>) {
    let packages = only.map_or_else(
        || vec!["--workspace".to_owned()],
        |only| only.iter().flat_map(|name| ["--package".to_owned(), name.clone()]).collect(),
    );
    let mut binaries = Vec::new();
    let what = format!("cargo test {} --all-features --no-run", packages.join(" "));
    report.step("building tests", &what, || match build(&packages) {
        Ok(built) => {
            binaries = built;
            Outcome::Passed
        }
        Err(why) => Outcome::Failed(why),
    });
    let places = thread::available_parallelism().map_or(2, usize::from);
    let what = format!("{} binaries, {places} at a time", binaries.len());
    report.step("tests", &what, || run_all(binaries, places));
    // Of all packages: cargo refuses to test the documents of one without a library, and these take seconds.
    let mut command = cargo(["test", "--doc", "--all-features", "--workspace"]);
    let what = crate::cargo::shown(&command);
    report.step("tests in documents", &what, || crate::cargo::run(&mut command).into());
}

/// Compiles all tests and lists their binaries.
fn build(packages: &[String]) -> Result<Vec<Binary>, String> {
    let mut command = cargo(["test", "--all-features", "--no-run"]);
    command.args(packages).arg("--message-format=json-render-diagnostics").stdout(Stdio::piped());
    let built = command
        .spawn()
        .and_then(std::process::Child::wait_with_output)
        .map_err(|why| format!("cargo could not be started: {why}"))?;
    if !built.status.success() {
        return Err(built.status.to_string());
    }
    let text = String::from_utf8_lossy(&built.stdout);
    Ok(text.lines().filter_map(binary).collect())
}

/// The test binary that a message of cargo tells of.
fn binary(message: &str) -> Option<Binary> {
    let message: Value = serde_json::from_str(message).ok()?;
    let is_test = message["profile"]["test"].as_bool()?;
    let executable = PathBuf::from(message["executable"].as_str().filter(|_| is_test)?);
    let dir = Path::new(message["manifest_path"].as_str()?).parent()?.to_owned();
    // path+file:///somewhere/crates/core#bramah-core@0.1.0, and without the name where the directory has it.
    let id = message["package_id"].as_str()?;
    let (place, version) = id.rsplit_once('#')?;
    let package = version.split_once('@').map_or_else(|| place.rsplit('/').next(), |(name, _)| Some(name))?;
    let target = message["target"]["name"].as_str()?;
    let kind = message["target"]["kind"][0].as_str()?;
    let target = if kind == "test" { target } else { "unit tests" };
    Some(Binary { name: format!("{package} {target}"), executable, dir })
}

fn run_all(binaries: Vec<Binary>, places: usize) -> Outcome {
    if binaries.is_empty() {
        return Outcome::Failed("there are no tests to run".to_owned());
    }
    let logs = root().join("target/tests");
    if let Err(why) = fs::create_dir_all(&logs) {
        return Outcome::Failed(format!("{} cannot be made: {why}", logs.display()));
    }
    let known = durations(&fs::read_to_string(logs.join(DURATIONS)).unwrap_or_default());
    let binaries = in_order(binaries, &known);
    let libraries = libraries();
    let tally = Mutex::new(Tally::new(binaries.len()));
    let run = |binary: &Binary| {
        let log = logs.join(format!("{}.log", binary.name.replace(' ', ".")));
        let told = || tally.lock().unwrap_or_else(PoisonError::into_inner);
        told().begin(&binary.name);
        let ended = run_one(binary, &log, libraries.as_deref());
        told().add(&binary.name, &ended);
    };
    let (alone, others): (Vec<_>, Vec<_>) = binaries.iter().partition(|one| ALONE.contains(&&*one.name));
    alone.into_iter().for_each(run);
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..places {
            scope.spawn(|| {
                while let Some(binary) = others.get(next.fetch_add(1, Ordering::Relaxed)) {
                    run(binary);
                }
            });
        }
    });
    let tally = tally.into_inner().unwrap_or_else(PoisonError::into_inner);
    remember(&logs.join(DURATIONS), known, &tally);
    print!("\n{tally}");
    tally.outcome()
}

/// Runs a binary as cargo would.
fn run_one(binary: &Binary, log: &Path, libraries: Option<&str>) -> Ended {
    let began = Instant::now();
    let why = attempt(binary, log, libraries, began).err();
    let output = fs::read(log).map_or_else(|_| String::new(), |bytes| String::from_utf8_lossy(&bytes).into());
    Ended { why, took: began.elapsed(), output }
}

fn attempt(binary: &Binary, log: &Path, libraries: Option<&str>, began: Instant) -> Result<(), String> {
    let told = |why| format!("{} cannot be written: {why}", log.display());
    let file = fs::File::create(log).map_err(told)?;
    let other = file.try_clone().map_err(told)?;
    let mut command = Command::new(&binary.executable);
    command.current_dir(&binary.dir).stdin(Stdio::null()).stdout(file).stderr(other);
    command.env("CARGO_MANIFEST_DIR", &binary.dir).env(interop::FILE, interop::path());
    if let Some(libraries) = libraries {
        command.env("LD_LIBRARY_PATH", libraries);
    }
    let mut child = command.spawn().map_err(|why| format!("it could not be started: {why}"))?;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(status.to_string()),
            Ok(None) if began.elapsed() < LIMIT => thread::sleep(PAUSE),
            Ok(None) => {
                // It may have ended just now.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("it did not end within {} minutes", LIMIT.as_secs() / 60));
            }
            Err(why) => return Err(format!("it could not be waited for: {why}")),
        }
    }
}

/// Where the libraries are that tests of procedural macros and the like need.
fn libraries() -> Option<String> {
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let said = rustc.args(["--print", "target-libdir"]).output().ok().filter(|said| said.status.success())?;
    Some(String::from_utf8_lossy(&said.stdout).trim().to_owned())
}

/// The file of the run before: a line for each binary, its seconds and its name.
const DURATIONS: &str = "durations";

fn durations(text: &str) -> HashMap<String, f64> {
    let line = |line: &str| {
        let (seconds, name) = line.split_once(' ')?;
        Some((name.to_owned(), seconds.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

fn remember(path: &Path, mut known: HashMap<String, f64>, tally: &Tally) {
    known.extend(tally.durations());
    let mut lines: Vec<String> = known.iter().map(|(name, took)| format!("{took:.1} {name}\n")).collect();
    lines.sort();
    // Without it the next run has another order.
    let _ = fs::File::create(path).and_then(|mut file| file.write_all(lines.concat().as_bytes()));
}

/// Those that have the machine for themselves: several members of a cluster and many clients keep all cores busy, and members that are
/// late elect another leader or have no vote. So do hundreds that wait in one line of a database, each of whom asks.
const ALONE: [&str; 5] = [
    "bramah-redis redlock",
    "bramah-etcd cluster",
    "bramah-zookeeper ensemble",
    "bramah-mysql faults",
    "bramah-postgres faults",
];

/// Those that take long on every machine, for the first run.
const LONG: [&str; 9] = [
    "bramah-redis faults",
    "bramah-zookeeper faults",
    "bramah-lab lab",
    "bramah-cli cli",
    "bramah-conformance quorum_worlds",
    "bramah-postgres session",
    "bramah-etcd faults",
    "bramah-redis redlock_peers",
    "bramah-redis redisson_fair",
];

/// The longest first, by what is known.
fn in_order(mut binaries: Vec<Binary>, known: &HashMap<String, f64>) -> Vec<Binary> {
    let weight = |binary: &Binary| match known.get(&binary.name) {
        Some(seconds) => *seconds,
        None if LONG.contains(&&*binary.name) => 100.0,
        None => 10.0,
    };
    binaries
        .sort_by(|one, other| weight(other).total_cmp(&weight(one)).then_with(|| one.name.cmp(&other.name)));
    binaries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Binary {
        Binary { name: name.to_owned(), executable: PathBuf::new(), dir: PathBuf::new() }
    }

    #[test]
    fn a_message_of_cargo_names_package_and_target() {
        let message = |id: &str, kind: &str, test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"{id}","manifest_path":"/w/crates/core/Cargo.toml",
                "target":{{"kind":["{kind}"],"name":"wake"}},"profile":{{"test":{test}}},"executable":"/w/t/wake-1"}}"#
            )
        };
        let read = |id, kind| binary(&message(id, kind, true)).map(|binary| binary.name);
        assert_eq!(
            read("path+file:///w/crates/core#bramah-core@0.1.0", "test"),
            Some("bramah-core wake".into())
        );
        assert_eq!(read("path+file:///w/xtask#0.1.0", "bin"), Some("xtask unit tests".into()));
        assert_eq!(binary(&message("path+file:///w/x#a@0.1.0", "lib", false)), None);
        assert_eq!(binary(r#"{"reason":"build-finished","success":true}"#), None);
        assert_eq!(binary("no message"), None);
    }

    #[test]
    fn the_longest_begin_first_and_those_of_the_list_if_nothing_is_known() {
        let binaries = ["a", "bramah-redis faults", "b", "c"].map(named).to_vec();
        let order = |text: &str| {
            in_order(binaries.clone(), &durations(text)).into_iter().map(|one| one.name).collect::<Vec<_>>()
        };
        assert_eq!(order(""), ["bramah-redis faults", "a", "b", "c"]);
        assert_eq!(
            order("200.0 c\n1.0 bramah-redis faults\nnonsense\n"),
            ["c", "a", "b", "bramah-redis faults"]
        );
    }

    #[test]
    fn a_binary_that_fails_or_is_not_there_is_told() {
        let dir = env::temp_dir();
        let log = dir.join(format!("bramah-runner-{}", std::process::id()));
        let of = |executable: &str| Binary { executable: executable.into(), dir: dir.clone(), ..named("x") };
        assert_eq!(run_one(&of("true"), &log, None).why, None);
        assert!(run_one(&of("false"), &log, None).why.is_some_and(|why| why.contains("exit status: 1")));
        assert!(run_one(&of("/no/such/file"), &log, None).why.is_some_and(|why| why.contains("started")));
        fs::remove_file(log).expect("what was written can be removed");
    }
}
