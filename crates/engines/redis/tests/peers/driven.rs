//! Another client's program, driven by lines: a command on its standard input, an answer on its standard output.

use std::{
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Stdio},
    sync::{
        Mutex, PoisonError,
        mpsc::{Receiver, channel},
    },
};

use bramah_lab::{Redis as Server, Signal, interop};

use crate::PATIENCE;

const REDIS_PY: &str = "6.4.0";
const REDLOCK: &str = "5.0.0-beta.2";
const IOREDIS: &str = "5.4.1";
const POTTERY: &str = "3.0.1";

pub(crate) struct Peer {
    child: Child,
    input: ChildStdin,
    output: Receiver<String>,
}

/// They start one after another: many at once would take all there is from who holds a lock meanwhile.
static STARTING: Mutex<()> = Mutex::new(());

impl Peer {
    /// Returns when it is ready.
    fn start(command: &mut Command, servers: &[&Server]) -> Self {
        let _starting = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
        command.args(servers.iter().map(|server| server.port().to_string()));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                // Nobody may want to know any more.
                let _ = sender.send(line);
            }
        });
        let mut peer = Self { child, input, output: answers };
        assert_eq!(peer.answer(), "ready");
        peer
    }

    /// Runs it where it can be had, and notes that.
    fn of<H>(
        peer: &str,
        found: impl FnOnce() -> Result<H, String>,
        start: impl FnOnce(H) -> Self,
    ) -> Option<Self> {
        tokio::task::block_in_place(|| match found() {
            Ok(home) => {
                interop::ran(peer);
                Some(start(home))
            }
            Err(why) => {
                interop::missing(peer, &why);
                None
            }
        })
    }

    fn python(peer: &str, packages: &[&str], program: &str, servers: &[&Server]) -> Option<Self> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers").join(program);
        let start = |python: PathBuf| Self::start(Command::new(python).arg(program), servers);
        Self::of(peer, || interop::python(packages), start)
    }

    /// The lock of redis-py, which knows one server.
    pub(crate) fn redis_py(servers: &[&Server; 1]) -> Option<Self> {
        let packages = [&*format!("redis=={REDIS_PY}")];
        Self::python(&format!("redis-py {REDIS_PY}"), &packages, "redis_lock.py", servers)
    }

    /// The Redlock of pottery, whose keys begin with `redlock:`.
    pub(crate) fn pottery(servers: &[&Server]) -> Option<Self> {
        let packages = [
            &*format!("pottery=={POTTERY}"),
            &*format!("redis=={REDIS_PY}"),
            "mmh3==5.2.0",
            "typing_extensions==4.15.0",
        ];
        Self::python(&format!("pottery {POTTERY}"), &packages, "pottery_redlock.py", servers)
    }

    /// On an even number of servers it waits for ever when they are of two minds.
    pub(crate) fn node_redlock(servers: &[&Server]) -> Option<Self> {
        let packages = [&*format!("redlock@{REDLOCK}"), &*format!("ioredis@{IOREDIS}")];
        // As an argument, for then its modules are looked for where it is run.
        let start = |home: PathBuf| {
            Self::start(
                Command::new("node").args(["-e", include_str!("redlock.js")]).current_dir(home),
                servers,
            )
        };
        Self::of(&format!("node-redlock {REDLOCK}"), || interop::node(&packages), start)
    }

    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    pub(crate) fn answer(&mut self) -> String {
        let answer = tokio::task::block_in_place(|| self.output.recv_timeout(PATIENCE));
        answer.unwrap_or_else(|why| panic!("no answer: {why}")).trim().to_owned()
    }

    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.tell(line);
        self.answer()
    }

    /// Takes the lock for so long, and waits for it for so long.
    pub(crate) fn acquire(&mut self, name: &str, ttl_ms: u64, wait_ms: u64) -> String {
        self.ask(&format!("acquire {name} {ttl_ms} {wait_ms}"))
    }

    pub(crate) fn freeze(&self) {
        interop::signal(&self.child, Signal::STOP).unwrap();
    }

    pub(crate) fn thaw(&self) {
        interop::signal(&self.child, Signal::CONT).unwrap();
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
