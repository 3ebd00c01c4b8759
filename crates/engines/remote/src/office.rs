//! Where the work with a store is done.

use std::{
    future::Future,
    pin::{Pin, pin},
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use bramah_core::{Error, ErrorKind, Reply, Result, Wake, Woken};
use tokio::{
    runtime::{Builder, EnterGuard, Handle, Runtime},
    sync::oneshot,
    task::{AbortHandle, JoinHandle},
    time::timeout,
};

/// A thread with a runtime of its own, one for each kind of store in a process or for one engine. Connections belong to the runtime
/// that they were made on, and callers' runtimes come and go; what nobody waits for any more has to be read to its end, for it may
/// still be carried out; and a caller's thread that is busy must not hold up a renewal.
#[derive(Clone, Debug)]
pub struct Office {
    of: &'static str,
    runtime: Handle,
    /// The thread ends with the last of these; without, it never does.
    _life: Option<Arc<oneshot::Sender<()>>>,
}

impl Office {
    /// The office of this process for a kind of store: `etcd`, say.
    ///
    /// # Errors
    /// `Unavailable` if no thread can be had.
    pub fn open(of: &'static str) -> Result<Self> {
        static OFFICES: Mutex<Vec<Office>> = Mutex::new(Vec::new());
        let mut offices = OFFICES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(office) = offices.iter().find(|office| office.of == of) {
            return Ok(office.clone());
        }
        let office = Self { of, runtime: start(of, std::future::pending())?, _life: None };
        offices.push(office.clone());
        Ok(office)
    }

    /// One of its own, that ends with the last clone of this.
    ///
    /// # Errors
    /// `Unavailable` if no thread can be had.
    pub fn own(of: &'static str) -> Result<Self> {
        let (life, end) = oneshot::channel();
        let runtime = start(of, async move {
            // Told by being dropped.
            let _ = end.await;
        })?;
        Ok(Self { of, runtime, _life: Some(Arc::new(life)) })
    }

    /// Has it done there, whether or not the answer is waited for.
    pub fn run<T: Send + 'static>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Reply<T> {
        let (task, of) = (self.runtime.spawn(work), self.of);
        Reply::later(async move { task.await.unwrap_or_else(|_| Err(ended(of))) })
    }

    /// Has it done there to its end. Who waits for the answer does so for `patience` and hears `silence` then.
    pub fn run_within<T: Send + 'static>(
        &self,
        patience: Duration,
        silence: impl FnOnce() -> Result<T> + Send + 'static,
        work: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Reply<T> {
        let ((tell, told), of) = (oneshot::channel(), self.of);
        // The wait is there too: who polls the reply may have no timers. One task for both, as this is on the way of every call.
        self.spawn(async move {
            let mut work = pin!(work);
            if let Ok(answer) = timeout(patience, &mut work).await {
                let _ = tell.send(answer);
                return;
            }
            let _ = tell.send(silence());
            let _ = work.await;
        });
        Reply::later(async move { told.await.unwrap_or_else(|_| Err(ended(of))) })
    }

    /// Has it done there for as long as the answer is waited for: it ends when what is returned here is dropped.
    pub fn lend<T: Send + 'static>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Lent<T> {
        Lent { task: Waiting(self.runtime.spawn(work)), of: self.of }
    }

    /// Has it done there beside everything else, until it ends or is ended.
    pub fn task(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.runtime.spawn(work).abort_handle()
    }

    /// Has it done there beside everything else.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        drop(self.runtime.spawn(work));
    }

    /// A wake that fires when `event` has come, which is not waited for any more when the wake is dropped.
    pub fn wake(&self, event: impl Future<Output = ()> + Send + 'static) -> Wake {
        let waiting = Waiting(self.runtime.spawn(event));
        Wake::from_future(async move {
            let mut waiting = waiting;
            let _ = (&mut waiting.0).await;
            Woken::Ask
        })
    }

    /// The runtime there: for what needs one to be made.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.runtime.enter()
    }
}

/// Starts a thread with a runtime that ends with `life`.
fn start(of: &'static str, life: impl Future<Output = ()> + Send + 'static) -> Result<Handle> {
    let started = || {
        // Calls that have come are begun before those that are under way go on: so what they ask is sent together.
        let runtime = Builder::new_current_thread().global_queue_interval(1).enable_all().build().ok()?;
        let handle = runtime.handle().clone();
        // Shared, because a runtime that is dropped where this is called from panics if that is one itself.
        let runtime = Arc::new(Mutex::new(Some(runtime)));
        let take =
            |runtime: &Mutex<Option<Runtime>>| runtime.lock().unwrap_or_else(PoisonError::into_inner).take();
        let theirs = Arc::clone(&runtime);
        let run = move || {
            if let Some(runtime) = take(&theirs) {
                runtime.block_on(life);
            }
        };
        if std::thread::Builder::new().name(format!("bramah-{of}")).spawn(run).is_err() {
            if let Some(runtime) = take(&runtime) {
                runtime.shutdown_background();
            }
            return None;
        }
        Some(handle)
    };
    started().ok_or_else(|| {
        let text = format!("{of}: no thread could be started for its connections");
        Error::new(ErrorKind::Unavailable, text)
    })
}

/// The answer to work that ends when this is dropped.
#[derive(Debug)]
pub struct Lent<T> {
    task: Waiting<Result<T>>,
    of: &'static str,
}

impl<T> Future for Lent<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        let of = self.of;
        Pin::new(&mut self.task.0).poll(cx).map(|done| done.unwrap_or_else(|_| Err(ended(of))))
    }
}

/// A task that ends with whoever waits for it.
#[derive(Debug)]
struct Waiting<T>(JoinHandle<T>);

impl<T> Drop for Waiting<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn ended(of: &str) -> Error {
    let text = format!("{of}: the thread of its connections has ended; is the process ending?");
    Error::new(ErrorKind::Unavailable, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_office_of_its_own_ends_with_its_last_clone_and_what_is_done_there_ends_with_it() {
        let office = Office::own("test").unwrap();
        let (held, ended) = std::sync::mpsc::channel::<()>();
        office.spawn(async move {
            let _held = held;
            std::future::pending::<()>().await;
        });
        let other = office.clone();
        drop(office);
        assert!(
            ended.recv_timeout(Duration::from_millis(50)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout)
        );
        drop(other);
        assert!(
            ended.recv_timeout(Duration::from_secs(30))
                == Err(std::sync::mpsc::RecvTimeoutError::Disconnected)
        );
    }

    #[tokio::test]
    async fn lent_work_ends_when_nobody_waits_for_it() {
        let office = Office::own("test").unwrap();
        assert_eq!(office.lend(async { Ok(7) }).await.unwrap(), 7);
        let (held, ended) = oneshot::channel::<()>();
        let lent = office.lend(async move {
            let _held = held;
            std::future::pending::<Result<()>>().await
        });
        drop(lent);
        assert!(ended.await.is_err());
    }
}
