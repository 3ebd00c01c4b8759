//! Debian's packages, unpacked instead of installed. The mirror is the one that the machine's own apt uses, and apt
//! checks the signatures. Its state is a directory of ours, so that it may know another release than the machine does.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{Flavor, program};
use crate::target;

const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Names another mirror, for machines whose own is not Debian's.
const MIRROR: &str = "BRAMAH_DEBIAN_MIRROR";

/// What the packages of the servers need to be installed, and not to be run. Apt is told that these are there, and then
/// what is missing is the server with its libraries, down to the C library.
const NOT_NEEDED: [&str; 17] = [
    "adduser",
    "debconf",
    "dpkg",
    "init-system-helpers",
    // Compiles queries, which ours are too small for.
    "libllvm14",
    "locales",
    "lsb-base",
    "mariadb-common",
    "netbase",
    "passwd",
    "perl",
    "postgresql-client-common",
    "postgresql-common",
    "ssl-cert",
    "sysvinit-utils",
    "tar",
    "ucf",
];

/// Gets the flavor's packages and unpacks them to `home`, which is there completely or not at all.
pub(super) fn fetch(flavor: Flavor, home: &Path, apt: &Path, dpkg: &Path) -> Result<(), String> {
    let _lock = target::lock(&home.with_extension("lock"))?;
    if home.is_dir() {
        return Ok(());
    }
    if !Path::new(KEYS).is_file() {
        return Err(format!("no {KEYS} to check signatures with; install debian-archive-keyring"));
    }
    let work = home.with_extension("partial");
    let _ = fs::remove_dir_all(&work);
    let store = State::new(&work, apt, flavor)?;
    store.run(&["update", "--error-on=any"])?;
    let install = ["install", "--yes", "--no-install-recommends", "--download-only"];
    let get: &[&str] = if flavor.alone() { &["download"] } else { &install };
    store.run(&[get, flavor.packages()].concat())?;
    let root = work.join("root");
    for package in store.packages()? {
        run(Command::new(dpkg).arg("-x").args([&package, &root]))?;
    }
    if let Some(script) = flavor.script() {
        program::place(&root, flavor.server(), script)?;
    }
    if flavor.wrapped() {
        for name in flavor.tools().iter().chain([&flavor.server()]) {
            let file = program::file_in(&flavor.folders(&root), name);
            program::wrap(&root, &file.ok_or_else(|| format!("its packages have no {name}"))?)?;
        }
    }
    fs::rename(&root, home).map_err(|why| format!("cannot move {} into place: {why}", root.display()))?;
    // Only space is lost if it stays.
    let _ = fs::remove_dir_all(&work);
    Ok(())
}

/// Apt with a memory of its own.
struct State {
    folder: PathBuf,
    apt: PathBuf,
}

impl State {
    fn new(folder: &Path, apt: &Path, flavor: Flavor) -> Result<Self, String> {
        let state = Self { folder: folder.to_path_buf(), apt: apt.to_path_buf() };
        let there: String = NOT_NEEDED.iter().map(|name| installed(name)).collect();
        let sources = format!("deb [signed-by={KEYS}] {} {} main\n", mirror(apt)?, flavor.suite());
        let write = || {
            fs::create_dir_all(folder.join("state/lists/partial"))?;
            fs::create_dir_all(folder.join("cache/archives/partial"))?;
            fs::create_dir_all(folder.join("root"))?;
            fs::write(folder.join("status"), there)?;
            fs::write(folder.join("sources.list"), sources)
        };
        write().map_err(|why| format!("cannot write to {}: {why}", folder.display()))?;
        Ok(state)
    }

    fn run(&self, args: &[&str]) -> Result<(), String> {
        let mut command = Command::new(&self.apt);
        let ours = [
            ("Dir::State", "state"),
            ("Dir::State::status", "status"),
            ("Dir::Cache", "cache"),
            ("Dir::Etc::sourcelist", "sources.list"),
        ];
        for (option, path) in ours {
            command.arg("-o").arg(format!("{option}={}", self.folder.join(path).display()));
        }
        for option in [
            "Dir::Etc::sourceparts=-",
            "Dir::Etc::preferences=-",
            "Dir::Etc::preferencesparts=-",
            "Debug::NoLocking=1",
            // Root's apt would become a user who may not write here.
            "APT::Sandbox::User=root",
            "Acquire::Languages=none",
            "Acquire::Retries=3",
        ] {
            command.args(["-o", option]);
        }
        // What is only downloaded is put where apt is.
        run(command.current_dir(self.folder.join("cache/archives")).arg("-qq").args(args))
    }

    fn packages(&self) -> Result<Vec<PathBuf>, String> {
        let folder = self.folder.join("cache/archives");
        let listed =
            fs::read_dir(&folder).map_err(|why| format!("cannot list {}: {why}", folder.display()))?;
        let paths = listed.filter_map(|entry| Some(entry.ok()?.path()));
        Ok(paths.filter(|path| path.extension().is_some_and(|end| end == "deb")).collect())
    }
}

fn installed(name: &str) -> String {
    format!(
        "Package: {name}\nStatus: install ok installed\nVersion: 9999\nArchitecture: all\n\
         Multi-Arch: allowed\nMaintainer: nobody\nDescription: pretended\n\n"
    )
}

/// The mirror that the machine's apt has of Debian itself, and not of its security updates.
fn mirror(apt: &Path) -> Result<String, String> {
    if let Some(set) = env::var(MIRROR).ok().filter(|set| !set.is_empty()) {
        return Ok(set);
    }
    let listed = Command::new(apt)
        .args(["indextargets", "--format", "$(ORIGIN)|$(LABEL)|$(REPO_URI)"])
        .output()
        .map_err(|why| format!("apt-get could not be started: {why}"))?;
    debian_of(&String::from_utf8_lossy(&listed.stdout)).map(String::from).ok_or_else(|| {
        format!(
            "apt on this machine has no lists of Debian; run `apt-get update`, or name a mirror in {MIRROR}"
        )
    })
}

fn debian_of(listing: &str) -> Option<&str> {
    listing.lines().find_map(|line| line.strip_prefix("Debian|Debian|"))
}

/// Runs it; what it complained about becomes one line.
fn run(command: &mut Command) -> Result<(), String> {
    let name = Path::new(command.get_program()).file_name().unwrap_or_default().display().to_string();
    let done = command
        .env("LC_ALL", "C")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()
        .map_err(|why| format!("{name} could not be started: {why}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    let complaint = said.lines().find(|line| line.starts_with("E: ")).or(said.lines().last());
    Err(format!("{name}: {}", complaint.map_or(done.status.to_string(), String::from)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_debian_and_not_its_security_updates() {
        let listing = "Debian|Debian-Security|http://a.example/security/\nOther|Debian|http://b.example/\n\
                       Debian|Debian|http://c.example/debian/\n";
        assert_eq!(debian_of(listing), Some("http://c.example/debian/"));
        assert_eq!(debian_of("Ubuntu|Ubuntu|http://d.example/\n"), None);
    }

    #[test]
    fn a_complaint_is_one_line() {
        let script = "echo warning >&2; echo 'E: no such package' >&2; echo more >&2; exit 100";
        let why = run(Command::new("sh").args(["-c", script])).unwrap_err();
        assert_eq!(why, "sh: E: no such package");
        assert!(run(Command::new("sh").args(["-c", "exit 3"])).unwrap_err().contains("exit status: 3"));
    }
}
