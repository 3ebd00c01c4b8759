//! Where the work with ZooKeeper is done.

use std::{future::Future, sync::OnceLock, time::Duration};

use bramah_core::{Error, ErrorKind, Reply, Result, Wake, Woken};
use tokio::{
    runtime::{Builder, Handle},
    task::JoinHandle,
    time::timeout,
};

/// A thread with a runtime of its own, one for the process. Sessions belong to the runtime that they were made on, and callers'
/// runtimes come and go; a request that nobody waits for any more may still be carried out, and what came of it has to be known;
/// and a caller's thread that is busy must not hold up a renewal.
#[derive(Clone, Debug)]
pub(crate) struct Office(Handle);

impl Office {
    /// The office of this process.
    pub(crate) fn open() -> Result<Self> {
        static OFFICE: OnceLock<Option<Handle>> = OnceLock::new();
        let start = || {
            let runtime = Builder::new_current_thread().enable_all().build().ok()?;
            let handle = runtime.handle().clone();
            let run = move || runtime.block_on(std::future::pending::<()>());
            std::thread::Builder::new().name("bramah-zk".to_owned()).spawn(run).ok()?;
            Some(handle)
        };
        OFFICE.get_or_init(start).clone().map(Self).ok_or_else(|| {
            Error::new(ErrorKind::Unavailable, "no thread could be started for ZooKeeper's sessions")
        })
    }

    /// Has it done there to its end. Who waits for the answer does so for `patience` and hears `silence` then.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        patience: Duration,
        silence: impl FnOnce() -> Result<T> + Send + 'static,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Reply<T> {
        let task = self.0.spawn(work);
        // The wait is there too: who polls the reply may have no timers.
        let wait = self.0.spawn(async move {
            match timeout(patience, task).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => Err(ended()),
                Err(_) => silence(),
            }
        });
        Reply::later(async move { wait.await.unwrap_or_else(|_| Err(ended())) })
    }

    /// Has it done there beside everything else.
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.0.spawn(work));
    }

    /// A wake that fires when `event` has come, which is not waited for any more when the wake is dropped.
    pub(crate) fn wake(&self, event: impl Future<Output = ()> + Send + 'static) -> Wake {
        let waiting = Waiting(self.0.spawn(event));
        Wake::from_future(async move {
            let mut waiting = waiting;
            let _ = (&mut waiting.0).await;
            Woken::Ask
        })
    }
}

/// A task that ends with whoever waits for it.
struct Waiting(JoinHandle<()>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn ended() -> Error {
    let text = "the thread of ZooKeeper's sessions has ended; is the process ending?";
    Error::new(ErrorKind::Unavailable, text)
}
