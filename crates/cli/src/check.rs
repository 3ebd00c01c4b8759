//! The question whether a lock is still held, between a command and the guardian above it.
//!
//! It is asked on a socket without a file (an abstract one), so that nothing is left behind whoever dies how. The
//! answer is a line of JSON and comes from what the guardian knows already: the store is not asked.

use std::{
    io,
    os::unix::net::{SocketAddr, UnixListener as StdListener},
    time::Duration,
};

use bramah::SessionId;
use serde::{Deserialize, Serialize};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{UnixListener, UnixStream},
};

use crate::{guardian, span::ms};

/// How long a question may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// More than any answer has.
const MOST_BYTES: u64 = 1024;

/// What is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) held: bool,
    /// For how long that is certain; none where it does not depend on time.
    pub(crate) left_ms: Option<u64>,
}

impl Answer {
    fn of(left: Duration) -> Self {
        let left_ms = (left != Duration::MAX).then(|| ms(left));
        Self { held: left > Duration::ZERO, left_ms }
    }
}

#[cfg(target_os = "linux")]
fn address(name: &str) -> io::Result<SocketAddr> {
    use std::os::linux::net::SocketAddrExt;
    SocketAddr::from_abstract_name(name)
}

/// Elsewhere nobody answers, and nobody can ask.
#[cfg(not(target_os = "linux"))]
fn address(_: &str) -> io::Result<SocketAddr> {
    Err(io::ErrorKind::Unsupported.into())
}

/// A name that nobody else has.
pub(crate) fn name() -> Option<String> {
    SessionId::random().ok().map(|id| format!("bramah-{id}"))
}

/// Where questions are answered.
#[derive(Debug)]
pub(crate) struct Desk {
    listener: UnixListener,
    us: u32,
}

impl Desk {
    pub(crate) fn open(name: &str) -> io::Result<Self> {
        let listener = StdListener::bind_addr(&address(name)?)?;
        listener.set_nonblocking(true)?;
        Ok(Self { listener: UnixListener::from_std(listener)?, us: rustix::process::getuid().as_raw() })
    }

    /// Waits for one question and answers that the lock is certain for `left`. Without a desk nobody ever asks.
    pub(crate) async fn answer(desk: &mut Option<Self>, left: Duration) {
        let Some(desk) = desk else { return std::future::pending().await };
        let Ok((mut stream, _)) = desk.listener.accept().await else {
            // Out of descriptors, for a while; without a pause this would spin.
            return tokio::time::sleep(PATIENCE / 10).await;
        };
        // Such a socket has no permissions: who asks has to be the same user, or root.
        let known = stream.peer_cred().is_ok_and(|peer| peer.uid() == desk.us || peer.uid() == 0);
        if known && let Ok(line) = serde_json::to_string(&Answer::of(left)) {
            // It fits into the socket's buffer, so nobody can hold us up by not reading it.
            let _ = stream.write_all(line.as_bytes()).await;
        }
    }
}

/// Asks. An error means that there is nobody to ask any more, or nobody to believe.
pub(crate) async fn ask(name: &str) -> io::Result<Answer> {
    let late = io::Error::new(io::ErrorKind::TimedOut, "nobody answers");
    tokio::time::timeout(PATIENCE, ask_now(name)).await.unwrap_or(Err(late))
}

async fn ask_now(name: &str) -> io::Result<Answer> {
    let stream = loop {
        // Not the blocking kind: one that does not accept would hold us up.
        match UnixStream::connect(format!("\0{name}")).await {
            // More ask than can be answered at once.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                tokio::time::sleep(PATIENCE / 100).await
            }
            stream => break stream?,
        }
    };
    // Anybody can take the name of such a socket once the guardian is gone.
    let peer = stream.peer_cred()?;
    if !is_believed(rustix::process::geteuid().as_raw(), peer.uid(), || guardian::is_above(peer.pid())) {
        let why = format!("a process of user {} answers in place of the guardian", peer.uid());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    }
    let mut line = Vec::new();
    stream.take(MOST_BYTES).read_to_end(&mut line).await?;
    serde_json::from_slice(&line).map_err(io::Error::from)
}

/// Whether an answer of `peer` counts for `us`: it is the same user, or root. A command that became root believes the
/// guardian of whoever started it, which is above it.
fn is_believed(us: u32, peer: u32, is_above: impl FnOnce() -> bool) -> bool {
    peer == us || peer == 0 || (us == 0 && is_above())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_user_and_root_are_believed_and_others_only_by_root_and_from_above() {
        let yes = || true;
        assert!(is_believed(7, 7, || false) && is_believed(7, 0, || false) && is_believed(0, 0, || false));
        assert!(!is_believed(7, 8, yes) && !is_believed(0, 8, || false) && is_believed(0, 8, yes));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn an_answer_without_end_is_read_in_part_and_not_believed() {
        let name = name().unwrap();
        let listener = StdListener::bind_addr(&address(&name).unwrap()).unwrap();
        let endless = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // Ends when the other side hangs up.
            while io::Write::write_all(&mut stream, &[b' '; 4096]).is_ok() {}
        });
        let error = ask(&name).await.unwrap_err();
        assert_ne!(error.kind(), io::ErrorKind::TimedOut, "it was read to an end that never comes");
        endless.join().unwrap();
    }
}
