//! How often a connection was written to and read from.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Counts of one connection.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    writes: AtomicU64,
    reads: AtomicU64,
}

impl Traffic {
    /// How often it was written to. A request that was queued after this number was read has not left as long as the
    /// number has not changed.
    pub(super) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Acquire)
    }

    /// How often something came from the server. As long as the number does not change, nothing has.
    pub(super) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Acquire)
    }
}

/// A stream that counts. A write is counted before it is tried: what may have left has been counted.
pub(super) struct Counted<S> {
    pub(super) stream: S,
    pub(super) traffic: Arc<Traffic>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_read(cx, buf);
        if polled.is_ready() {
            self.traffic.reads.fetch_add(1, Ordering::AcqRel);
        }
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.traffic.writes.fetch_add(1, Ordering::AcqRel);
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
