//! What is watched: one stream for an engine carries all of it.
//!
//! A watch fires once. It fires when what it is about happens, and also when etcd cannot tell any more (what it would have to begin
//! with was compacted): who hears it looks for himself. A stream that breaks, or falls silent, is begun anew at a member that
//! answers, and every watch goes on where it was, so nothing falls between.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bramah_core::{Clock, Wake, Woken};
use tokio::{
    sync::{Notify, mpsc},
    time::timeout,
};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::Streaming;
use tracing::debug;

use crate::{
    error::{Trouble, is_token},
    layout::{Span, is_child},
    net::{LARGEST, Net, Way},
    proto::{
        etcdserverpb::{
            WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
            watch_client::WatchClient, watch_create_request::FilterType, watch_request::RequestUnion,
        },
        mvccpb::KeyValue,
    },
};

/// How often a stream is asked whether it is there, and how long it may say nothing.
const ASKED: Duration = Duration::from_millis(700);
const SILENCE: Duration = Duration::from_millis(2500);

/// Between two attempts to begin a stream, and before a watch fires that etcd did not want.
const PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_millis(500));

/// What is to happen.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) span: Span,
    /// From this revision on.
    pub(crate) from: i64,
    /// Whether a write is told, too, or an end alone.
    pub(crate) puts: bool,
    /// Whether only children of the span's start count.
    pub(crate) children: bool,
}

type Tell = Box<dyn FnOnce() + Send>;

struct Watch {
    wanted: Wanted,
    tell: Tell,
    /// Which of its two watches the stream was asked for.
    is_live: bool,
    is_late: bool,
}

/// All watches of an engine.
#[derive(Default)]
pub(crate) struct Watches {
    state: Mutex<State>,
    /// There is something to watch, or nothing ever again.
    stirred: Notify,
    over: AtomicBool,
}

#[derive(Default)]
struct State {
    watches: HashMap<i64, Watch>,
    last: i64,
    requests: Option<mpsc::UnboundedSender<WatchRequest>>,
}

/// A watch, for as long as somebody has this.
pub(crate) struct Armed {
    watches: Arc<Watches>,
    id: i64,
}

impl Armed {
    /// Whether it has not fired yet.
    pub(crate) fn is_armed(&self) -> bool {
        self.watches.state().watches.contains_key(&self.id)
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        drop(self.watches.remove(self.id));
    }
}

impl Watches {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has `tell` called once, when it happens or cannot be known any more; never, if the answer is dropped before.
    pub(crate) fn arm(self: &Arc<Self>, wanted: Wanted, tell: impl FnOnce() + Send + 'static) -> Armed {
        let mut state = self.state();
        state.last += 1;
        let id = state.last;
        let is_live = state.requests.is_some();
        if let Some(requests) = &state.requests {
            // If it has just ended, the next stream begins with all of them.
            let _ = requests.send(creation(live(id), &wanted, 0));
        }
        state.watches.insert(id, Watch { wanted, tell: Box::new(tell), is_live, is_late: false });
        drop(state);
        self.stirred.notify_one();
        Armed { watches: self.clone(), id }
    }

    /// A wake that fires when it happens.
    pub(crate) fn wake(self: &Arc<Self>, wanted: Wanted) -> Wake {
        let (bell, wake) = Wake::pair();
        let armed = self.arm(wanted, move || {
            bell.ring(Woken::Ask);
        });
        Wake::from_future(async move {
            let woken = wake.await;
            drop(armed);
            woken
        })
    }

    fn remove(&self, id: i64) -> Option<Watch> {
        let mut state = self.state();
        let watch = state.watches.remove(&id)?;
        if let Some(requests) = &state.requests {
            let ids = [(watch.is_live, live(id)), (watch.is_late, late(id))];
            for (_, watch_id) in ids.into_iter().filter(|(is_asked_for, _)| *is_asked_for) {
                let cancel = Some(RequestUnion::CancelRequest(WatchCancelRequest { watch_id }));
                let _ = requests.send(WatchRequest { request_union: cancel });
            }
        }
        Some(watch)
    }

    fn fire(&self, id: i64) {
        if let Some(watch) = self.remove(id) {
            (watch.tell)();
        }
    }

    fn is_idle(&self) -> bool {
        self.state().watches.is_empty()
    }

    /// Nobody watches any more.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.stirred.notify_one();
    }

    /// Keeps a stream while there is something to watch.
    pub(crate) async fn attend(self: Arc<Self>, net: Arc<Net>) {
        let mut pause = PAUSES.0;
        while !self.over.load(Ordering::Acquire) {
            if self.is_idle() {
                self.stirred.notified().await;
                continue;
            }
            if let Err(trouble) = self.stream(&net, &mut pause).await {
                debug!(?trouble, "a stream of watches ended; another one begins");
            }
            self.state().requests = None;
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            pause = (pause * 2).min(PAUSES.1);
        }
    }

    /// One stream, to its end.
    async fn stream(&self, net: &Net, pause: &mut Duration) -> Result<(), Trouble> {
        let way = net.way(net.config().timeout).await.inspect_err(|trouble| {
            debug!(?trouble, "no way to a member");
        })?;
        let (requests, asked) = mpsc::unbounded_channel();
        {
            let mut state = self.state();
            for (id, watch) in &mut state.watches {
                (watch.is_live, watch.is_late) = (false, true);
                let _ = requests.send(creation(late(*id), &watch.wanted, watch.wanted.from));
            }
            if state.watches.is_empty() {
                return Ok(());
            }
            state.requests = Some(requests.clone());
        }
        // The requests are in it already: the call is answered with the answer to the first.
        let mut client = WatchClient::new(way.channel.clone()).max_decoding_message_size(LARGEST);
        let begun = timeout(SILENCE, client.watch(way.request(UnboundedReceiverStream::new(asked)))).await;
        let mut stream = match begun {
            Ok(Ok(stream)) => stream.into_inner(),
            Ok(Err(status)) => {
                Self::give_up(net, &way, &Trouble::Said(status.clone()));
                return Err(Trouble::Said(status));
            }
            Err(_) => {
                net.leave(&way, true);
                return Err(Trouble::Silent(SILENCE));
            }
        };
        let heard = self.listen(&mut stream, &requests, pause).await;
        if let Err(trouble) = &heard {
            Self::give_up(net, &way, trouble);
        }
        heard
    }

    fn give_up(net: &Net, way: &Way, trouble: &Trouble) {
        match trouble {
            Trouble::Said(status) if is_token(status) => net.forget_token(way),
            Trouble::Silent(_) => net.leave(way, true),
            _ => net.leave(way, false),
        }
    }

    async fn listen(
        &self,
        stream: &mut Streaming<WatchResponse>,
        requests: &mpsc::UnboundedSender<WatchRequest>,
        pause: &mut Duration,
    ) -> Result<(), Trouble> {
        let clock = Clock::boot();
        let mut heard = clock.now();
        let mut ticks = tokio::time::interval(ASKED);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                told = stream.message() => match told {
                    Ok(Some(told)) => {
                        heard = clock.now();
                        *pause = PAUSES.0;
                        self.told(told)?;
                    }
                    Ok(None) => return Ok(()),
                    Err(status) => return Err(Trouble::Said(status)),
                },
                _ = ticks.tick() => {
                    if self.over.load(Ordering::Acquire) {
                        return Ok(());
                    }
                    if clock.now().since(heard) > SILENCE {
                        return Err(Trouble::Silent(SILENCE));
                    }
                    let progress = Some(RequestUnion::ProgressRequest(WatchProgressRequest {}));
                    let _ = requests.send(WatchRequest { request_union: progress });
                }
            }
        }
    }

    fn told(&self, told: WatchResponse) -> Result<(), Trouble> {
        let id = told.watch_id.div_euclid(2);
        if told.canceled {
            return self.refused(id, told.compact_revision != 0, &told.cancel_reason);
        }
        if told.created && told.watch_id == live(id) {
            self.look_back(id, told.header.map_or(i64::MAX, |header| header.revision));
        }
        let mut fires = false;
        if let Some(Watch { wanted, .. }) = self.state().watches.get(&id) {
            let is_wanted = |kv: &KeyValue| {
                kv.mod_revision >= wanted.from && (!wanted.children || is_child(&wanted.span.from, &kv.key))
            };
            fires = told.events.iter().filter_map(|event| event.kv.as_ref()).any(is_wanted);
        }
        if fires {
            self.fire(id);
        }
        Ok(())
    }

    /// A watch began behind this revision. If it should have begun before, what it missed is asked for, too.
    fn look_back(&self, id: i64, begun: i64) {
        let mut state = self.state();
        let State { watches, requests, .. } = &mut *state;
        if let (Some(watch), Some(requests)) = (watches.get_mut(&id), requests)
            && begun >= watch.wanted.from
        {
            watch.is_late = true;
            let _ = requests.send(creation(late(id), &watch.wanted, watch.wanted.from));
        }
    }

    /// etcd does not watch this. Who hears of it looks, and will perhaps ask for the same: not at once, unless it was because of
    /// a compaction.
    fn refused(&self, id: i64, was_compacted: bool, why: &str) -> Result<(), Trouble> {
        debug!(id, why, was_compacted, "a watch was cancelled");
        let is_known = self.state().watches.contains_key(&id);
        match (is_known, was_compacted) {
            (true, true) => self.fire(id),
            (true, false) => {
                let watch = self.remove(id);
                tokio::spawn(async move {
                    tokio::time::sleep(PAUSES.1).await;
                    if let Some(watch) = watch {
                        (watch.tell)();
                    }
                });
            }
            // The answer to a cancellation of ours.
            (false, _) if id >= 0 => {}
            // It does not say which one it refuses.
            (false, _) => return Err(Trouble::Odd("a watch was refused")),
        }
        Ok(())
    }
}

impl std::fmt::Debug for Watches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watches").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Armed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Armed({})", self.id)
    }
}

/// etcd tells at once what happens from now on; what it has to look back for, it tells with the next of its rounds, which are 100 ms
/// apart. So a watch is asked for from now on, and once more from where it should have begun if something was written in between.
fn live(id: i64) -> i64 {
    id * 2
}

/// The one that looks back.
fn late(id: i64) -> i64 {
    id * 2 + 1
}

fn creation(watch_id: i64, wanted: &Wanted, start_revision: i64) -> WatchRequest {
    let filters = if wanted.puts { Vec::new() } else { vec![FilterType::Noput.into()] };
    let create = WatchCreateRequest {
        key: wanted.span.from.clone(),
        range_end: wanted.span.to.clone(),
        start_revision,
        filters,
        watch_id,
        ..WatchCreateRequest::default()
    };
    WatchRequest { request_union: Some(RequestUnion::CreateRequest(create)) }
}
