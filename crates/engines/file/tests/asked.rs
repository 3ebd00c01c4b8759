//! Holders that are asked to let go: at once by a letter, by a renewal without one, and nothing is left of it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod rig;

use std::{fs, path::PathBuf, time::Duration};

use bramah_core::{Guard, Session};
use bramah_file::File;
use rig::{Dir, LIMIT, until};

async fn open(dir: &Dir, ttl: Duration) -> Session {
    Session::builder(File::open(&dir.0).unwrap()).ttl(ttl).open().await.unwrap()
}

async fn ask(by: &Session, guard: &Guard) {
    assert!(by.ask(&guard.name(), guard.tag()).await.unwrap(), "it is held");
}

/// The files of wishes in a directory of locks.
fn wishes(dir: &Dir) -> Vec<PathBuf> {
    let files = fs::read_dir(dir.0.join("sessions")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "asked")).collect()
}

fn mailboxes(dir: &Dir) -> Vec<PathBuf> {
    let files = fs::read_dir(dir.0.join("sessions")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "mail")).collect()
}

/// The next renewal is 100 seconds away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_is_told_before_its_next_renewal() {
    let dir = Dir::new();
    let (a, b) = (open(&dir, Duration::from_secs(300)).await, open(&dir, Duration::from_secs(300)).await);
    let (guard, other) =
        (a.mutex("x").unwrap().lock().await.unwrap(), a.mutex("y").unwrap().lock().await.unwrap());
    ask(&b, &guard).await;
    tokio::time::timeout(LIMIT, guard.asked()).await.unwrap();
    assert!(guard.is_held() && !other.is_asked());
}

/// As where the file system has no pipes, or a cleaner has been there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_holder_without_a_mailbox_is_told_by_its_renewal() {
    let dir = Dir::new();
    let (a, b) = (open(&dir, Duration::from_secs(3)).await, open(&dir, Duration::from_secs(3)).await);
    let guard = a.mutex("x").unwrap().lock().await.unwrap();
    mailboxes(&dir).iter().for_each(|path| fs::remove_file(path).unwrap());
    ask(&b, &guard).await;
    tokio::time::timeout(LIMIT, guard.asked()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wish_ends_with_its_claim_and_the_file_with_the_session() {
    let dir = Dir::new();
    let (a, b) = (open(&dir, Duration::from_millis(600)).await, open(&dir, Duration::from_secs(30)).await);
    let (guard, stays) =
        (a.mutex("x").unwrap().lock().await.unwrap(), a.mutex("y").unwrap().lock().await.unwrap());
    assert!(wishes(&dir).is_empty(), "nobody has asked");
    for guard in [&guard, &guard, &stays] {
        ask(&b, guard).await;
    }
    let [file] = <[PathBuf; 1]>::try_from(wishes(&dir)).unwrap();
    let numbers = || fs::read_to_string(&file).unwrap().lines().count();
    assert_eq!(numbers(), 2, "one wish for each of them");
    guard.release().await;
    until("the wish for what was released is gone", || numbers() == 1);
    tokio::time::timeout(LIMIT, stays.asked()).await.unwrap();
    stays.release().await;
    until("the other one is, too", || numbers() == 0);
    let _ = a.close(LIMIT).await;
    assert!(wishes(&dir).is_empty(), "it ends with the session");
}

/// Somebody asked in the moment in which the session ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wishes_without_a_session_are_swept() {
    let dir = Dir::new();
    drop(open(&dir, Duration::from_secs(30)).await);
    let left = dir.0.join("sessions").join(format!("{:032x}.{:016x}.asked", 7, 7));
    fs::write(&left, "1\n").unwrap();
    let _session = open(&dir, Duration::from_secs(30)).await;
    assert!(!left.exists());
}

/// A name that is not there, or something else in its place, is no reason to lose a lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn something_else_in_the_place_of_the_wishes_costs_no_lock() {
    let dir = Dir::new();
    let (a, b) = (open(&dir, Duration::from_millis(600)).await, open(&dir, Duration::from_secs(30)).await);
    let guard = a.mutex("x").unwrap().lock().await.unwrap();
    for mail in mailboxes(&dir) {
        fs::create_dir(mail.with_extension("asked")).unwrap();
    }
    let error = b.ask(&guard.name(), guard.tag()).await.unwrap_err();
    assert!(error.to_string().contains(".asked"), "{error}");
    assert!(guard.confirm().await.unwrap());
}
