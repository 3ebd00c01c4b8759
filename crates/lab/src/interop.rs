//! The clients of other people: getting them, and reporting which were run.

use std::{
    ffi::OsString,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    path::{Path, PathBuf},
    process::{Child, Command},
};

use rustix::process::{Pid, Signal, kill_process};

use crate::{note, target};

/// Reports that a test was run with a peer: `redis-py 6.4.0`.
pub fn ran(peer: &str) {
    note::ran(note::PEER, peer);
}

/// Reports that a test was not run because a peer cannot be had.
///
/// # Panics
///
/// With `CI=true`, where everything must be run.
pub fn missing(peer: &str, why: &str) {
    note::missing(note::PEER, peer, why);
}

/// Sends a signal to a peer: `Signal::STOP` freezes it, `Signal::CONT` lets it go on.
///
/// # Errors
///
/// When it has ended.
pub fn signal(peer: &Child, signal: Signal) -> Result<(), String> {
    kill_process(Pid::from_child(peer), signal).map_err(|why| format!("process {}: {why}", peer.id()))
}

/// The interpreter of a Python with these packages, like `redis==6.4.0`. It is made once and kept in cargo's target
/// directory.
///
/// # Errors
///
/// One line that tells why it cannot be had.
pub fn python(packages: &[&str]) -> Result<PathBuf, String> {
    let home = made("python", packages, |home| {
        run(Command::new("python3").args(["-m", "venv"]).arg(home))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        if packages.is_empty() {
            return Ok(());
        }
        run(Command::new(home.join("bin/python3")).args(pip).args(packages))
    })?;
    Ok(home.join("bin/python3"))
}

/// A directory with a `node_modules` of these packages, like `redis@5.8.0`: a script in it, or run in it, finds them.
/// It is made once and kept in cargo's target directory.
///
/// # Errors
///
/// One line that tells why it cannot be had.
pub fn node(packages: &[&str]) -> Result<PathBuf, String> {
    made("node", packages, |home| {
        let written = fs::create_dir_all(home).and_then(|()| fs::write(home.join("package.json"), "{}\n"));
        written.map_err(|why| format!("cannot write to {}: {why}", home.display()))?;
        run(Command::new("node").arg("--version"))?;
        let npm = ["install", "--silent", "--no-audit", "--no-fund"];
        run(Command::new("npm").args(npm).args(packages).current_dir(home))
    })
}

/// The class path of a Maven project that was compiled with these properties, like `redisson=4.7.0`. The project puts
/// its classes in `${home}/classes` and what they need in `${home}/lib`. It is made once for each state of its sources
/// and kept in cargo's target directory.
///
/// # Errors
///
/// One line that tells why it cannot be had.
pub fn maven(project: &Path, properties: &[&str]) -> Result<OsString, String> {
    let mut hasher = DefaultHasher::new();
    digest(project, &mut hasher).map_err(|why| format!("cannot read {}: {why}", project.display()))?;
    let sources = format!("sources={:016x}", hasher.finish());
    let home = made("java", &[properties, &[sources.as_str()]].concat(), |home| {
        run(Command::new("java").arg("-version"))?;
        // Two at the same time might write the same files of the user's repository.
        let _lock = target::lock(&home.with_file_name("maven.lock"))?;
        let mut maven = Command::new("mvn");
        maven.args(["--quiet", "--batch-mode", "process-classes", "--file"]).arg(project.join("pom.xml"));
        maven.arg(format!("-Dhome={}", home.display()));
        run_with(maven.args(properties.iter().map(|set| format!("-D{set}"))), first_error)
    })?;
    let mut class_path = home.join("classes").into_os_string();
    class_path.push(":");
    class_path.push(home.join("lib/*"));
    Ok(class_path)
}

/// All files below, in an order that does not change.
fn digest(folder: &Path, hasher: &mut DefaultHasher) -> std::io::Result<()> {
    let mut entries: Vec<_> = fs::read_dir(folder)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        entry.file_name().hash(hasher);
        if entry.file_type()?.is_dir() {
            digest(&entry.path(), hasher)?;
        } else {
            fs::read(entry.path())?.hash(hasher);
        }
    }
    Ok(())
}

/// Makes a directory for these packages unless there is one that was made to the end. It cannot be made beside and
/// renamed, for a virtual environment knows its own path: a file in it tells that it is complete.
fn made(
    language: &str,
    packages: &[&str],
    make: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let mut hasher = DefaultHasher::new();
    packages.hash(&mut hasher);
    let home = target::directory().join("peers").join(format!("{language}-{:016x}", hasher.finish()));
    let complete = home.join("complete");
    let _lock = target::lock(&home.with_extension("lock"))?;
    if !complete.is_file() {
        let _ = fs::remove_dir_all(&home);
        let done = make(&home).and_then(|()| {
            fs::write(&complete, packages.join("\n"))
                .map_err(|why| format!("cannot write {}: {why}", complete.display()))
        });
        done.map_err(|why| format!("no {language} with {}: {why}", packages.join(" ")))?;
    }
    Ok(home)
}

/// Runs it; what it complained about last becomes one line.
fn run(command: &mut Command) -> Result<(), String> {
    run_with(command, |said| said.lines().map(str::trim).rfind(|line| !line.is_empty()))
}

/// Maven's complaint; after it come only pieces of advice.
fn first_error(said: &str) -> Option<&str> {
    said.lines().map(str::trim).find(|line| line.contains("ERROR"))
}

fn run_with(command: &mut Command, complaint: impl FnOnce(&str) -> Option<&str>) -> Result<(), String> {
    let name = Path::new(command.get_program()).file_name().unwrap_or_default().display().to_string();
    let done = command.output().map_err(|why| format!("{name} could not be started: {why}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = [done.stderr, done.stdout].concat();
    let said = String::from_utf8_lossy(&said);
    Err(format!("{name}: {}", complaint(&said).map_or(done.status.to_string(), String::from)))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_python_is_made_and_runs() {
        match python(&[]) {
            Ok(python) => {
                run(Command::new(python).args(["-c", "import sys; assert sys.prefix != sys.base_prefix"]))
                    .unwrap()
            }
            Err(why) => missing("python", &why),
        }
    }

    #[test]
    fn what_was_not_made_to_the_end_is_made_again_and_then_kept() {
        let word = format!("for process {}", std::process::id());
        let calls = Cell::new(0);
        let make = |end: Result<(), String>| {
            made("nothing", &[&word], |home| {
                calls.set(calls.get() + 1);
                assert!(!home.exists());
                fs::create_dir_all(home).unwrap();
                end
            })
        };
        let why = make(Err("no network".into())).unwrap_err();
        assert_eq!(why, format!("no nothing with {word}: no network"));
        let home = make(Ok(())).unwrap();
        assert_eq!(make(Ok(())), Ok(home.clone()));
        assert_eq!(calls.get(), 2);
        fs::remove_dir_all(&home).unwrap();
        fs::remove_file(home.with_extension("lock")).unwrap();
    }

    #[test]
    fn a_change_of_any_source_is_another_digest() {
        let scratch = crate::scratch::Scratch::new().unwrap();
        let told = || {
            let mut hasher = DefaultHasher::new();
            digest(scratch.path(), &mut hasher).unwrap();
            hasher.finish()
        };
        let file = scratch.path().join("deep/down.java");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "one").unwrap();
        let one = told();
        assert_eq!(one, told());
        fs::write(&file, "two").unwrap();
        assert_ne!(one, told());
    }

    #[test]
    fn mavens_complaint_is_its_first_error() {
        let said = "Downloading\n[ERROR] no such version\n[ERROR] [Help 1] read this\n";
        assert_eq!(first_error(said), Some("[ERROR] no such version"));
        assert_eq!(first_error(""), None);
    }

    #[test]
    fn a_complaint_is_the_last_line() {
        let why = run(Command::new("sh").args(["-c", "echo a >&2; echo 'ERROR: b' >&2; echo >&2; exit 1"]));
        assert_eq!(why, Err("sh: ERROR: b".into()));
        assert!(run(&mut Command::new("no-such-program")).unwrap_err().contains("could not be started"));
    }
}
