//! Beside `etcdctl lock` and `etcdctl elect`, which are etcd's own concurrency package: the same lines, in one order.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod lab;

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Stdio},
    sync::{Arc, mpsc},
    time::Duration,
};

use bramah_core::{Engine, Guard, Scope, Session};
use bramah_etcd::Etcd;
use bramah_lab::{Etcd as Server, servers::Flavor};
use lab::{SOON, flavors};

const TTL: Duration = Duration::from_secs(20);

/// An etcdctl that runs, and what it says. It is killed with the test.
struct Ctl {
    child: Child,
    said: mpsc::Receiver<String>,
}

impl Ctl {
    fn start(server: &Server, arguments: &[&str]) -> Self {
        let mut command = server.etcdctl(&server.endpoints().join(",")).unwrap();
        let mut child = command.args(arguments).stdout(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let (tell, said) = mpsc::channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| tell.send(line)));
        Self { child, said }
    }

    /// Its next line.
    fn line(&self) -> String {
        self.said.recv_timeout(SOON).expect("etcdctl says nothing")
    }

    fn is_silent(&self) -> bool {
        self.said.try_recv().is_err()
    }

    /// Has it end by itself, which releases what it has.
    fn interrupt(mut self) {
        let told = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status().unwrap();
        assert!(told.success());
        self.child.wait().unwrap();
    }
}

impl Drop for Ctl {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn session(server: &Server) -> Session {
    let url = format!("etcd://{}", server.addresses().join(","));
    let engine: Arc<dyn Engine> = Etcd::from_url(&url).unwrap().into();
    Session::builder(engine).ttl(TTL).open().await.unwrap()
}

/// How many keys the line has.
fn stand(server: &Server, name: &str, count: usize) {
    bramah_lab::until("the line", SOON, || {
        let keys = server.ctl(&["get", &format!("{name}/"), "--prefix", "--keys-only"])?;
        let found = keys.lines().filter(|key| !key.is_empty()).count();
        if found == count { Ok(()) } else { Err(format!("{found} in line, and not {count}")) }
    })
    .unwrap();
}

fn waiter(session: &Session, name: &str) -> tokio::task::JoinHandle<bramah_core::Result<Guard>> {
    let mutex = session.mutex(name).unwrap();
    tokio::spawn(async move { mutex.lock().await })
}

async fn got(waiter: tokio::task::JoinHandle<bramah_core::Result<Guard>>) -> Guard {
    tokio::time::timeout(SOON, waiter).await.expect("no grant").unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_and_we_wait_for_each_other() {
    for flavor in flavors() {
        let server = Server::start(flavor, 1).unwrap();
        let session = session(&server).await;
        let theirs = Ctl::start(&server, &["lock", "orders/42"]);
        assert!(theirs.line().starts_with("orders/42/"), "{flavor}");
        assert!(session.mutex("orders/42").unwrap().try_lock().await.unwrap().is_none(), "they have it");
        let ours = waiter(&session, "orders/42");
        stand(&server, "orders/42", 2);
        assert!(!ours.is_finished());
        theirs.interrupt();
        let guard = got(ours).await;
        let theirs = Ctl::start(&server, &["lock", "orders/42"]);
        stand(&server, "orders/42", 2);
        assert!(theirs.is_silent(), "{flavor}: two hold it");
        guard.release().await;
        assert!(theirs.line().starts_with("orders/42/"));
        theirs.interrupt();
        stand(&server, "orders/42", 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_order_is_one_and_so_are_the_numbers() {
    for flavor in flavors() {
        let server = Server::start(flavor, 1).unwrap();
        let (first, last) = (session(&server).await, session(&server).await);
        let guard = first.mutex("x").unwrap().lock().await.unwrap();
        let go = server.folder(0).join("go");
        // It prints its number, and ends when a file is there.
        let wait = format!("echo $ETCD_LOCK_REV; until [ -e {} ]; do sleep 0.05; done", go.display());
        let theirs = Ctl::start(&server, &["lock", "x", "--", "sh", "-c", &wait]);
        stand(&server, "x", 2);
        let behind = waiter(&last, "x");
        stand(&server, "x", 3);
        let before = guard.fence().unwrap().get();
        guard.release().await;
        let number: u64 = theirs.line().parse().unwrap();
        assert!(!behind.is_finished(), "{flavor}: we passed etcdctl");
        std::fs::write(&go, "").unwrap();
        let guard = got(behind).await;
        let after = guard.fence().unwrap().get();
        assert!(before < number && number < after, "{flavor}: {before}, {number}, {after}");
        guard.release().await;
    }
}

/// Readers and permits have keys of their own below the same name: etcdctl waits for each of them, and they for it.
#[tokio::test(flavor = "multi_thread")]
async fn etcdctl_waits_for_every_reader_of_a_session() {
    for flavor in flavors() {
        let server = Server::start(flavor, 1).unwrap();
        let session = session(&server).await;
        let config = session.rwlock("config").unwrap();
        let (one, two) = (config.read().lock().await.unwrap(), config.read().lock().await.unwrap());
        let theirs = Ctl::start(&server, &["lock", "config"]);
        stand(&server, "config", 3);
        let late = config.read();
        let late = tokio::spawn(async move { late.lock().await });
        stand(&server, "config", 4);
        // The last one first: it is the key that etcdctl watches.
        two.release().await;
        stand(&server, "config", 3);
        assert!(theirs.is_silent() && !late.is_finished(), "{flavor}: beside a reader");
        one.release().await;
        assert!(theirs.line().starts_with("config/"), "{flavor}");
        assert!(!late.is_finished(), "{flavor}: a reader beside etcdctl");
        theirs.interrupt();
        got(late).await.release().await;
        stand(&server, "config", 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_etcdctl_has_is_shown_and_can_be_broken() {
    for flavor in flavors() {
        let server = Server::start(flavor, 1).unwrap();
        let session = session(&server).await;
        // Beside other keys of the store, which are not locks.
        for key in ["plain", "a/plain", "/registry/x"] {
            server.ctl(&["put", key, "value"]).unwrap();
        }
        let theirs = Ctl::start(&server, &["lock", "x"]);
        theirs.line();
        let lines = session.survey(&Scope::All).await.unwrap();
        assert_eq!(lines.len(), 1, "{lines:?}");
        let place = &lines[0].places[0];
        assert_eq!((lines[0].name.as_str(), lines[0].holders().count()), ("x", 1));
        assert!(place.claim.note.starts_with("not bramah: lease "), "{}", place.claim.note);
        let tag = place.claim.id.tag();
        assert!(session.break_hold(&lines[0].name, tag, "a test").await.unwrap(), "it was not found");
        let guard = session.mutex("x").unwrap().try_lock().await.unwrap().expect("it is free");
        let line = session.inspect(&lines[0].name).await.unwrap().unwrap();
        assert_eq!(&*line.broken.unwrap().cause.reason, "a test");
        guard.release().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcdctl_that_is_killed_is_passed_over() {
    for flavor in flavors() {
        let server = Server::start(flavor, 1).unwrap();
        let session = session(&server).await;
        let mut theirs = Ctl::start(&server, &["lock", "--ttl=2", "x"]);
        theirs.line();
        let ours = waiter(&session, "x");
        stand(&server, "x", 2);
        theirs.child.kill().unwrap();
        got(ours).await.release().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_leads_of_all_who_stand() {
    for flavor in flavors() {
        let server = Server::start(flavor, 1).unwrap();
        let session = session(&server).await;
        let election = session.election("boss").unwrap();
        let ours = election.campaign("us").await.unwrap();
        let theirs = Ctl::start(&server, &["elect", "boss", "them"]);
        stand(&server, "boss", 2);
        assert!(theirs.is_silent(), "{flavor}: two lead");
        ours.resign().await;
        assert!(theirs.line().starts_with("boss/"));
        assert_eq!(theirs.line(), "them");
        let leader = election.leader().await.unwrap().expect("nobody leads");
        assert!(
            leader.value.starts_with("not bramah: lease ") && leader.value.ends_with(", them"),
            "{leader:?}"
        );
        let again = session.election("boss").unwrap();
        let again = tokio::spawn(async move { again.campaign("us again").await });
        stand(&server, "boss", 2);
        theirs.interrupt();
        let ours = tokio::time::timeout(SOON, again).await.expect("no election").unwrap().unwrap();
        // An observer of theirs sees who leads, with what we say of ourselves.
        let observer = Ctl::start(&server, &["elect", "-l", "boss"]);
        assert!(observer.line().starts_with("boss/"));
        assert!(observer.line().ends_with("note=us%20again"));
        ours.resign().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn below_a_prefix_it_is_the_same() {
    let server = Server::start(Flavor::Etcd35, 1).unwrap();
    let url = format!("etcd://{}/team/locks", server.addresses().join(","));
    let engine: Arc<dyn Engine> = Etcd::from_url(&url).unwrap().into();
    let session = Session::builder(engine).ttl(TTL).open().await.unwrap();
    let guard = session.mutex("a/b").unwrap().lock().await.unwrap();
    let theirs = Ctl::start(&server, &["lock", "team/locks/a/b"]);
    stand(&server, "team/locks/a/b", 2);
    assert!(session.break_hold(&guard.name(), guard.tag(), "a test").await.unwrap());
    theirs.line();
    let lines = session.survey(&Scope::All).await.unwrap();
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    assert_eq!(names, ["a/b"]);
    theirs.interrupt();
    assert_eq!(session.close(SOON).await.left, []);
    stand(&server, "team/locks/a/b", 0);
}
