//! Looking at lines without touching them.

use std::{collections::HashMap, path::Path, sync::Arc, time::Duration};

use bramah_core::{
    About, Break, Broken, Claim, Error, ErrorKind, Health, LineView, Look, PlaceState, PlaceView, Reply,
    Result, Scope, SessionId, Survey, Wait, Wake,
};

use crate::{
    bells::Ear,
    error::io_error,
    layout::{file_name, is_ledger_file},
    ledger::Ledger,
    life::{self, Kept},
    state::{Entry, State},
    store::Store,
    watch::Sign,
};

/// How many ledgers are read before others get the thread.
const CHUNK: usize = 64;
/// How long the wake is trusted. A process that dies changes no ledger, so this is also how soon that shows.
const SLEEP: Duration = Duration::from_secs(1);
const UNWATCHED: Duration = Duration::from_millis(100);

/// Shows the lines of a scope.
pub(crate) fn survey(store: &Arc<Store>, scope: &Scope, look: Look) -> Reply<Survey> {
    let mut tour = match Tour::begin(store, scope, look) {
        Ok(tour) => tour,
        Err(error) => return Reply::now(Err(error)),
    };
    match tour.step(store) {
        Err(error) => Reply::now(Err(error)),
        Ok(()) if tour.todo.is_empty() => Reply::now(Ok(tour.finish())),
        Ok(()) => {
            let store = Arc::clone(store);
            Reply::later(async move {
                while !tour.todo.is_empty() {
                    tokio::task::yield_now().await;
                    tour.step(&store)?;
                }
                Ok(tour.finish())
            })
        }
    }
}

/// One survey under way.
struct Tour {
    scope: Scope,
    look: Look,
    todo: Vec<String>,
    lines: Vec<LineView>,
    unreadable: Vec<Error>,
    seen: HashMap<(SessionId, u64), Option<Person>>,
    wake: Wake,
    sleep: Duration,
    host: Arc<str>,
}

/// A session that lives.
#[derive(Clone)]
struct Person {
    about: Option<Arc<About>>,
    left: Option<Duration>,
    /// Of a detached session, which carries its claims.
    ttl: Option<Duration>,
    health: Health,
}

impl Person {
    fn unknown() -> Self {
        Self { about: None, left: None, ttl: None, health: Health::Unknown }
    }
}

impl Tour {
    /// Arms the wake if it is wanted, then lists what there is to read.
    fn begin(store: &Store, scope: &Scope, look: Look) -> Result<Self> {
        let (wake, armed) = match look {
            // The kernel takes its time to end a watch, and a look should not cost that.
            Look::Once | Look::Glance => (Wake::never(), true),
            Look::Watching => {
                let ear = store.bells.survey();
                let wake = store.bells.hang(ear);
                (wake, arm(store, scope, ear))
            }
        };
        let todo = match scope {
            Scope::Exact(name) => vec![file_name(name)],
            Scope::Under(_) | Scope::All => list(&store.layout.locks)?,
        };
        let sleep = if armed { SLEEP } else { UNWATCHED };
        let host = About::this_process().host;
        Ok(Self {
            scope: scope.clone(),
            look,
            todo,
            lines: Vec::new(),
            unreadable: Vec::new(),
            seen: HashMap::new(),
            wake,
            sleep,
            host,
        })
    }

    fn step(&mut self, store: &Store) -> Result<()> {
        for file in self.todo.split_off(self.todo.len().saturating_sub(CHUNK)) {
            let state = match read(store, &store.layout.locks.join(&file)) {
                Ok(Some(state)) => state,
                Ok(None) => continue,
                // One damaged ledger hides no other.
                Err(error) if !matches!(self.scope, Scope::Exact(_)) => {
                    self.unreadable.push(error);
                    continue;
                }
                Err(error) => return Err(error),
            };
            if self.scope.covers(&state.name) {
                self.show(store, state)?;
            }
        }
        Ok(())
    }

    fn show(&mut self, store: &Store, state: State) -> Result<()> {
        let mut places = Vec::new();
        for (at, entry) in state.line.iter().enumerate() {
            let held = at < state.line.held();
            let person = match self.look {
                // To ask after each of two hundred costs milliseconds, and two hundred may ask.
                Look::Glance if !held => Some(Person::unknown()),
                _ => self.meet(store, entry)?,
            };
            if let Some(person) = person {
                places.push(place(store, &state, entry, held, person));
            }
        }
        let now = store.boot.now_ns();
        let broken = state.scar.filter(|scar| scar.boot == store.boot.mark).map(|scar| Broken {
            id: scar.id,
            cause: Arc::new(Break { by: scar.by, reason: scar.reason }),
            ago: Duration::from_nanos(now.saturating_sub(scar.at_ns)),
        });
        let told = matches!(self.scope, Scope::Exact(_)) && broken.is_some();
        if !places.is_empty() || told {
            self.lines.push(LineView { name: state.name, capacity: state.line.capacity(), places, broken });
        }
        Ok(())
    }

    /// Who is behind an entry; `None` if dead. Each session is looked at once.
    fn meet(&mut self, store: &Store, entry: &Entry) -> Result<Option<Person>> {
        let key = (entry.id.session, entry.incarnation);
        if let Some(person) = self.seen.get(&key) {
            return Ok(person.clone());
        }
        let path = store.layout.session(key.0, key.1);
        let person = match life::is_alive(&path, &store.boot)? {
            true => Some(person(&path, store, &self.host)),
            false => None,
        };
        self.seen.insert(key, person.clone());
        Ok(person)
    }

    fn finish(mut self) -> Survey {
        self.lines.sort_by(|a, b| a.name.cmp(&b.name));
        Survey { lines: self.lines, unreadable: self.unreadable, wake: self.wake, sleep: self.sleep }
    }
}

/// Watches one ledger, or all of them where there is none yet or more are asked for.
fn arm(store: &Store, scope: &Scope, ear: Ear) -> bool {
    let Some(watcher) = store.watcher() else { return false };
    if let Scope::Exact(name) = scope {
        let path = store.layout.ledger(name);
        if path.exists() {
            return watcher.change(&path, Sign::Change, ear);
        }
    }
    watcher.change(&store.layout.locks, Sign::Stir, ear)
}

fn list(locks: &Path) -> Result<Vec<String>> {
    let failed = |error| io_error("list", locks, error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(locks).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        files.extend(name.to_str().filter(|name| is_ledger_file(name)).map(str::to_owned));
    }
    Ok(files)
}

/// Reads a ledger without locking it, so that looking never holds anyone up. A read that fell into a write does not
/// match its checksum and is made again; what is still wrong then is looked at under the lock, where it is the truth.
fn read(store: &Store, path: &Path) -> Result<Option<State>> {
    let Some(ledger) = Ledger::open(path, false)? else {
        // Nobody has ever wanted that lock, unless all of them are gone.
        return match store.layout.locks.is_dir() {
            true => Ok(None),
            false => Err(Error::new(
                ErrorKind::Unavailable,
                format!("the directory {} is gone; open the store anew", store.layout.locks.display()),
            )),
        };
    };
    let state = || Ok(ledger.read(None, 1, store.boot.mark)?.map(|content| content.state));
    for _ in 0..20 {
        match state() {
            Err(error) if is_corrupt(&error) => std::thread::sleep(Duration::from_micros(50)),
            answer => return answer,
        }
    }
    match ledger.lock()? {
        Some(_locked) => state(),
        None => Err(Error::new(
            ErrorKind::Unavailable,
            format!("cannot read the ledger {}: another process is writing it; look again", path.display()),
        )),
    }
}

fn is_corrupt(error: &Error) -> bool {
    error.kind() == ErrorKind::Corrupt
}

fn place(store: &Store, state: &State, entry: &Entry, held: bool, person: Person) -> PlaceView {
    let now = store.boot.now_ns();
    let ago = |ns: u64| Duration::from_nanos(now.saturating_sub(ns));
    let claim = Claim {
        id: entry.id,
        name: state.name.clone(),
        capacity: state.line.capacity(),
        weight: entry.weight,
        wait: Wait::Line,
        again: true,
        floor: None,
        ttl: person.ttl.unwrap_or(entry.ttl),
        lease: entry.lease,
        note: entry.note.clone(),
    };
    let place = if held {
        PlaceState::Held { fence: entry.fence, since: Some(ago(entry.granted_ns)) }
    } else {
        PlaceState::Waiting
    };
    PlaceView {
        claim: Arc::new(claim),
        about: person.about,
        state: place,
        age: Some(ago(entry.entered_ns)),
        left: person.left,
        // Of a session that its process keeps alive by a flock there is no last sign of life: it lives, or it does not.
        renewed: person.ttl.zip(person.left).map(|(ttl, left)| ttl.saturating_sub(left)),
        health: person.health,
    }
}

fn person(path: &Path, store: &Store, host: &str) -> Person {
    let record = life::open(path).ok().flatten().and_then(|file| life::read(&file, path).ok().flatten());
    let Some(record) = record else { return Person::unknown() };
    let left = record.keep.left_ns(&store.boot).map(Duration::from_nanos);
    let health = match (&record.keep, &record.about) {
        (Kept::Process, Some(about)) if *about.host == *host => health(about.pid),
        _ => Health::Unknown,
    };
    let ttl = match record.keep {
        Kept::Until { ttl_ns, .. } => Some(Duration::from_nanos(ttl_ns)),
        Kept::Process => None,
    };
    Person { about: record.about.map(Arc::new), left, ttl, health }
}

/// What the kernel says of a process of this host. Its name is in brackets and may hold anything, so the state is
/// looked for behind the last one.
fn health(pid: u32) -> Health {
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return Health::Unknown };
    match stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next()) {
        Some('T' | 't') => Health::Stopped,
        Some(_) => Health::Running,
        None => Health::Unknown,
    }
}
