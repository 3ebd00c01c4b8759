//! The calls to the database.

use std::{
    fmt,
    ops::RangeInclusive,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bramah_core::{
    Asking, Capacities, Claim, ClaimId, Clock, Error, ErrorKind, Exit, Fence, Fencing, Leasing, Liveness,
    Modes, Name, Opening, Order, Profile, Result, Scope, Seats, SessionId, Strays, Wait, Waking,
};
use bramah_relational::{
    Answer, Base, Break, Desk, Footing, Head, Manners, Office, Prelude, Reader, Renewed, Seen, Wakes,
    whole_millis as millis,
};
use sqlx::{PgConnection, Row, postgres::PgRow};

use crate::{
    config::Config,
    error,
    init::VERSION,
    listener::{self, Listener},
    text::{array, number, optional, quoted, session as uuid},
};

/// Where a user's transactions are of another level than the functions need, every call says which. Not once for a connection:
/// behind a pooler that would be somebody else's a moment later.
pub(crate) const MANNERS: Manners = Manners {
    greeting: &[],
    prelude: Some(Prelude {
        text: "SET TRANSACTION ISOLATION LEVEL READ COMMITTED; ",
        is_wanted: error::is_level,
    }),
    is_farewell: error::is_farewell,
    is_undone: error::is_undone,
};

/// A database, over connections to it.
pub(crate) struct Database {
    pub(crate) desk: Desk<PgConnection>,
    pub(crate) config: Config,
    office: Office,
    listener: OnceLock<Listener>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Connections have the password, and the listener the ids of sessions.
        f.debug_struct("Postgres").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Database {
    pub(crate) fn new(config: &Config, office: Office) -> Self {
        let server = format!("postgres at {}", config.address());
        Self {
            desk: Desk::new(server, &config.options, &config.terms, MANNERS, error::meaning),
            config: config.clone(),
            office,
            listener: OnceLock::new(),
        }
    }

    pub(crate) fn other_version(&self, version: i64) -> Error {
        if version == 0 {
            let text = format!(
                "{}: bramah's tables are incomplete, an earlier bramah init did not finish; run bramah init",
                self.desk.server()
            );
            return Error::new(ErrorKind::Invalid, text);
        }
        let next = if version > VERSION { "use a newer bramah" } else { "run bramah init" };
        let text = format!(
            "{}: bramah's tables have version {version}, this build speaks {VERSION}; {next}",
            self.desk.server()
        );
        Error::new(ErrorKind::Invalid, text)
    }

    /// Whether what is said by NOTIFY reaches us, found out anew.
    pub(crate) async fn is_heard(&self) -> bool {
        self.config.listen && listener::hears(&self.config.options, self.desk.calls()).await
    }

    /// Clears lines in which somebody died a while ago, and whom nobody asks about: some of them, each in a transaction of its own,
    /// so that none waits for one line while it has another. All of it within one patience: whoever opens a session waits for it, and
    /// what is left over is for the next one.
    async fn sweep(&self, patience: Duration) -> Result<()> {
        let clock = Clock::boot();
        let end = clock.now() + patience;
        let rows = self.desk.call("SELECT * FROM bramah_dead()".to_owned(), patience).await?;
        for name in self.desk.read(&rows, |row| row.try_get::<String, _>(0))? {
            let left = end.since(clock.now());
            if left.is_zero() {
                break;
            }
            self.desk.call(format!("SELECT bramah_nudge({})", quoted(&name)), left).await?;
        }
        Ok(())
    }

    async fn standing(&self, claim: &Claim, text: String, patience: Duration) -> Result<Answer> {
        let rows = self.desk.call(text, patience).await?;
        self.desk.read_first(&rows, |row| Reader(row).answer(claim))?
    }
}

impl Base for Database {
    fn profile(&self) -> Profile {
        Profile {
            modes: Modes::Permits,
            capacity: Capacities::Claimed,
            order: Order::Fifo,
            fence: Fencing::Durable,
            liveness: Liveness::Lease,
            wake: if self.config.listen { Waking::Pushed } else { Waking::Polled },
            seats: Seats::Many,
            lease: Leasing::Stored,
            strays: Strays::Listed,
            asking: Asking::Kept,
        }
    }

    fn server(&self) -> &str {
        self.desk.server()
    }

    fn timeout(&self) -> Duration {
        self.config.terms.timeout
    }

    async fn examine(self: Arc<Self>, patience: Duration) -> Result<()> {
        let text = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean, \
                    coalesce((SELECT max(version) FROM bramah_schema), 0)::bigint";
        let rows = self.desk.call(text.to_owned(), patience).await?;
        let read =
            |row: &PgRow| -> Result<(bool, i64), sqlx::Error> { Ok((row.try_get(0)?, row.try_get(1)?)) };
        let (read_only, version) = self.desk.read_first(&rows, read)?;
        if read_only {
            let text = format!(
                "{} takes no writes: it is a standby, or read-only by its settings; point the url at the primary",
                self.desk.server()
            );
            return Err(Error::new(ErrorKind::Unavailable, text));
        }
        if version != VERSION {
            return Err(self.other_version(version));
        }
        self.check_complete(patience).await
    }

    async fn open(
        self: Arc<Self>,
        opening: Arc<Opening>,
        wakes: Arc<Wakes>,
        patience: Duration,
    ) -> Result<()> {
        let about = quoted(&opening.about.encode());
        self.desk.call(format!("SELECT bramah_open({}, {about})", uuid(opening.session)), patience).await?;
        if let Err(error) = self.sweep(patience).await {
            tracing::debug!(%error, "lines of the dead were not swept");
        }
        // The connection that renews is there before it is needed.
        self.desk.keep("SELECT 1".to_owned(), patience).await?;
        if self.config.listen {
            let listener = self.listener.get_or_init(|| {
                Listener::start(&self.office, self.config.options.clone(), self.desk.calls().clone(), wakes)
            });
            // One that cannot be heard now asks from time to time.
            let _ = tokio::time::timeout(patience, listener.attend(opening.session)).await;
        }
        Ok(())
    }

    fn footing(&self, session: SessionId) -> Footing {
        match self.listener.get().is_some_and(|listener| listener.is_told(session)) {
            true => Footing::Told,
            false => Footing::Untold,
        }
    }

    async fn enter(self: Arc<Self>, claim: Arc<Claim>, patience: Duration) -> Result<Answer> {
        let wait = match claim.wait {
            Wait::No => "n",
            Wait::Watch => "w",
            Wait::Line => "l",
        };
        let text = format!(
            "SELECT * FROM bramah_enter({}, {}, {}, {}, {}, {}, {}, {}, {}, '{wait}')",
            quoted(claim.name.as_str()),
            uuid(claim.id.session),
            claim.id.seq,
            claim.capacity,
            claim.weight,
            millis(claim.ttl),
            millis(claim.kept()),
            number(claim.lease.map(millis)),
            quoted(&claim.note),
        );
        self.standing(&claim, text, patience).await
    }

    async fn ask(self: Arc<Self>, claim: Arc<Claim>, patience: Duration) -> Result<Answer> {
        let text = format!(
            "SELECT * FROM bramah_ask({}, {}, {}, {}, {}, {}, {})",
            quoted(claim.name.as_str()),
            uuid(claim.id.session),
            claim.id.seq,
            millis(claim.ttl),
            millis(claim.kept()),
            quoted(&claim.note),
            number(claim.floor.map(Fence::get)),
        );
        self.standing(&claim, text, patience).await
    }

    async fn granted(self: Arc<Self>, names: Vec<Name>, patience: Duration) -> Result<Vec<(ClaimId, Fence)>> {
        let text = format!(
            "SELECT replace(session::text, '-', ''), seq, coalesce(raised, ticket) FROM bramah_claims \
              WHERE name IN ({}) AND held AND until > clock_timestamp()",
            listed(&names),
        );
        let rows = self.desk.keep(text, patience).await?;
        self.desk.read(&rows, |row| Reader(row).granted())
    }

    async fn leave(self: Arc<Self>, claim: Arc<Claim>, exit: Exit, patience: Duration) -> Result<()> {
        let (by, reason) = match &exit {
            Exit::Own => (None, None),
            Exit::Broken(cause) => (Some(&*cause.by), Some(&*cause.reason)),
        };
        let text = format!(
            "SELECT bramah_leave({}, {}, {}, {}, {})",
            quoted(claim.name.as_str()),
            uuid(claim.id.session),
            claim.id.seq,
            optional(by),
            optional(reason),
        );
        self.desk.call(text, patience).await.map(drop)
    }

    async fn renew(
        self: Arc<Self>,
        session: SessionId,
        claims: Vec<Arc<Claim>>,
        span: RangeInclusive<u64>,
        patience: Duration,
    ) -> Result<Vec<Renewed>> {
        let text = format!(
            "SELECT * FROM bramah_renew({}, {}, {}, {}, {}, {})",
            uuid(session),
            array(claims.iter().map(|claim| claim.id.seq)),
            array(claims.iter().map(|claim| millis(claim.ttl))),
            array(claims.iter().map(|claim| millis(claim.kept()))),
            span.start(),
            span.end(),
        );
        let rows = self.desk.keep(text, patience).await?;
        self.desk.read(&rows, |row| Reader(row).renewed())
    }

    async fn heads(self: Arc<Self>, names: Vec<Name>, patience: Duration) -> Result<Vec<Head>> {
        let text = format!(
            "SELECT n.name, replace(h.session::text, '-', ''), h.seq, h.until <= clock_timestamp() \
                    OR EXISTS (SELECT FROM bramah_claims d WHERE d.name = n.name AND d.held AND d.until <= clock_timestamp()) \
               FROM unnest(ARRAY[{}]::text[]) AS n (name) \
              CROSS JOIN LATERAL (SELECT * FROM bramah_claims c WHERE c.name = n.name AND NOT c.held ORDER BY c.ticket LIMIT 1) h",
            listed(&names)
        );
        let rows = self.desk.keep(text, patience).await?;
        self.desk.read(&rows, |row| Reader(row).head())
    }

    async fn nudge(self: Arc<Self>, name: Name, patience: Duration) -> Result<()> {
        let text = format!("SELECT bramah_nudge({})", quoted(name.as_str()));
        self.desk.call(text, patience).await.map(drop)
    }

    async fn wish(self: Arc<Self>, id: ClaimId, patience: Duration) -> Result<()> {
        let text = format!("SELECT bramah_wish({}, {})", uuid(id.session), id.seq);
        self.desk.call(text, patience).await.map(drop)
    }

    async fn wishes(self: Arc<Self>, session: SessionId, patience: Duration) -> Result<Vec<u64>> {
        let text = format!("SELECT seq FROM bramah_wishes WHERE session = {}", uuid(session));
        let rows = self.desk.keep(text, patience).await?;
        self.desk.read(&rows, |row| Reader(row).whole(0))
    }

    async fn close(self: Arc<Self>, session: SessionId, patience: Duration) -> Result<()> {
        if let Some(listener) = self.listener.get() {
            listener.leave(session);
        }
        self.desk.call(format!("SELECT bramah_close({})", uuid(session)), patience).await.map(drop)
    }

    async fn look(self: Arc<Self>, scope: Scope, patience: Duration) -> Result<(Vec<Seen>, Vec<Break>)> {
        let wanted = wanted(&scope);
        let ago = |column: &str| format!("(extract(epoch FROM clock_timestamp() - {column}) * 1000)::bigint");
        let text = format!(
            "SELECT replace(c.session::text, '-', ''), c.seq, c.name::text, c.capacity, c.weight, c.ttl, c.lease, c.note, c.held, \
                    coalesce(c.raised, c.ticket), {}, {}, -{}, s.about, {RENEWED} \
               FROM (SELECT * FROM bramah_claims WHERE {wanted} AND until > clock_timestamp()) c \
               LEFT JOIN bramah_sessions s USING (session) ORDER BY c.name, c.ticket",
            ago("c.entered"),
            ago("c.granted"),
            ago("c.until"),
        );
        let rows = self.desk.call(text, patience).await?;
        let seen = self.desk.read(&rows, |row| Reader(row).seen())?;
        let text = format!(
            "SELECT name::text, replace(session::text, '-', ''), seq, by, reason, {} FROM bramah_breaks WHERE {wanted}",
            ago("at")
        );
        let rows = self.desk.call(text, patience).await?;
        Ok((seen, self.desk.read(&rows, |row| Reader(row).broken())?))
    }
}

fn listed(names: &[Name]) -> String {
    names.iter().map(|name| quoted(name.as_str())).collect::<Vec<_>>().join(", ")
}

/// How long ago a claim was last renewed, ms: its expiry was set to the end of a time that it tells. A claim that waits is kept
/// briefly, and so is a grant that its process has not confirmed; a fixed lease that has begun is not renewed.
const RENEWED: &str = "(extract(epoch FROM clock_timestamp() - c.until) * 1000)::bigint + CASE \
    WHEN NOT c.held OR c.until = c.granted + c.kept * interval '1 ms' THEN c.kept WHEN c.lease IS NULL THEN c.ttl END";

/// The rows of a scope, by their names.
pub(crate) fn wanted(scope: &Scope) -> String {
    match scope {
        Scope::All => "true".to_owned(),
        Scope::Exact(name) => format!("name = {}", quoted(name.as_str())),
        // What is below begins with the name and a slash, and ends before the character after the slash.
        Scope::Under(name) => {
            let name = name.as_str();
            let (from, to) = (quoted(&format!("{name}/")), quoted(&format!("{name}0")));
            format!("(name = {} OR name >= {from} AND name < {to})", quoted(name))
        }
    }
}
