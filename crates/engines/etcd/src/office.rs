//! Where the work with etcd is done.

use std::{future::Future, sync::OnceLock};

use bramah_core::{Error, ErrorKind, Reply, Result};
use tokio::runtime::{Builder, Handle};

/// A thread with a runtime of its own, one for the process. Channels and streams belong to the runtime that they were made on, and
/// callers' runtimes come and go; a call that nobody waits for any more goes on to its end; and a caller's thread that is busy
/// does not hold up a renewal.
#[derive(Clone, Debug)]
pub(crate) struct Office(Handle);

impl Office {
    pub(crate) fn open() -> Result<Self> {
        static OFFICE: OnceLock<Option<Handle>> = OnceLock::new();
        let start = || {
            let runtime = Builder::new_current_thread().enable_all().build().ok()?;
            let handle = runtime.handle().clone();
            let run = move || runtime.block_on(std::future::pending::<()>());
            std::thread::Builder::new().name("bramah-etcd".to_owned()).spawn(run).ok()?;
            Some(handle)
        };
        OFFICE.get_or_init(start).clone().map(Self).ok_or_else(|| {
            Error::new(ErrorKind::Unavailable, "no thread could be started for etcd's connections")
        })
    }

    /// Has it done there, whether or not the answer is waited for.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Reply<T> {
        let task = self.0.spawn(work);
        Reply::later(async move {
            match task.await {
                Ok(answer) => answer,
                Err(_) => Err(Error::new(
                    ErrorKind::Unavailable,
                    "the thread of etcd's connections has ended; is the process ending?",
                )),
            }
        })
    }

    /// Has it done there beside everything else.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn(work));
    }

    /// The runtime there: for what needs one to be made.
    pub(crate) fn enter(&self) -> tokio::runtime::EnterGuard<'_> {
        self.0.enter()
    }
}
