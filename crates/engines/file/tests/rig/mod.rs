//! What the tests of this crate stand on: a directory, clients with a session each, and a child process.
#![allow(dead_code, reason = "every test file uses a part of it")]
#![allow(clippy::unwrap_used, reason = "this is test code, though no test itself")]

use std::{
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bramah_core::{
    About, Claim, ClaimId, Clock, Engine, Exit, Fence, Keep, Name, Opening, Result, SessionId, Standing,
    Survey, Wait, Wake, Woken,
};
use bramah_file::File;

/// Nothing here takes this long unless it is broken.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// A directory that goes away with the test.
pub(crate) struct Dir(pub(crate) PathBuf);

impl Dir {
    pub(crate) fn new() -> Self {
        Self(std::env::temp_dir().join(format!("bramah-test-{}", SessionId::random().unwrap())))
    }

    pub(crate) fn ledger(&self, name: &str) -> PathBuf {
        self.0.join("locks").join(name)
    }

    /// The files of sessions, without their mailboxes.
    pub(crate) fn sessions(&self) -> Vec<PathBuf> {
        self.session_files(|path| path.extension().is_none_or(|end| end != "mail"))
    }

    /// The mailbox of a session.
    pub(crate) fn mailbox(&self, session: SessionId) -> PathBuf {
        let of_it = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with(&session.to_string()) && name.ends_with(".mail")
        };
        let mut found = self.session_files(of_it);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    fn session_files(&self, wanted: impl Fn(&PathBuf) -> bool) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.0.join("sessions")).unwrap();
        entries.map(|entry| entry.unwrap().path()).filter(wanted).collect()
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// One session on an engine of its own: to the others it is another process.
pub(crate) struct Client {
    pub(crate) engine: File,
    pub(crate) session: SessionId,
    seq: AtomicU64,
}

impl Client {
    pub(crate) fn new(dir: &Dir) -> Self {
        Self::on(File::open(&dir.0).unwrap())
    }

    /// Another session on the same engine.
    pub(crate) fn on(engine: File) -> Self {
        let client = Self { engine, session: SessionId::random().unwrap(), seq: AtomicU64::new(0) };
        client.open(Keep::Process, Duration::from_secs(30)).unwrap();
        client
    }

    pub(crate) fn open(&self, keep: Keep, ttl: Duration) -> Result<Duration> {
        let opening = Opening::new(self.session, ttl, keep, About::this_process());
        self.engine.open(Arc::new(opening)).into_now().unwrap()
    }

    pub(crate) fn draft(&self, name: &str, wait: Wait) -> Claim {
        Claim {
            id: ClaimId { session: self.session, seq: self.seq.fetch_add(1, Ordering::Relaxed) },
            name: Name::new(name).unwrap(),
            capacity: 1,
            weight: 1,
            wait,
            again: false,
            floor: None,
            ttl: Duration::MAX,
            lease: None,
            note: "".into(),
        }
    }

    pub(crate) async fn claim(&self, claim: &Claim) -> Result<Standing> {
        self.engine.claim(Arc::new(claim.clone())).await
    }

    pub(crate) async fn ask(&self, claim: &Claim) -> Result<Standing> {
        self.claim(&claim.asking()).await
    }

    /// Enters the line of a mutex and waits until it is held, as core does.
    pub(crate) async fn lock(&self, name: &str) -> (Claim, Fence) {
        let claim = self.draft(name, Wait::Line);
        let fence = self.lock_as(&claim).await;
        (claim, fence)
    }

    pub(crate) async fn lock_as(&self, claim: &Claim) -> Fence {
        let mut standing = self.claim(claim).await.unwrap();
        loop {
            match standing {
                Standing::Held { fence, .. } => return fence.unwrap(),
                Standing::Queued { wake, sleep, .. } => match tokio::time::timeout(sleep, wake).await {
                    Ok(Woken::Held(fence)) => return fence.unwrap(),
                    _ => standing = self.ask(claim).await.unwrap(),
                },
                other => panic!("{other:?}"),
            }
        }
    }

    /// Enters a line that is not free, and gives the wake.
    pub(crate) async fn queue(&self, name: &str) -> (Claim, Wake) {
        let claim = self.draft(name, Wait::Line);
        match self.claim(&claim).await.unwrap() {
            Standing::Queued { wake, .. } => (claim, wake),
            other => panic!("{other:?}"),
        }
    }

    /// Waits to be told that it is held, without the net of asking from time to time that core puts under it.
    pub(crate) async fn told(&self, claim: &Claim, mut wake: Wake) {
        loop {
            match woken(wake).await {
                Woken::Held(_) => return,
                Woken::Ask => match self.ask(claim).await.unwrap() {
                    Standing::Held { .. } => return,
                    Standing::Queued { wake: next, .. } => wake = next,
                    other => panic!("{other:?}"),
                },
            }
        }
    }

    /// The same, and asks again soon where the engine says so: that is how it waits for a death that is under way.
    pub(crate) async fn served(&self, claim: &Claim, mut wake: Wake) {
        loop {
            let told = woken(wake).await;
            let mut standing = match told {
                Woken::Held(_) => return,
                Woken::Ask => self.ask(claim).await.unwrap(),
            };
            wake = loop {
                match standing {
                    Standing::Held { .. } => return,
                    Standing::Queued { sleep, .. } if sleep < Duration::from_millis(200) => {
                        tokio::time::sleep(sleep).await;
                        standing = self.ask(claim).await.unwrap();
                    }
                    Standing::Queued { wake, .. } => break wake,
                    other => panic!("{other:?}"),
                }
            };
        }
    }

    pub(crate) async fn withdraw(&self, claim: &Claim) {
        self.engine.withdraw(Arc::new(claim.clone()), Exit::Own).await.unwrap();
    }

    pub(crate) async fn survey(&self, scope: bramah_core::Scope) -> Survey {
        self.engine.survey(&scope, bramah_core::Look::Watching).await.unwrap()
    }
}

pub(crate) fn fence_of(standing: Standing) -> Fence {
    match standing {
        Standing::Held { fence: Some(fence), .. } => fence,
        other => panic!("{other:?}"),
    }
}

/// Waits for a wake alone, without the net of asking from time to time that core puts under it.
pub(crate) async fn woken(wake: Wake) -> Woken {
    tokio::time::timeout(LIMIT, wake).await.expect("no wake")
}

/// Waits until a condition holds.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let clock = Clock::boot();
    let end = clock.now() + LIMIT;
    while !holds() {
        assert!(clock.now() < end, "{what} did not come true");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// This test binary again, as a process that does `role` (a test that does nothing without it).
pub(crate) struct Peer {
    child: Child,
    out: BufReader<ChildStdout>,
}

pub(crate) const ROLE: &str = "BRAMAH_FILE_TEST_ROLE";
pub(crate) const PLACE: &str = "BRAMAH_FILE_TEST_DIR";

impl Peer {
    pub(crate) fn start(role: &str, dir: &Dir) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "peer", "--nocapture"])
            .envs([(ROLE, role), (PLACE, dir.0.to_str().unwrap())])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// Waits until it says `word` on a line.
    pub(crate) fn expect(&mut self, word: &str) {
        let mut line = String::new();
        while line.trim() != word {
            line.clear();
            assert!(self.out.read_line(&mut line).unwrap() > 0, "the peer ended without {word}");
        }
    }

    /// What it says behind `word` on a line.
    pub(crate) fn hear(&mut self, word: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.out.read_line(&mut line).unwrap() > 0, "the peer ended without {word}");
            if let Some(said) = line.strip_prefix(word) {
                return said.trim().to_owned();
            }
        }
    }

    /// kill -9.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }
}

/// What the peer is to do, if this process is one.
pub(crate) fn role() -> Option<(String, Dir)> {
    Some((std::env::var(ROLE).ok()?, Dir(std::env::var_os(PLACE)?.into())))
}
