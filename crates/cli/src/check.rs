//! The question whether a lock is still held, between a command and the guardian above it.
//!
//! It is asked on a socket without a file (an abstract one), so that nothing is left behind whoever dies how. The
//! answer is a line of JSON and comes from what the guardian knows already: the store is not asked.

use std::{
    io::{self, Read},
    os::unix::net::{SocketAddr, UnixListener as StdListener, UnixStream as StdStream},
    time::Duration,
};

use bramah::SessionId;
use serde::{Deserialize, Serialize};
use tokio::{io::AsyncWriteExt, net::UnixListener};

use crate::span::ms;

/// How long a question may take.
const PATIENCE: Duration = Duration::from_secs(2);

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

/// Asks. An error means that there is nobody to ask any more.
pub(crate) fn ask(name: &str) -> io::Result<Answer> {
    let mut stream = StdStream::connect_addr(&address(name)?)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    stream.read_to_string(&mut line)?;
    serde_json::from_str(&line).map_err(io::Error::from)
}
