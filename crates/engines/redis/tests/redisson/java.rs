//! A process with a Redisson in it, driven by lines.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bramah_lab::{Signal, interop};
use tokio::sync::oneshot;

use crate::{PATIENCE, now};

/// The newest release.
pub(crate) const CURRENT: &str = "4.7.0";
/// One that many still run.
pub(crate) const OLDER: &str = "3.27.2";

/// How long its watchdog lets a lock live unrenewed.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(3);

type Answers = Arc<Mutex<HashMap<u64, oneshot::Sender<String>>>>;

pub(crate) struct Java {
    child: Mutex<Child>,
    input: Mutex<ChildStdin>,
    answers: Answers,
    tickets: AtomicU64,
}

impl Java {
    /// A client for each of the addresses; several of them with commas between are one cluster. Nothing, and a note of
    /// that, where it cannot be had.
    pub(crate) fn start(version: &str, clients: &[&str]) -> Option<Self> {
        let peer = format!("redisson {version}");
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/redisson");
        let class_path = match interop::maven(&project, &[&format!("redisson={version}")]) {
            Ok(class_path) => class_path,
            Err(why) => {
                interop::missing(&peer, &why);
                return None;
            }
        };
        let mut child = Command::new("java")
            .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp"])
            .arg(class_path)
            .args(["bramah.Peer", &WATCHDOG.as_millis().to_string()])
            .args(clients)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut lines = BufReader::new(output).lines();
        let answers = Answers::default();
        let java = Self { child: child.into(), input: input.into(), answers, tickets: AtomicU64::new(1) };
        let first = lines.next().unwrap_or_else(|| panic!("{peer} ended at once")).unwrap();
        assert_eq!(first, "ready", "{peer}");
        interop::ran(&peer);
        let waiting = java.answers.clone();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                deliver(&waiting, &line);
            }
            // Nobody is answered any more.
            locked(&waiting).clear();
        });
        Some(java)
    }

    /// Tells a thread of it to do something: `lock tryLock name`. It is done whenever it is done.
    pub(crate) fn begin(&self, thread: &str, call: &str) -> Call {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let (sender, answer) = oneshot::channel();
        locked(&self.answers).insert(ticket, sender);
        // One that was killed does not answer.
        let _ = writeln!(locked(&self.input), "{ticket} {thread} {call}");
        Call { answer, what: format!("{thread}: {call}") }
    }

    /// The same, and its answer: a value, or `error Class: message`.
    pub(crate) async fn ask(&self, thread: &str, call: &str) -> String {
        self.begin(thread, call).finish().await
    }

    /// Waits until a thread sleeps for a message of a release.
    pub(crate) async fn await_parked(&self, thread: &str) {
        let began = now();
        while self.ask(thread, "parked").await != "true" {
            assert!(now().since(began) < PATIENCE, "{thread} does not wait");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// As by `kill -9`.
    pub(crate) fn kill(&self) {
        let mut child = locked(&self.child);
        let _ = child.kill();
        let _ = child.wait();
    }

    pub(crate) fn freeze(&self) {
        interop::signal(&locked(&self.child), Signal::STOP).unwrap();
    }

    pub(crate) fn thaw(&self) {
        interop::signal(&locked(&self.child), Signal::CONT).unwrap();
    }
}

impl Drop for Java {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A call that has begun.
pub(crate) struct Call {
    answer: oneshot::Receiver<String>,
    what: String,
}

impl Call {
    pub(crate) async fn finish(self) -> String {
        match tokio::time::timeout(PATIENCE, self.answer).await {
            Ok(answer) => answer.unwrap_or_else(|_| panic!("{}: its process has ended", self.what)),
            Err(_) => panic!("{}: no answer", self.what),
        }
    }

    /// Whether it has not been answered yet.
    pub(crate) fn waits(&mut self) -> bool {
        self.answer.try_recv().is_err()
    }
}

/// `ticket ok value` or `ticket error Class: message`.
fn deliver(answers: &Answers, line: &str) {
    let Some((ticket, answer)) = line.split_once(' ') else { return };
    let waiting = ticket.parse().ok().and_then(|ticket| locked(answers).remove(&ticket));
    if let Some(waiting) = waiting {
        let _ = waiting.send(answer.strip_prefix("ok ").unwrap_or(answer).to_owned());
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
