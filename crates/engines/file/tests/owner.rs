//! Whose directory it is, and what others may have put into it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod rig;

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, chown, symlink},
        process::CommandExt,
    },
    path::Path,
    process::Command,
    sync::mpsc,
};

use bramah_core::{Engine, ErrorKind, Look, Scope, Wait};
use bramah_file::File;
use rig::{Client, Dir, LIMIT, PLACE, ROLE, role};

/// Some user that is neither root nor us.
const OTHER: u32 = 4_242;

/// Opens the directory as another user and says what came of it. Without a role it is an empty test.
#[test]
fn peer() {
    let Some((_, dir)) = role() else { return };
    match File::open(&dir.0) {
        Ok(_) => println!("\nopened"),
        Err(error) => println!("\n{:?}: {error}", error.kind()),
    }
    std::mem::forget(dir);
}

/// What another user gets to hear.
fn as_another_user(dir: &Dir) -> String {
    let out = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "peer", "--nocapture"])
        .envs([(ROLE, "open"), (PLACE, dir.0.to_str().unwrap())])
        .uid(OTHER)
        .gid(OTHER)
        .output()
        .unwrap();
    String::from_utf8(out.stdout).unwrap()
}

/// Only root can be another user, or give a file away.
fn is_root(what: &str) -> bool {
    let root = fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0);
    if !root {
        eprintln!("not run: {what}: needs root");
    }
    root
}

fn refusal(dir: &Path) -> String {
    let error = File::open(dir).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    assert_eq!(error.to_string().lines().count(), 1);
    error.to_string()
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_directory_of_another_user_is_refused_also_for_root() {
    if !is_root("the directory of another user") {
        return;
    }
    let dir = Dir::new();
    File::open(&dir.0).unwrap();
    for part in ["", "locks", "sessions"] {
        let part = dir.0.join(part);
        chown(&part, Some(OTHER), None).unwrap();
        let said = refusal(&dir.0);
        assert!(said.contains("belongs to user 4242"), "{said}");
        chown(&part, Some(0), None).unwrap();
    }
    File::open(&dir.0).unwrap();
}

#[test]
fn the_link_of_another_user_does_not_lead_to_a_directory_of_ours() {
    if !is_root("the link of another user") {
        return;
    }
    let (ours, link) = (Dir::new(), Dir::new());
    fs::create_dir(&ours.0).unwrap();
    symlink(&ours.0, &link.0).unwrap();
    // The second one ends with a slash, behind which the system follows every link.
    let ways = [link.0.clone(), link.0.join("")];
    for way in &ways {
        File::open(way).unwrap();
    }
    std::os::unix::fs::lchown(&link.0, Some(OTHER), None).unwrap();
    let said = ways.map(|way| refusal(&way));
    fs::remove_file(&link.0).unwrap();
    for said in said {
        assert!(said.contains("symbolic link of user 4242"), "{said}");
    }
}

#[test]
fn another_user_is_refused_in_one_line() {
    if !is_root("opening as another user") {
        return;
    }
    let dir = Dir::new();
    File::open(&dir.0).unwrap();
    let said = as_another_user(&dir);
    assert!(said.contains("Denied") && said.contains(dir.0.to_str().unwrap()), "{said}");
    for part in ["", "locks", "sessions"] {
        mode(&dir.0.join(part), 0o755);
    }
    mode(&dir.0.join("format"), 0o644);
    let said = as_another_user(&dir);
    assert!(said.contains("Denied") && said.contains("belongs to user 0"), "{said}");
    let theirs = Dir::new();
    assert!(as_another_user(&theirs).contains("opened"), "a sticky directory may be shared");
    assert!(refusal(&theirs.0).contains("belongs to user 4242"));
}

#[test]
fn a_directory_that_others_may_write_to_is_refused() {
    let dir = Dir::new();
    File::open(&dir.0).unwrap();
    for part in ["", "locks", "sessions"] {
        let part = dir.0.join(part);
        for open in [0o770, 0o707, 0o1777] {
            mode(&part, open);
            let said = refusal(&dir.0);
            assert!(said.contains("others may write") && said.contains("chmod 700"), "{said}");
        }
        mode(&part, 0o700);
    }
    File::open(&dir.0).unwrap();
}

#[tokio::test]
async fn a_link_in_place_of_a_file_is_not_followed() {
    let (dir, away) = (Dir::new(), Dir::new());
    let a = Client::new(&dir);
    fs::create_dir(&away.0).unwrap();
    let target = away.0.join("target");
    symlink(&target, dir.ledger("x")).unwrap();
    let scope = Scope::Exact(a.draft("x", Wait::No).name);
    let looked = a.engine.survey(&scope, Look::Once).await.unwrap_err();
    for error in [a.claim(&a.draft("x", Wait::No)).await.unwrap_err(), looked] {
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.to_string().contains("symbolic link"), "{error}");
    }
    let other = Dir::new();
    fs::create_dir(&other.0).unwrap();
    symlink(&target, other.0.join("format")).unwrap();
    assert_eq!(File::open(&other.0).unwrap_err().kind(), ErrorKind::Corrupt);
    fs::remove_file(other.0.join("format")).unwrap();
    File::open(&other.0).unwrap();
    fs::remove_dir(other.0.join("locks")).unwrap();
    symlink(&away.0, other.0.join("locks")).unwrap();
    assert!(refusal(&other.0).contains("symbolic link"));
    assert_eq!(fs::read_dir(&away.0).unwrap().count(), 0, "nothing was made elsewhere");
}

/// In a thread of its own: what is tested for is that it ends.
fn ends<T: Send + 'static>(what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, ended) = mpsc::channel();
    std::thread::spawn(move || done.send(work()));
    ended.recv_timeout(LIMIT).unwrap_or_else(|_| panic!("{what} does not end"))
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_pipe_in_place_of_a_file_holds_nobody_up() {
    let dir = Dir::new();
    let (a, b) = (Client::new(&dir), Client::new(&dir));
    let claim = a.draft("x", Wait::No);
    a.engine.claim(std::sync::Arc::new(claim)).into_now().unwrap().unwrap();
    for session in dir.sessions() {
        if session.to_str().unwrap().contains(&a.session.to_string()) {
            fs::remove_file(&session).unwrap();
            make_pipe(&session);
        }
    }
    let claim = std::sync::Arc::new(b.draft("x", Wait::No));
    let (b, error) = ends("a claim", move || {
        let error = b.engine.claim(claim).into_now().unwrap().unwrap_err();
        (b, error)
    });
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("not a regular file"), "{error}");
    make_pipe(&dir.ledger("y"));
    let claim = std::sync::Arc::new(b.draft("y", Wait::No));
    let error = ends("a claim", move || b.engine.claim(claim).into_now().unwrap().unwrap_err());
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    let path = dir.0.clone();
    ends("another session", move || Client::new(&Dir(path.clone())).session);
    let other = Dir::new();
    fs::create_dir(&other.0).unwrap();
    make_pipe(&other.0.join("format"));
    let path = other.0.clone();
    assert_eq!(ends("opening", move || File::open(path).unwrap_err()).kind(), ErrorKind::Corrupt);
}

#[test]
fn a_directory_of_other_files_is_refused_and_stays_as_it_was() {
    let error = File::open("/").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(!Path::new("/sessions").exists() && !Path::new("/format").exists());
    let dir = Dir::new();
    fs::create_dir(&dir.0).unwrap();
    fs::write(dir.0.join("report.txt"), "precious").unwrap();
    let error = File::open(&dir.0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("other files are in it"), "{error}");
    assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 1);
    fs::remove_file(dir.0.join("report.txt")).unwrap();
    // A disk of its own that is mounted there.
    fs::create_dir(dir.0.join("lost+found")).unwrap();
    File::open(&dir.0).unwrap();
    fs::write(dir.0.join("report.txt"), "").unwrap();
    File::open(&dir.0).unwrap();
}

#[test]
fn a_path_that_cannot_be_one_is_invalid() {
    let error = File::open("/a\0b").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(!error.to_string().contains('\0'));
}

#[test]
fn looking_makes_nothing_and_says_what_is_absent() {
    let dir = Dir::new();
    let refused = |part: &str| {
        let error = File::existing(&dir.0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(
            error.to_string().contains(part) && error.to_string().contains(dir.0.to_str().unwrap()),
            "{error}"
        );
    };
    refused("no such directory");
    assert!(!dir.0.exists());
    fs::create_dir(&dir.0).unwrap();
    refused("no lock was ever taken there");
    assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 0);
    File::open(&dir.0).unwrap();
    let survey = File::existing(&dir.0).unwrap().survey(&Scope::All, Look::Once).into_now().unwrap().unwrap();
    assert!(survey.lines.is_empty());
}
