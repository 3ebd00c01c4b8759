//! The connection that the server tells waiters over.
//!
//! Each session has a channel of its own, so that a process is woken only for what is its. A transaction pooler passes LISTEN on to
//! a connection that serves another client a moment later: that client would get our notifications, and the LISTEN would outlive
//! us. So nothing is listened to before the connection has proven to be ours alone ([`is_private`]), and a listener is believed
//! only after it has heard itself.

use std::{
    collections::HashSet,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bramah_core::SessionId;
use bramah_relational::{Office, Pool, Trouble, Wakes};
use sqlx::{
    PgConnection, Row,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions, PgRow},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{sleep, timeout},
};

/// How soon it connects again, and how late.
const BACK_OFF: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));

/// How long it may take to hear oneself.
const ECHO: Duration = Duration::from_secs(1);

/// Which process of the server answers.
const BACKEND: &str = "SELECT pg_backend_pid()";

/// How long to wait for a connection.
const CONNECT: Duration = Duration::from_secs(2);

/// The listener of a process.
pub(crate) struct Listener {
    orders: mpsc::UnboundedSender<Order>,
    told: Arc<AtomicBool>,
    sessions: Arc<Mutex<HashSet<SessionId>>>,
}

enum Order {
    Attend(SessionId, oneshot::Sender<()>),
    Leave(SessionId),
}

impl Listener {
    /// Starts one. It ends when this is dropped.
    pub(crate) fn start(
        office: &Office,
        options: PgConnectOptions,
        calls: Arc<Pool<PgConnection>>,
        wakes: Arc<Wakes>,
    ) -> Self {
        let (orders, inbox) = mpsc::unbounded_channel();
        let told = Arc::new(AtomicBool::new(false));
        let sessions = Arc::new(Mutex::new(HashSet::new()));
        let post = Post { options, calls, wakes, told: told.clone(), sessions: sessions.clone(), inbox };
        office.spawn(post.run());
        Self { orders, told, sessions }
    }

    /// Hears what is said to a session from now on. Waits until that is so, or cannot be now.
    pub(crate) async fn attend(&self, session: SessionId) {
        let (done, wait) = oneshot::channel();
        if self.orders.send(Order::Attend(session, done)).is_ok() {
            let _ = wait.await;
        }
    }

    pub(crate) fn leave(&self, session: SessionId) {
        let _ = self.orders.send(Order::Leave(session));
    }

    /// Whether what is said to the session reaches us now.
    pub(crate) fn is_told(&self, session: SessionId) -> bool {
        self.told.load(Ordering::Acquire)
            && self.sessions.lock().unwrap_or_else(PoisonError::into_inner).contains(&session)
    }
}

/// The other end.
struct Post {
    options: PgConnectOptions,
    calls: Arc<Pool<PgConnection>>,
    wakes: Arc<Wakes>,
    told: Arc<AtomicBool>,
    sessions: Arc<Mutex<HashSet<SessionId>>>,
    inbox: mpsc::UnboundedReceiver<Order>,
}

/// Nobody is left to listen for.
struct Ended;

impl Post {
    async fn run(mut self) {
        let mut pause = BACK_OFF.0;
        loop {
            match self.listen().await {
                Ok(Ended) => return,
                Err(error) => tracing::debug!(%error, "what postgres says is not heard"),
            }
            if self.told.swap(false, Ordering::AcqRel) {
                pause = BACK_OFF.0;
            }
            // Something may have been said meanwhile.
            self.wakes.all();
            let until = sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0));
            tokio::pin!(until);
            loop {
                tokio::select! {
                    () = &mut until => break,
                    order = self.inbox.recv() => match order {
                        Some(order) => self.note(&order),
                        None => return,
                    },
                }
            }
            pause = (pause * 2).min(BACK_OFF.1);
        }
    }

    /// Keeps in mind who is to be heard. Who waits for it learns that it is not so yet.
    fn note(&self, order: &Order) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        match order {
            Order::Attend(session, _) => drop(sessions.insert(*session)),
            Order::Leave(session) => drop(sessions.remove(session)),
        }
    }

    async fn listen(&mut self) -> Result<Ended, sqlx::Error> {
        let Some(mut ear) = lend(&self.options, &self.calls).await? else {
            tracing::debug!("NOTIFY does not reach us, as behind a pooler: waiters ask from time to time");
            return self.wait_untold().await;
        };
        let known: Vec<SessionId> =
            self.sessions.lock().unwrap_or_else(PoisonError::into_inner).iter().copied().collect();
        for session in known {
            ear.listen(&channel(session)).await?;
        }
        self.told.store(true, Ordering::Release);
        self.wakes.all();
        loop {
            tokio::select! {
                heard = ear.try_recv() => match heard? {
                    Some(heard) => {
                        if let Some(session) = session_of(heard.channel()) {
                            self.wakes.hear(session, heard.payload());
                        }
                    }
                    None => return Err(sqlx::Error::PoolTimedOut),
                },
                order = self.inbox.recv() => match order {
                    None => return Ok(Ended),
                    Some(Order::Attend(session, done)) => {
                        ear.listen(&channel(session)).await?;
                        self.note(&Order::Attend(session, done));
                    }
                    Some(Order::Leave(session)) => {
                        self.note(&Order::Leave(session));
                        ear.unlisten(&channel(session)).await?;
                    }
                },
            }
        }
    }

    /// Behind a pooler that does not pass on what is said: keeps the books for a while, and tries again.
    async fn wait_untold(&mut self) -> Result<Ended, sqlx::Error> {
        let until = sleep(Duration::from_secs(30));
        tokio::pin!(until);
        loop {
            tokio::select! {
                () = &mut until => return Err(sqlx::Error::PoolTimedOut),
                order = self.inbox.recv() => match order {
                    Some(order) => self.note(&order),
                    None => return Ok(Ended),
                },
            }
        }
    }
}

fn channel(session: SessionId) -> String {
    format!("bramah_{session}")
}

fn session_of(channel: &str) -> Option<SessionId> {
    channel.strip_prefix("bramah_")?.parse().ok()
}

/// Whether NOTIFY reaches a listener with these options.
pub(crate) async fn hears(options: &PgConnectOptions, calls: &Arc<Pool<PgConnection>>) -> bool {
    matches!(lend(options, calls).await, Ok(Some(_)))
}

/// A connection that listens; `None` if what is said does not reach it.
async fn lend(
    options: &PgConnectOptions,
    calls: &Arc<Pool<PgConnection>>,
) -> Result<Option<PgListener>, sqlx::Error> {
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(CONNECT)
        .test_before_acquire(false)
        .connect_lazy_with(options.clone());
    if !is_private(&mut *pool.acquire().await?, calls).await? {
        pool.close().await;
        return Ok(None);
    }
    let mut ear = PgListener::connect_with(&pool).await?;
    ear.eager_reconnect(false);
    Ok(if echoes(&mut ear, calls).await? { Some(ear) } else { None })
}

/// Whether the server's end of a connection serves no other. A transaction pooler that hands out the connection that was used last
/// gives ours to the next call; one that hands them out in turn gives us another one for the next statement.
async fn is_private(
    connection: &mut PgConnection,
    calls: &Arc<Pool<PgConnection>>,
) -> Result<bool, sqlx::Error> {
    let mut own = async || -> Result<i32, sqlx::Error> {
        sqlx::raw_sql(BACKEND).fetch_one(&mut *connection).await?.try_get(0)
    };
    let (first, second) = (own().await?, own().await?);
    let other = call(calls, BACKEND.to_owned()).await?;
    let other: i32 = other.first().ok_or(sqlx::Error::RowNotFound)?.try_get(0)?;
    Ok(first == second && other != first && own().await? == first)
}

/// Runs a statement over another connection than the listener's.
async fn call(calls: &Arc<Pool<PgConnection>>, text: String) -> Result<Vec<PgRow>, sqlx::Error> {
    calls.query(text, CONNECT).await.map_err(|trouble| match trouble {
        Trouble::Said(error) => error,
        _ => sqlx::Error::PoolTimedOut,
    })
}

/// Whether it hears what is said over another connection.
async fn echoes(ear: &mut PgListener, calls: &Arc<Pool<PgConnection>>) -> Result<bool, sqlx::Error> {
    let echo = format!("bramah_echo_{:016x}", fastrand::u64(..));
    ear.listen(&echo).await?;
    call(calls, format!("SELECT pg_notify('{echo}', '')")).await?;
    match timeout(ECHO, ear.try_recv()).await {
        Ok(Ok(Some(_))) => {}
        Ok(Ok(None)) => return Err(sqlx::Error::PoolTimedOut),
        Ok(Err(error)) => return Err(error),
        Err(_) => return Ok(false),
    }
    ear.unlisten(&echo).await?;
    Ok(true)
}
