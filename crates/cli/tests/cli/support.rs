//! A store to try things on, processes that end with their test, and waiting for conditions.

use std::{
    ffi::OsString,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, Command, Output, Stdio},
    sync::{
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Longer than anything takes on a machine that works.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A file store of its own.
pub(crate) struct Lab {
    pub(crate) dir: PathBuf,
}

impl Lab {
    pub(crate) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let dir =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("cli-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let lab = Self { dir };
        // Looking creates nothing, so there is an empty store to look at.
        for part in ["store/locks", "store/sessions"] {
            std::fs::create_dir_all(lab.dir.join(part)).unwrap();
        }
        std::fs::write(lab.dir.join("store/format"), "bramah-file 1\n").unwrap();
        lab
    }

    pub(crate) fn url(&self) -> String {
        format!("file://{}", self.dir.join("store").display())
    }

    /// `bramah` with these arguments, on this store.
    pub(crate) fn bramah(&self, args: &[&str]) -> Command {
        let mut command = bramah(args);
        command.env("BRAMAH_ENGINE", self.url()).current_dir(&self.dir);
        command
    }

    pub(crate) fn output(&self, args: &[&str]) -> Output {
        self.bramah(args).output().unwrap()
    }

    pub(crate) fn start(&self, args: &[&str]) -> Running {
        Running::of(self.bramah(args))
    }

    /// A run that holds `name` until it is let go.
    pub(crate) fn hold(&self, name: &str, flags: &[&str]) -> Running {
        let mut holder = self.start(&[&["run", name], flags, &["--", "sh", "-c", "echo in; cat"]].concat());
        assert_eq!(holder.line(), "in");
        holder
    }

    /// A lock as `show --json` has it.
    pub(crate) fn lock(&self, name: &str) -> Value {
        serde_json::from_slice(&self.output(&["show", name, "--json"]).stdout).unwrap()
    }

    /// How many sessions the store has, of the living and of the dead.
    pub(crate) fn sessions(&self) -> usize {
        let files = std::fs::read_dir(self.dir.join("store/sessions")).unwrap();
        files.filter(|file| !file.as_ref().unwrap().path().to_str().unwrap().ends_with(".mail")).count()
    }

    /// The pids of those who wait, in order.
    pub(crate) fn waiters(&self, name: &str) -> Vec<u32> {
        let lock = self.lock(name);
        let pid = |waiter: &Value| u32::try_from(waiter["pid"].as_u64().unwrap()).unwrap();
        lock["waiters"].as_array().unwrap().iter().map(pid).collect()
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}

/// What would change what the command does.
const NOT_INHERITED: [&str; 20] = [
    "BRAMAH_ENGINE",
    "BRAMAH_PROFILE",
    "BRAMAH_CONFIG",
    "BRAMAH_NAMESPACE",
    "BRAMAH_TTL",
    "BRAMAH_WAIT",
    "BRAMAH_HANDLE",
    "BRAMAH_HELD",
    "BRAMAH_SOCKET",
    "BRAMAH_LOG",
    "BRAMAH_FENCE",
    "XDG_STATE_HOME",
    "XDG_CONFIG_HOME",
    "HOME",
    "CI_JOB_URL",
    "BUILD_URL",
    "GITHUB_RUN_ID",
    "GITHUB_SERVER_URL",
    "GITHUB_REPOSITORY",
    "BRAMAH_STORE",
];

/// A `PATH` on which `bramah` is the command under test, for scripts: its own path may have spaces in it.
pub(crate) fn path() -> OsString {
    let bin = Path::new(env!("CARGO_BIN_EXE_bramah")).parent().unwrap().to_owned();
    let others = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths([bin].into_iter().chain(std::env::split_paths(&others))).unwrap()
}

/// `bramah` with an environment that says nothing of stores.
pub(crate) fn bramah(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bramah"));
    command.args(args).stdin(Stdio::null()).env("USER", "ana").env("PATH", path());
    for key in NOT_INHERITED {
        command.env_remove(key);
    }
    command
}

/// A process with all its streams in our hands. What it runs ends when its stdin does, at the latest with the test.
pub(crate) struct Running {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Stream,
    stderr: Stream,
}

/// What a process writes, read as it comes, so that a test can give up on it.
struct Stream {
    parts: mpsc::Receiver<Vec<u8>>,
    read: Vec<u8>,
}

impl Stream {
    fn of(mut source: impl Read + Send + 'static) -> Self {
        let (sender, parts) = mpsc::channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(len @ 1..) = source.read(&mut buffer) {
                if sender.send(buffer[..len].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { parts, read: Vec::new() }
    }

    /// Waits for more. Whether there is any.
    fn more(&mut self) -> bool {
        match self.parts.recv_timeout(DEADLINE) {
            Ok(part) => self.read.extend(part),
            Err(mpsc::RecvTimeoutError::Disconnected) => return false,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                panic!("waited too long for a process to write; so far: {}", text(&self.read))
            }
        }
        true
    }

    fn line(&mut self) -> String {
        while !self.read.contains(&b'\n') && self.more() {}
        let end = self.read.iter().position(|byte| *byte == b'\n').map_or(self.read.len(), |at| at + 1);
        text(&self.read.drain(..end).collect::<Vec<u8>>()).trim_end().to_owned()
    }

    fn some(&mut self) -> String {
        if self.read.is_empty() {
            self.more();
        }
        text(&std::mem::take(&mut self.read))
    }

    fn rest(&mut self) -> String {
        while self.more() {}
        text(&std::mem::take(&mut self.read))
    }
}

impl Running {
    pub(crate) fn of(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        let (stdout, stderr) =
            (Stream::of(child.stdout.take().unwrap()), Stream::of(child.stderr.take().unwrap()));
        Self { child, stdin, stdout, stderr }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// The next line of its stdout.
    pub(crate) fn line(&mut self) -> String {
        self.stdout.line()
    }

    /// Some of its stdout, at least a byte of it.
    pub(crate) fn some(&mut self) -> String {
        self.stdout.some()
    }

    /// The next line of its stderr.
    pub(crate) fn talk(&mut self) -> String {
        self.stderr.line()
    }

    pub(crate) fn write(&mut self, text: &str) {
        self.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// Ends what it runs, if that reads its stdin.
    pub(crate) fn let_go(&mut self) {
        self.stdin = None;
    }

    /// Waits for its end: the code, the rest of stdout, the rest of stderr.
    pub(crate) fn end(mut self) -> (i32, String, String) {
        let code = self.code();
        (code, self.stdout.rest(), self.stderr.rest())
    }

    /// Waits for its end; -n if it was killed by signal n.
    pub(crate) fn code(&mut self) -> i32 {
        use std::os::unix::process::ExitStatusExt;
        let status = until("the end of a process", || self.child.try_wait().unwrap());
        status.code().unwrap_or_else(|| -status.signal().unwrap())
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stdin = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until there is an answer.
pub(crate) fn until<T>(what: &str, mut answer: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = answer() {
            return answer;
        }
        assert!(start.elapsed() < DEADLINE, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// `text` with the length of time after each `mark` replaced by `…`.
pub(crate) fn timeless(text: &str, mark: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(mark) {
        let (head, tail) = rest.split_at(at + mark.len());
        let end = tail.find([' ', ',', '}', '\n']).unwrap_or(tail.len());
        out.push_str(head);
        out.push('…');
        rest = &tail[end..];
    }
    out + rest
}
