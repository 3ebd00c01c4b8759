//! Another process on the same store: killed and stopped where a case says so.
//!
//! The suite starts its own binary again with [`CHILD`] set to the store's address. The child does what lines on its
//! standard input say, and answers each with a line; it ends with its input.

use std::{
    fmt,
    io::{BufRead, Write},
    process::{Command, ExitCode, Stdio},
    str::FromStr,
    sync::Arc,
    time::Duration,
};

use bramah_core::{Engine, Error, ErrorKind, Fence, Guard, Name, Release, Result, Session};
use rustix::process::{Pid, Signal, kill_process};
use tokio::{runtime::Runtime, sync::mpsc, task::JoinHandle};

use crate::{
    Later,
    bench::{Bench, SOON},
    case::{Failure, Outcome},
};

/// The environment variable that makes a conformance target a child.
pub const CHILD: &str = "BRAMAH_CONFORMANCE_CHILD";

/// Gives an engine on the store at an address.
pub(crate) type Reconnect = Box<dyn Fn(String) -> Later<Result<Arc<dyn Engine>>> + Send + Sync>;

/// A child process, as the case sees it. Killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Child {
    process: std::process::Child,
    answers: mpsc::UnboundedReceiver<String>,
}

impl Child {
    /// Starts a child with a session of this ttl.
    pub(crate) async fn start(bench: &Bench, ttl: Duration) -> Outcome<Self> {
        let address = bench.target().address().ok_or_else(|| Failure::new("the target has no address"))?;
        let mut process = Command::new(std::env::current_exe()?)
            .env(CHILD, &**address)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (sender, answers) = mpsc::unbounded_channel();
        let out = process.stdout.take().ok_or_else(|| Failure::new("a child without output"))?;
        std::thread::spawn(move || {
            let lines = std::io::BufReader::new(out).lines();
            lines.map_while(std::io::Result::ok).try_for_each(|line| sender.send(line)).ok()
        });
        let mut child = Self { process, answers };
        child.ask(bench, &format!("open {}", ttl.as_millis())).await?;
        Ok(child)
    }

    /// Sends a line and waits for the answer.
    pub(crate) async fn ask(&mut self, bench: &Bench, line: &str) -> Outcome<String> {
        let input = self.process.stdin.as_mut().ok_or_else(|| Failure::new("a child without input"))?;
        writeln!(input, "{line}").and_then(|()| input.flush())?;
        let answer =
            bench.within(SOON, &format!("the child's answer to {line:?}"), self.answers.recv()).await?;
        match answer {
            Some(answer) if !answer.starts_with("error") => Ok(answer),
            Some(error) => Err(Failure::new(format!("the child, asked to {line:?}: {error}"))),
            None => Err(Failure::new(format!("the child ended, asked to {line:?}"))),
        }
    }

    /// Has the child take the lock, and tells its fence.
    pub(crate) async fn lock(&mut self, bench: &Bench, name: &Name) -> Outcome<Option<Fence>> {
        let answer = self.ask(bench, &format!("lock {name}")).await?;
        Ok(answer.strip_prefix("held ").and_then(|fence| fence.parse().ok()).map(Fence::new))
    }

    pub(crate) fn signal(&self, signal: Signal) -> Outcome {
        kill_process(self.pid()?, signal).map_err(|error| Failure::new(format!("no signal sent: {error}")))
    }

    /// Kills it and waits until it is gone.
    pub(crate) fn kill(&mut self) -> Outcome {
        self.process.kill()?;
        self.process.wait()?;
        Ok(())
    }

    /// Waits until it has ended by itself, and well.
    pub(crate) async fn ended(&mut self, bench: &Bench) -> Outcome {
        let deadline = bench.clock().now() + SOON;
        loop {
            match self.process.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(Failure::new(format!("the child ended with {status}"))),
                None if bench.clock().now() >= deadline => return Err(Failure::new("the child did not end")),
                None => bench.pass(Duration::from_millis(2)).await,
            }
        }
    }

    fn pid(&self) -> Outcome<Pid> {
        i32::try_from(self.process.id())
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| Failure::new("a child without a number"))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A kind of runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flavor {
    CurrentThread,
    Workers(usize),
}

impl Flavor {
    pub(crate) fn build(self) -> std::io::Result<Runtime> {
        match self {
            Self::CurrentThread => tokio::runtime::Builder::new_current_thread().enable_all().build(),
            Self::Workers(count) => {
                tokio::runtime::Builder::new_multi_thread().worker_threads(count).enable_all().build()
            }
        }
    }
}

/// The number of worker threads, or 0.
impl fmt::Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CurrentThread => write!(f, "0"),
            Self::Workers(count) => write!(f, "{count}"),
        }
    }
}

impl FromStr for Flavor {
    type Err = std::num::ParseIntError;
    fn from_str(text: &str) -> std::result::Result<Self, Self::Err> {
        let count: usize = text.parse()?;
        Ok(if count == 0 { Self::CurrentThread } else { Self::Workers(count) })
    }
}

/// The child's side: obeys until its input ends.
pub(crate) fn serve(reconnect: Option<Reconnect>, address: String) -> ExitCode {
    let Some(reconnect) = reconnect else {
        eprintln!("{CHILD} is set, and this target has no children");
        return ExitCode::FAILURE;
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut obedient = Obedient { reconnect, address, session: None, held: None, waiter: None };
    for line in std::io::stdin().lines().map_while(std::io::Result::ok) {
        if let Some(rest) = line.strip_prefix("main ") {
            drop(runtime);
            // A target may run several suites, one after the other: the program ends here, as it does when `main` returns.
            std::process::exit(be_a_program(&obedient.reconnect, obedient.address, rest));
        }
        let answer = runtime.block_on(obedient.obey(&line)).unwrap_or_else(|error| format!("error {error}"));
        println!("{answer}");
    }
    ExitCode::SUCCESS
}

/// A program whose `main` is async: it takes a lock, and everything is dropped inside its runtime when it ends. Its exit code.
fn be_a_program(reconnect: &Reconnect, address: String, what: &str) -> i32 {
    let mut words = what.splitn(3, ' ');
    let flavor = words.next().and_then(|word| word.parse::<Flavor>().ok());
    let ttl = words.next().and_then(|word| word.parse().ok()).map(Duration::from_millis);
    let (Some(flavor), Some(ttl), Some(name)) = (flavor, ttl, words.next()) else { return 1 };
    let Ok(runtime) = flavor.build() else { return 1 };
    let ended: Result<()> = runtime.block_on(async {
        let session = Session::builder(reconnect(address).await?).ttl(ttl).owner("child").open().await?;
        let _guard = session.mutex(name)?.lock().await?;
        println!("held");
        Ok(())
    });
    match ended {
        Ok(()) => 0,
        Err(error) => {
            println!("error {error}");
            1
        }
    }
}

struct Obedient {
    reconnect: Reconnect,
    address: String,
    session: Option<Session>,
    held: Option<Guard>,
    waiter: Option<JoinHandle<Result<Guard>>>,
}

impl Obedient {
    async fn obey(&mut self, line: &str) -> Result<String> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let wrong = |why: &str| Error::new(ErrorKind::Invalid, format!("{line:?}: {why}"));
        match verb {
            "open" => {
                let ttl = Duration::from_millis(rest.parse().map_err(|_| wrong("no ttl"))?);
                let engine = (self.reconnect)(self.address.clone()).await?;
                self.session = Some(Session::builder(engine).ttl(ttl).owner("child").open().await?);
                Ok("open".into())
            }
            "lock" => {
                let session = self.session.as_ref().ok_or_else(|| wrong("no session"))?;
                let guard = session.mutex(rest)?.lock().await?;
                let fence = guard.fence().map_or("-".to_owned(), |fence| fence.to_string());
                self.held = Some(guard);
                Ok(format!("held {fence}"))
            }
            "enter" => {
                let session = self.session.as_ref().ok_or_else(|| wrong("no session"))?;
                let mutex = session.mutex(rest)?;
                self.waiter = Some(tokio::spawn(async move { mutex.lock().await }));
                Ok("entered".into())
            }
            "state" => Ok(match &self.held {
                Some(guard) if guard.is_held() => "held".into(),
                Some(_) => "lost".into(),
                None => "none".into(),
            }),
            "release" => {
                let guard = self.held.take().ok_or_else(|| wrong("nothing is held"))?;
                let release = guard.release().await;
                Ok(if release == Release::Released { "released".into() } else { format!("{release:?}") })
            }
            _ => Err(wrong("not understood")),
        }
    }
}
