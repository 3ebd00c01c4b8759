//! What is logged, searched for secrets.

use std::{
    fmt::{self, Write},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

/// Everything that this process logs while it is there, at any level, is searched for a text.
#[derive(Debug)]
pub(crate) struct Search(Arc<Wanted>);

struct Wanted {
    secret: String,
    found: Mutex<Vec<String>>,
}

impl fmt::Debug for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wanted").finish_non_exhaustive()
    }
}

/// What is searched for now. Nothing is formatted while that is nothing.
static SEARCHES: Mutex<Vec<Arc<Wanted>>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);
static INSTALLED: OnceLock<bool> = OnceLock::new();

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Search {
    /// Begins to search. `None` if this process has a subscriber of its own.
    pub(crate) fn begin(secret: &str) -> Option<Self> {
        if !INSTALLED.get_or_init(|| tracing::subscriber::set_global_default(Everything).is_ok()) {
            return None;
        }
        let wanted = Arc::new(Wanted { secret: secret.to_owned(), found: Mutex::default() });
        lock(&SEARCHES).push(wanted.clone());
        COUNT.fetch_add(1, Ordering::AcqRel);
        Some(Self(wanted))
    }

    /// The records that have it, so far.
    pub(crate) fn found(&self) -> Vec<String> {
        lock(&self.0.found).clone()
    }
}

impl Drop for Search {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::AcqRel);
        lock(&SEARCHES).retain(|wanted| !Arc::ptr_eq(wanted, &self.0));
    }
}

/// Every span and event.
struct Everything;

impl Everything {
    fn look(meta: &Metadata<'_>, record: impl FnOnce(&mut Text)) {
        let mut text = Text(format!("{} {}:", meta.level(), meta.target()));
        record(&mut text);
        for wanted in lock(&SEARCHES).iter().filter(|wanted| text.0.contains(&wanted.secret)) {
            lock(&wanted.found).push(text.0.clone());
        }
    }
}

impl Subscriber for Everything {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        COUNT.load(Ordering::Acquire) > 0
    }

    fn register_callsite(&self, _: &'static Metadata<'static>) -> tracing::subscriber::Interest {
        tracing::subscriber::Interest::sometimes()
    }

    fn new_span(&self, attributes: &span::Attributes<'_>) -> span::Id {
        Self::look(attributes.metadata(), |text| attributes.record(text));
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, values: &span::Record<'_>) {
        let mut text = Text(String::new());
        values.record(&mut text);
        for wanted in lock(&SEARCHES).iter().filter(|wanted| text.0.contains(&wanted.secret)) {
            lock(&wanted.found).push(text.0.clone());
        }
    }

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        Self::look(event.metadata(), |text| event.record(text));
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = write!(self.0, " {field}={value:?}");
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let _ = write!(self.0, " {field}={value}");
    }
}
