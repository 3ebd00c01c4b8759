//! Carries requests to a server and its answers back, and sends again what was not carried out.

use std::{sync::Arc, time::Duration};

use bramah_core::{Error, ErrorKind, Result};
use redis::{Cmd, Pipeline, RedisError, Value};

use super::within::nap;
use super::{
    link::Live,
    route::{Route, Site},
    trace::{Awaited, Trace},
    verdict::Verdict,
    wire::Wire,
};
use crate::{
    driver::{Lane, Request, Slot},
    error,
    script::Script,
};

/// How long to wait before a server is asked again that said "not now".
const PAUSE: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(160));

/// To whom.
#[derive(Clone)]
pub(super) enum To {
    /// To the node that has this slot.
    Slot(Slot),
    /// To this node.
    Site(Arc<Site>),
}

/// Requests that go together, and what became of them so far.
pub(super) struct Load<'a> {
    pub(super) to: To,
    pub(super) lane: Lane,
    pub(super) items: Vec<Item<'a>>,
}

/// One request of a load.
pub(super) struct Item<'a> {
    cmd: &'a Cmd,
    script: Option<&'a Arc<Script>>,
    track: bool,
    age: Option<Duration>,
    /// Its answer is a push: it subscribes.
    subscribes: bool,
    /// To be asked there, and told that we were sent.
    ask: Option<Arc<Site>>,
    /// The script goes along.
    load: bool,
    /// Raw after an exchange, final once it was judged.
    pub(super) answer: Option<Result<Value>>,
}

/// Tries the one thing that nearly always happens: the server is known and connected, and answers. None: carry it the
/// long way; nothing was done. Apart from that way because its future is small, and moved around for every request.
///
/// With `over`, on that connection only.
pub(super) async fn quick(
    route: &Route,
    request: &Request,
    over: Option<u64>,
    trace: &mut Trace,
) -> Option<Result<Value>> {
    let mut live = match over {
        None => route.ready(request.slot)?.link(request.lane, request.slot).now()?,
        Some(wire) => route.over(request.slot, wire)?,
    };
    if let Some(young) = live.wire.is_too_young(request.age) {
        return Some(Err(young));
    }
    let writes = live.wire.traffic().writes();
    trace.awaited = Some(Awaited::on(live.wire));
    let answer = live.connection.send_packed_command(&request.cmd).await;
    let wire = trace.awaited.take()?.wire;
    trace.answered = wire.id();
    match answer {
        Ok(_) if wire.is_poisoned() => Some(Err(disorder(&wire))),
        Ok(Value::ServerError(error)) => match Verdict::of(Value::ServerError(error), wire.address()) {
            Verdict::Done(answer) => Some(answer),
            Verdict::Unknown(_) => {
                trace.load = true;
                None
            }
            // It comes to the same answer once more, and acts on it.
            _ => None,
        },
        Ok(Value::Push { .. }) => {
            wire.poison();
            Some(Err(disorder(&wire)))
        }
        Ok(value) => Some(Ok(value)),
        Err(error) => {
            wire.fall();
            (wire.traffic().writes() != writes).then(|| Err(error::from_break(&error, wire.address())))
        }
    }
}

impl<'a> Item<'a> {
    pub(super) fn new(request: &'a Request) -> Self {
        let (script, track, age) = (request.script.as_ref(), request.track, request.age);
        Self { script, track, age, ..Self::bare(&request.cmd) }
    }

    /// A command without script and keys.
    pub(super) fn bare(cmd: &'a Cmd) -> Self {
        Self {
            cmd,
            script: None,
            track: false,
            age: None,
            subscribes: false,
            ask: None,
            load: false,
            answer: None,
        }
    }

    pub(super) fn subscribing(cmd: &'a Cmd) -> Self {
        Self { subscribes: true, ..Self::bare(cmd) }
    }

    /// Sends the script along, because the server does not know it.
    pub(super) fn loading(self, load: bool) -> Self {
        Self { load, ..self }
    }

    fn is_bare(&self) -> bool {
        !self.track && !self.load && self.ask.is_none()
    }
}

impl Load<'_> {
    /// Carries everything that has no answer yet. An error is that of all the rest.
    pub(super) async fn carry(&mut self, route: &Route, trace: &mut Trace) -> Result<()> {
        let mut pause = PAUSE.0;
        loop {
            let Some(first) = self.items.iter().find(|item| item.answer.is_none()) else { return Ok(()) };
            let ask = first.ask.clone();
            let site = match (&ask, &self.to) {
                (Some(site), _) | (None, To::Site(site)) => Arc::clone(site),
                (None, To::Slot(slot)) => match route.ready(*slot) {
                    Some(site) => site,
                    None => route.site(*slot, trace).await?,
                },
            };
            let slot = if let To::Slot(slot) = self.to { slot } else { 0 };
            let live = match site.link(self.lane, slot).live().await {
                Ok(live) => live,
                Err(trouble) if !trouble.error.kind().is_transient() => return Err(trouble.error),
                Err(trouble) => {
                    route.doubt();
                    // What was to be asked there is asked at home again.
                    self.items.iter_mut().for_each(|item| item.ask = None);
                    trace.last = Some(trouble.error);
                    nap(trouble.pause).await;
                    continue;
                }
            };
            let age = self.items.iter().filter_map(|item| item.age).max();
            if let Some(young) = live.wire.is_too_young(age) {
                return Err(young);
            }
            if !self.exchange(&live, ask.as_ref(), trace).await? {
                continue;
            }
            if self.judge(route, slot, &live, trace)? {
                // Half of it at random, so that many do not come back as one.
                nap(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
                pause = (pause * 2).min(PAUSE.1);
            }
        }
    }

    /// One exchange over one connection. Raw answers are left in the items. False: nothing was sent.
    async fn exchange(&mut self, live: &Live, ask: Option<&Arc<Site>>, trace: &mut Trace) -> Result<bool> {
        let same = |item: &Item<'_>| match (&item.ask, ask) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        let mut items: Vec<_> =
            self.items.iter_mut().filter(|item| item.answer.is_none() && same(item)).collect();
        if items.iter().any(|item| item.track) {
            arm(live, trace).await?;
        }
        let mut connection = live.connection.clone();
        let writes = live.wire.traffic().writes();
        trace.awaited = Some(Awaited::on(Arc::clone(&live.wire)));
        let answers = match &mut *items {
            [item] if item.is_bare() => {
                connection.send_packed_command(item.cmd).await.map(|value| vec![value])
            }
            _ => {
                let pipeline = pipeline(&items);
                let count = pipeline.len();
                connection.send_packed_commands(&pipeline, 0, count).await
            }
        };
        trace.awaited = None;
        trace.answered = live.wire.id();
        let answers = match believe(answers, live, writes) {
            Ok(Some(answers)) => answers,
            Ok(None) => return Ok(false),
            Err(error) => return Err(error),
        };
        let mut answers = answers.into_iter();
        for item in items {
            let mut refusal = None;
            for _ in 0..item.preludes() {
                if let Some(Value::ServerError(error)) = answers.next() {
                    refusal.get_or_insert(error);
                }
            }
            let Some(answer) = answers.next() else {
                live.wire.poison();
                return Err(disorder(&live.wire));
            };
            if matches!(answer, Value::Push { .. }) != item.subscribes
                && !matches!(answer, Value::ServerError(_))
            {
                live.wire.poison();
                return Err(disorder(&live.wire));
            }
            item.answer = Some(match (answer, refusal) {
                // What came before it was refused, and that is why.
                (Value::ServerError(error), Some(refusal)) if error.code() == "NOSCRIPT" => {
                    Ok(Value::ServerError(refusal))
                }
                // It was done, but nobody will tell of changes.
                (answer, Some(refusal)) if item.track && !matches!(answer, Value::ServerError(_)) => {
                    let why = error::from_server(&refusal, live.wire.address());
                    Err(Error::caused(ErrorKind::Unavailable, why.to_string(), why))
                }
                (answer, _) => Ok(answer),
            });
            // Where a script is not known it is loaded: there, and not where we were sent from.
            if !matches!(&item.answer, Some(Ok(Value::ServerError(error))) if error.code() == "NOSCRIPT") {
                item.ask = None;
            }
            item.load = false;
        }
        Ok(true)
    }

    /// Turns raw answers into final ones, or takes them back to be asked again. Whether to wait before that.
    fn judge(&mut self, route: &Route, slot: Slot, live: &Live, trace: &mut Trace) -> Result<bool> {
        let mut wait = false;
        for item in &mut self.items {
            let value = match item.answer.take() {
                Some(Ok(value @ Value::ServerError(_))) => value,
                settled => {
                    item.answer = settled;
                    continue;
                }
            };
            let address = live.wire.address();
            match Verdict::of(value, address) {
                Verdict::Done(answer) => item.answer = Some(answer),
                Verdict::Unknown(error) => {
                    if item.script.is_none() {
                        item.answer = Some(Err(error));
                        continue;
                    }
                    item.load = true;
                    // The first time at once: loading helps. Not every time.
                    wait |= trace.last.is_some();
                    trace.last = Some(error);
                }
                Verdict::Moved(to, error) => {
                    let followed = match self.to {
                        To::Slot(_) => route.moved(slot, &to, address).is_some(),
                        To::Site(_) => false,
                    };
                    if !followed {
                        item.answer = Some(Err(foreign(route, error, address)));
                        continue;
                    }
                    wait |= trace.last.is_some();
                    trace.last = Some(error);
                }
                Verdict::Ask(to, error) => {
                    // ASKING and CLIENT CACHING undo each other: what has to be tracked waits for the slot to arrive. So does
                    // what would take a key that is still at home for one that is gone.
                    if item.track || item.script.is_some_and(|script| script.looks_beside()) {
                        wait = true;
                    } else {
                        item.ask = route.elsewhere(&to, address);
                        if item.ask.is_none() {
                            item.answer = Some(Err(foreign(route, error, address)));
                            continue;
                        }
                    }
                    trace.last = Some(error);
                }
                Verdict::Later(error) => {
                    wait = true;
                    trace.last = Some(error);
                }
                Verdict::Doubt(error) => {
                    wait = true;
                    route.doubt();
                    trace.last = Some(error);
                }
                Verdict::Replica(error) => {
                    wait = true;
                    route.doubt();
                    live.wire.fall();
                    trace.last = Some(error);
                }
            }
        }
        Ok(wait)
    }
}

impl Item<'_> {
    /// How many commands go before it.
    fn preludes(&self) -> usize {
        usize::from(self.load && self.script.is_some())
            + usize::from(self.ask.is_some())
            + usize::from(self.track && self.ask.is_none())
    }
}

fn pipeline(items: &[&mut Item<'_>]) -> Pipeline {
    let mut pipeline = Pipeline::with_capacity(items.len() * 2);
    for item in items {
        if let (true, Some(script)) = (item.load, item.script) {
            pipeline.cmd("SCRIPT").arg("LOAD").arg(script.code());
        }
        if item.ask.is_some() {
            pipeline.cmd("ASKING");
        } else if item.track {
            pipeline.cmd("CLIENT").arg("CACHING").arg("YES");
        }
        pipeline.add_command(item.cmd.clone());
    }
    pipeline
}

/// Has the connection tell of keys that it is asked to watch. Once; apart from any request, so that a refusal is known
/// before something is done.
async fn arm(live: &Live, trace: &mut Trace) -> Result<()> {
    if live.wire.tracks() {
        return Ok(());
    }
    let mut pipeline = Pipeline::with_capacity(3);
    pipeline.cmd("CLIENT").arg("TRACKING").arg("ON").arg("OPTIN");
    pipeline.cmd("CLIENT").arg("CACHING").arg("YES");
    // So that nobody else's command is the one that is tracked.
    pipeline.cmd("PING");
    let mut connection = live.connection.clone();
    let writes = live.wire.traffic().writes();
    trace.awaited = Some(Awaited::on(Arc::clone(&live.wire)));
    let answers = connection.send_packed_commands(&pipeline, 0, 3).await;
    trace.awaited = None;
    // Not sent is as good as ended here: the request itself finds out.
    let Some(answers) = believe(answers, live, writes)? else { return Ok(()) };
    for answer in answers {
        if let Value::ServerError(error) = answer {
            return Err(error::from_server(&error, live.wire.address()));
        }
    }
    live.wire.set_tracks();
    Ok(())
}

/// Answers that count; none if the connection had ended before anything of this was written.
fn believe(answers: Result<Vec<Value>, RedisError>, live: &Live, writes: u64) -> Result<Option<Vec<Value>>> {
    match answers {
        Ok(_) if live.wire.is_poisoned() => Err(disorder(&live.wire)),
        Ok(answers) => Ok(Some(answers)),
        Err(error) => {
            live.wire.fall();
            if live.wire.traffic().writes() == writes {
                Ok(None)
            } else {
                Err(error::from_break(&error, live.wire.address()))
            }
        }
    }
}

fn disorder(wire: &Wire) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "the connection to redis at {} was given up before the answer could be trusted; try again",
            wire.address()
        ),
    )
}

fn foreign(route: &Route, error: Error, address: &str) -> Error {
    if route.is_cluster() {
        return error;
    }
    Error::caused(
        ErrorKind::Invalid,
        format!("redis at {address} is a node of a cluster; use redis+cluster:// (or rediss+cluster://)"),
        error,
    )
}
