//! One connection that has locks.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use sqlx::Connection;
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, oneshot},
    task::AbortHandle,
    time::timeout,
};

use super::dialect::{Badge, Dialect, RowOf};
use crate::Trouble;

/// What a text answered, when it has.
type Answer<D> = Result<Vec<RowOf<D>>, sqlx::Error>;

/// How long a connection may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(1);

/// A connection, owned by a task that carries out one text after another, each to its end. Whoever stops waiting for an answer
/// leaves the statement as it is; a connection that has to end at once ends with whatever it was doing.
pub(crate) struct Link<D: Dialect> {
    orders: mpsc::UnboundedSender<Order<D>>,
    badge: Badge,
    over: Arc<AtomicBool>,
    buried: AtomicBool,
    task: AbortHandle,
}

struct Order<D: Dialect> {
    text: String,
    answer: oneshot::Sender<Answer<D>>,
}

impl<D: Dialect> fmt::Debug for Link<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("badge", &self.badge).finish_non_exhaustive()
    }
}

/// Says that the connection is over when its task ends, however it does.
struct Ending(Arc<AtomicBool>);

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl<D: Dialect> Link<D> {
    /// Makes a connection that may be silent for `ttl`. It has its seat among all of them as long as it lasts.
    pub(crate) async fn dial(
        dialect: &Arc<D>,
        ttl: Duration,
        seat: OwnedSemaphorePermit,
    ) -> Result<Arc<Self>, Trouble> {
        let patience = dialect.terms().connect_timeout;
        let greet = async {
            let mut connection = D::Link::connect_with(dialect.options()).await?;
            let rows = D::ask(&mut connection, dialect.greeting(ttl)).await?;
            let badge = D::read_badge(rows.last().ok_or(sqlx::Error::RowNotFound)?)?;
            Ok((connection, badge))
        };
        let (connection, badge) = match timeout(patience, greet).await {
            Ok(greeted) => greeted.map_err(Trouble::Said)?,
            Err(_) => return Err(Trouble::Unconnected(patience)),
        };
        let (orders, inbox) = mpsc::unbounded_channel();
        let over = Arc::new(AtomicBool::new(false));
        let ending = Ending(over.clone());
        let task = tokio::spawn(async move {
            let _kept = (ending, seat);
            serve::<D>(connection, inbox).await;
        });
        Ok(Arc::new(Self { orders, badge, over, buried: AtomicBool::new(false), task: task.abort_handle() }))
    }

    /// Which of the server's connections it is.
    pub(crate) fn badge(&self) -> Badge {
        self.badge
    }

    /// Whether it has ended, as far as is known.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Has a text carried out after those before it.
    pub(crate) fn send(&self, text: String) -> oneshot::Receiver<Answer<D>> {
        let (answer, told) = oneshot::channel();
        // If it is over, whoever waits is told so by the end of the channel.
        let _ = self.orders.send(Order { text, answer });
        told
    }

    /// Has a text carried out, and waits for the answer as long as there is patience.
    pub(crate) async fn ask(&self, text: String, patience: Duration) -> Result<Vec<RowOf<D>>, Trouble> {
        let told = self.send(text);
        match timeout(patience, told).await {
            Ok(Ok(answer)) => answer.map_err(Trouble::Said),
            Ok(Err(_)) => Err(Trouble::Ended),
            Err(_) => Err(Trouble::Silent(patience)),
        }
    }

    /// Ends it, whatever it is doing. The server may not know yet; whether nobody has taken care of that.
    pub(crate) fn bury(&self) -> bool {
        self.over.store(true, Ordering::Release);
        self.task.abort();
        !self.buried.swap(true, Ordering::AcqRel)
    }
}

/// Carries out what is ordered until nobody can order any more, or the connection ends.
async fn serve<D: Dialect>(mut connection: D::Link, mut orders: mpsc::UnboundedReceiver<Order<D>>) {
    while let Some(order) = orders.recv().await {
        let answer = D::ask(&mut connection, order.text).await;
        let is_over = answer.as_ref().is_err_and(|error| is_over::<D>(error));
        let _ = order.answer.send(answer);
        if is_over {
            return;
        }
    }
    let _ = timeout(GOODBYE, connection.close()).await;
}

/// Whether the connection is not to be used again after this.
fn is_over<D: Dialect>(error: &sqlx::Error) -> bool {
    !matches!(error, sqlx::Error::Database(error) if !(D::MANNERS.is_farewell)(&**error))
}
