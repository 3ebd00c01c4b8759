//! A process with a Curator in it, driven by lines.

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

use crate::PATIENCE;

/// The newest release.
const CURRENT: &str = "5.9.0";

type Answers = Arc<Mutex<HashMap<u64, oneshot::Sender<String>>>>;

/// What a call will be answered.
pub(crate) type Pending = oneshot::Receiver<String>;

pub(crate) struct Java {
    child: Mutex<Child>,
    input: Mutex<ChildStdin>,
    answers: Answers,
    tickets: AtomicU64,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Java {
    /// A client of this ensemble. Nothing, and a note of that, where it cannot be had.
    pub(crate) fn start(ensemble: &str, session: Duration) -> Option<Self> {
        let peer = format!("curator {CURRENT}");
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers/curator");
        let class_path = match interop::maven(&project, &[&format!("curator={CURRENT}")]) {
            Ok(class_path) => class_path,
            Err(why) => {
                interop::missing(&peer, &why);
                return None;
            }
        };
        let mut child = Command::new("java")
            .args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx256m", "-cp"])
            .arg(class_path)
            .args(["bramah.Peer", ensemble, &session.as_millis().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        assert_eq!(lines.next().as_deref(), Some("ready"));
        let answers = Answers::default();
        let heard = answers.clone();
        std::thread::spawn(move || {
            for line in lines {
                let Some((ticket, answer)) = line.split_once(' ') else { continue };
                let asked = ticket.parse().ok().and_then(|ticket| locked(&heard).remove(&ticket));
                if let Some(asked) = asked {
                    // Nobody may want to know any more.
                    let _ = asked.send(answer.to_owned());
                }
            }
        });
        interop::ran(&peer);
        Some(Self { child: Mutex::new(child), input: Mutex::new(input), answers, tickets: AtomicU64::new(1) })
    }

    /// Has a thread there do something: `mutex acquire /a 100`.
    pub(crate) fn begin(&self, thread: &str, words: &str) -> Pending {
        let ticket = self.tickets.fetch_add(1, Ordering::Relaxed);
        let (answer, pending) = oneshot::channel();
        locked(&self.answers).insert(ticket, answer);
        writeln!(locked(&self.input), "{ticket} {thread} {words}").unwrap();
        pending
    }

    /// The same, with its answer.
    pub(crate) async fn ask(&self, thread: &str, words: &str) -> String {
        answer(self.begin(thread, words)).await
    }

    pub(crate) fn signal(&self, signal: Signal) {
        interop::signal(&locked(&self.child), signal).unwrap();
    }
}

/// What a call was answered, without the `ok`.
pub(crate) async fn answer(pending: Pending) -> String {
    let answer = tokio::time::timeout(PATIENCE, pending).await.expect("an answer of Curator").unwrap();
    answer.strip_prefix("ok ").unwrap_or(&answer).to_owned()
}

impl Drop for Java {
    fn drop(&mut self) {
        let mut child = locked(&self.child);
        let _ = child.kill();
        let _ = child.wait();
    }
}
