//! Sentinels: who is the master now, and when that changes.
//!
//! A master that was replaced may believe for seconds that it still is one, and take writes that are lost later. So while
//! we are connected to one, a subscription at one of the sentinels ends our connections as soon as it is replaced.

use std::{
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use bramah_core::{Error, ErrorKind, Result};
use redis::{Cmd, PushInfo, PushKind, Value};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};

use super::within::{nap, within};
use super::{
    dial::{Dialer, Line, text},
    link::Link,
};
use crate::{config::Address, error};

/// How long one sentinel may be silent before the next is asked as well.
const HEDGE: Duration = Duration::from_millis(200);
/// How often the sentinel that tells us of changes is asked whether it is still there.
const LOOK: Duration = Duration::from_secs(2);

/// The sentinels of one service.
pub(super) struct Sentinels {
    dialer: Arc<Dialer>,
    service: Arc<str>,
    /// As they were given.
    all: Box<[Address]>,
    state: Mutex<State>,
}

struct State {
    /// Who answered last comes first.
    order: Vec<Address>,
    followers: Vec<Follower>,
    watched: bool,
    watch: Option<AbortHandle>,
}

impl Drop for Sentinels {
    fn drop(&mut self) {
        if let Some(watch) = self.state().watch.take() {
            watch.abort();
        }
    }
}

/// A link to the master, as of when it was made.
struct Follower {
    link: Weak<Link>,
    address: Address,
}

impl Follower {
    fn is_live(&self) -> bool {
        self.link.upgrade().is_some_and(|link| link.is_live())
    }
}

impl Sentinels {
    pub(super) fn new(dialer: Dialer, service: &str, sentinels: &[Address]) -> Arc<Self> {
        let state = State { order: sentinels.to_vec(), followers: Vec::new(), watched: false, watch: None };
        let (dialer, all) = (Arc::new(dialer), sentinels.into());
        Arc::new(Self { dialer, service: service.into(), all, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks who the master is: the sentinels in turn, the next as soon as one is slow.
    pub(super) async fn master(&self) -> Result<Address> {
        let order = self.state().order.clone();
        let mut waiting = order.into_iter();
        let mut asked = JoinSet::new();
        let mut failure: Option<Error> = None;
        loop {
            if let Some(sentinel) = waiting.next() {
                let (dialer, service) = (Arc::clone(&self.dialer), Arc::clone(&self.service));
                asked.spawn(async move {
                    let answer = ask(&dialer, &sentinel, &service).await;
                    (sentinel, answer)
                });
            }
            let answer = if waiting.len() == 0 {
                asked.join_next().await
            } else {
                match within(HEDGE, pin!(asked.join_next())).await {
                    Ok(answer) => answer,
                    Err(_) => continue,
                }
            };
            match answer {
                Some(Ok((sentinel, Ok(address)))) => {
                    self.prefer(&sentinel);
                    return Ok(address);
                }
                Some(Ok((_, Err(error)))) => {
                    // What can be put right by the one who wrote the url is said before what may pass.
                    if failure.as_ref().is_none_or(|known| known.kind().is_transient()) {
                        failure = Some(error);
                    }
                }
                Some(Err(_)) => {}
                None => {
                    let none = || Error::new(ErrorKind::Unavailable, "no sentinel answered; try again");
                    return Err(failure.unwrap_or_else(none));
                }
            }
        }
    }

    /// The answer of each to a question, in the order of the url.
    pub(super) async fn ask_all(&self, cmd: &Cmd) -> Vec<(Address, Result<Value>)> {
        let mut asked = JoinSet::new();
        for (at, sentinel) in self.all.iter().cloned().enumerate() {
            let (dialer, cmd) = (Arc::clone(&self.dialer), cmd.clone());
            asked.spawn(async move {
                let answer = question(&dialer, &sentinel, &cmd).await;
                (at, sentinel, answer)
            });
        }
        let mut answers: Vec<_> = asked.join_all().await;
        answers.sort_by_key(|(at, ..)| *at);
        answers.into_iter().map(|(_, sentinel, answer)| (sentinel, answer)).collect()
    }

    fn prefer(&self, sentinel: &Address) {
        let mut state = self.state();
        if let Some(at) = state.order.iter().position(|known| known == sentinel) {
            state.order[..=at].rotate_right(1);
        }
    }

    /// The sentinel that was preferred named a master that is none.
    pub(super) fn doubt(&self) {
        self.state().order.rotate_left(1);
    }

    /// A connection to `address` was made. From now on it ends when the master is another.
    pub(super) fn follow(self: &Arc<Self>, address: &Address, link: &Arc<Link>) {
        let mut state = self.state();
        let link = Arc::downgrade(link);
        state.followers.retain(|f| f.link.strong_count() > 0 && !f.link.ptr_eq(&link));
        state.followers.push(Follower { link, address: address.clone() });
        drop(state);
        self.watch();
    }

    /// Sees to it that somebody watches, as long as there is anything to end.
    fn watch(self: &Arc<Self>) {
        let due = {
            let mut state = self.state();
            let due = !state.watched && state.followers.iter().any(Follower::is_live);
            state.watched |= due;
            due
        };
        if due {
            let post = Post(Arc::downgrade(self));
            let watch = self.dialer.office().task(async move { post.stand().await });
            self.state().watch = Some(watch);
        }
    }

    /// Ends what leads elsewhere.
    fn switch(&self, master: &Address) {
        let mut wrong = Vec::new();
        self.state().followers.retain(|follower| {
            if follower.address == *master {
                return true;
            }
            wrong.extend(follower.link.upgrade());
            false
        });
        for link in wrong {
            tracing::info!(service = %self.service, %master, "the master has changed");
            link.cut();
        }
    }

    fn is_followed(&self) -> bool {
        self.state().followers.iter().any(Follower::is_live)
    }
}

async fn question(dialer: &Arc<Dialer>, sentinel: &Address, cmd: &Cmd) -> Result<Value> {
    let mut line = dialer.open(sentinel, |_| (), Arc::default()).await?;
    let answer = tokio::time::timeout(dialer.timeout(), line.connection.send_packed_command(cmd)).await;
    match answer.map_err(|_| silent(sentinel))? {
        Ok(Value::ServerError(error)) => Err(error::from_server(&error, &sentinel.to_string())),
        Ok(answer) => Ok(answer),
        Err(error) => Err(error::from_break(&error, &sentinel.to_string())),
    }
}

fn silent(sentinel: &Address) -> Error {
    let text = format!("the sentinel at {sentinel} did not answer; is it frozen?");
    Error::new(ErrorKind::Unavailable, text)
}

async fn ask(dialer: &Arc<Dialer>, sentinel: &Address, service: &str) -> Result<Address> {
    let mut line = dialer.open(sentinel, |_| (), Arc::default()).await?;
    locate(dialer, &mut line, sentinel, service).await
}

/// Asks a sentinel that we are connected to.
async fn locate(dialer: &Dialer, line: &mut Line, sentinel: &Address, service: &str) -> Result<Address> {
    let mut cmd = redis::cmd("SENTINEL");
    cmd.arg("GET-MASTER-ADDR-BY-NAME").arg(service);
    let answer = within(dialer.timeout(), pin!(line.connection.send_packed_command(&cmd)))
        .await
        .map_err(|_| silent(sentinel))?;
    match answer.map_err(|error| error::from_break(&error, &sentinel.to_string()))? {
        Value::Array(words) => {
            let mut words = words.iter().map(text);
            let host = words.next().flatten().filter(|host| !host.is_empty());
            let port = words.next().flatten().and_then(|port| port.parse().ok());
            host.zip(port).map(Address::from).ok_or_else(|| {
                Error::new(
                    ErrorKind::Corrupt,
                    format!("the sentinel at {sentinel} answered something else than an address"),
                )
            })
        }
        Value::Nil => Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "the sentinel at {sentinel} knows no service {}; is that its name?",
                error::clean(service)
            ),
        )),
        Value::ServerError(error)
            if error.details().is_some_and(|said| said.starts_with("unknown command")) =>
        {
            Err(Error::new(
                ErrorKind::Invalid,
                format!("redis at {sentinel} is not a sentinel; use redis:// for it"),
            ))
        }
        Value::ServerError(error) => Err(error::from_server(&error, &sentinel.to_string())),
        _ => Err(Error::new(
            ErrorKind::Corrupt,
            format!("the sentinel at {sentinel} answered something else than an address"),
        )),
    }
}

/// Who watches for a change. At its end it lets another take over, for whom somebody may have come to follow meanwhile.
struct Post(Weak<Sentinels>);

impl Post {
    async fn stand(self) {
        // After its change, one sentinel may know earlier than another: it is told apart from what was known before.
        let mut known: Option<Address> = None;
        loop {
            let Some((dialer, sentinel, service)) = self.0.upgrade().and_then(|sentinels| {
                let sentinel = sentinels.state().order.first().cloned();
                sentinel.map(|s| (Arc::clone(&sentinels.dialer), s, Arc::clone(&sentinels.service)))
            }) else {
                return;
            };
            if self.listen(&dialer, &sentinel, &service, &mut known).await.is_err() {
                let Some(sentinels) = self.0.upgrade() else { return };
                sentinels.doubt();
                drop(sentinels);
                nap(HEDGE).await;
            }
            if !self.0.upgrade().is_some_and(|sentinels| sentinels.is_followed()) {
                return;
            }
        }
    }

    /// Listens at one sentinel for as long as it answers and somebody follows.
    async fn listen(
        &self,
        dialer: &Arc<Dialer>,
        sentinel: &Address,
        service: &str,
        known: &mut Option<Address>,
    ) -> Result<()> {
        let (tell, mut told) = mpsc::channel(16);
        let hear = move |push: PushInfo| {
            if push.kind == PushKind::Message || push.kind == PushKind::Disconnection {
                // Full means that a look is due anyway.
                let _ = tell.try_send(());
            }
        };
        let mut line = dialer.open(sentinel, hear, Arc::default()).await?;
        let mut subscribe = redis::cmd("SUBSCRIBE");
        subscribe.arg("+switch-master");
        let answer = within(dialer.timeout(), pin!(line.connection.send_packed_command(&subscribe))).await;
        if !matches!(answer, Ok(Ok(Value::Push { .. }))) {
            return Err(Error::new(
                ErrorKind::Unavailable,
                format!("the sentinel at {sentinel} tells nothing"),
            ));
        }
        loop {
            // Whatever it told: what counts is whom it names.
            let master = locate(dialer, &mut line, sentinel, service).await?;
            let Some(sentinels) = self.0.upgrade() else { return Ok(()) };
            if known.as_ref() != Some(&master) {
                sentinels.prefer(sentinel);
                sentinels.switch(&master);
                *known = Some(master);
            }
            if !sentinels.is_followed() {
                return Ok(());
            }
            drop(sentinels);
            let _ = within(LOOK, pin!(told.recv())).await;
        }
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        if let Some(sentinels) = self.0.upgrade() {
            sentinels.state().watched = false;
            sentinels.watch();
        }
    }
}
