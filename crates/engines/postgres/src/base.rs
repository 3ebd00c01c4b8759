//! The calls to the database.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use bramah_core::{
    Capacities, Claim, ClaimId, Error, ErrorKind, Exit, Fence, Fencing, Leasing, Liveness, Modes, Name,
    Opening, Order, Profile, Result, Scope, Seats, SessionId, Strays, Wait, Waking,
};
use bramah_relational::{Answer, Base, Break, Footing, Found, Office, Pool, Renewed, Seen, Wakes};
use sqlx::{
    PgConnection, Row,
    postgres::{PgConnectOptions, PgRow},
};

use crate::{
    config::Config,
    error,
    init::VERSION,
    listener::{self, Listener},
    text::{array, number, optional, quoted, session as uuid},
};

/// What a connection begins with. The tables' functions need it, and a user's default may be another.
const GREETING: &[&str] = &["SET default_transaction_isolation TO 'read committed'"];

/// How often a call is repeated that the server undid for the sake of another.
const TRIES: usize = 5;

/// How many connections renew, at the most: one for each session of the process that has to at the same moment.
const KEEPERS: usize = 4;

/// A database, over connections to it.
#[derive(Debug)]
pub(crate) struct Database {
    address: String,
    timeout: Duration,
    calls: Arc<Pool<PgConnection>>,
    /// Renewals have connections that no call can take.
    keep: Arc<Pool<PgConnection>>,
    /// With which the listener connects, if there is to be one.
    ear: Option<PgConnectOptions>,
    office: Office,
    listener: OnceLock<Listener>,
}

impl Database {
    pub(crate) fn new(config: &Config, office: Office) -> Self {
        let terms = &config.terms;
        let pool = |size| {
            Arc::new(Pool::new(
                config.options.clone(),
                size,
                terms.pool_idle,
                terms.connect_timeout,
                GREETING,
            ))
        };
        Self {
            address: config.address(),
            timeout: terms.timeout,
            calls: pool(terms.pool),
            keep: pool(KEEPERS),
            ear: config.listen.then(|| config.options.clone()),
            office,
            listener: OnceLock::new(),
        }
    }

    pub(crate) async fn query(&self, text: String, patience: Duration) -> Result<Vec<PgRow>> {
        self.over(&self.calls, text, patience).await
    }

    async fn over(
        &self,
        pool: &Arc<Pool<PgConnection>>,
        text: String,
        patience: Duration,
    ) -> Result<Vec<PgRow>> {
        let mut tries = 0;
        loop {
            tries += 1;
            match pool.query(text.clone(), patience).await {
                Err(trouble) if error::is_undone(&trouble) && tries < TRIES => {}
                answer => return answer.map_err(|trouble| error::of(trouble, &self.address)),
            }
        }
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Whether what is said by NOTIFY reaches us, found out anew.
    pub(crate) async fn is_heard(&self) -> bool {
        match &self.ear {
            Some(options) => listener::hears(options, &self.calls).await,
            None => false,
        }
    }

    pub(crate) fn misread(&self, error: &sqlx::Error) -> Error {
        let text = format!(
            "postgres at {}: an answer is not understood ({error}); are its functions of another version? run bramah init",
            self.address
        );
        Error::new(ErrorKind::Corrupt, text)
    }

    async fn standing(&self, claim: &Claim, text: String, patience: Duration) -> Result<Answer> {
        let rows = self.query(text, patience).await?;
        let read = |row: &PgRow| -> Result<_, sqlx::Error> {
            let state: String = row.try_get(0)?;
            Ok((state, row.try_get(1)?, row.try_get(2)?, row.try_get(3)?, row.try_get(4)?))
        };
        let row = rows.first().ok_or_else(|| self.misread(&sqlx::Error::RowNotFound))?;
        let (state, fence, left, ahead, sleep) = read(row).map_err(|error| self.misread(&error))?;
        Answer::read(claim, &state, fence, left, ahead, sleep)
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
            wake: if self.ear.is_some() { Waking::Pushed } else { Waking::Polled },
            seats: Seats::Many,
            lease: Leasing::Stored,
            strays: Strays::Listed,
        }
    }

    fn timeout(&self) -> Duration {
        self.timeout
    }

    async fn examine(self: Arc<Self>, patience: Duration) -> Result<()> {
        let text = "SELECT pg_is_in_recovery() OR current_setting('transaction_read_only')::boolean, \
                    coalesce((SELECT max(version) FROM bramah_schema), 0)::bigint";
        let rows = self.query(text.to_owned(), patience).await?;
        let row = rows.first().ok_or_else(|| self.misread(&sqlx::Error::RowNotFound))?;
        let read =
            |row: &PgRow| -> Result<(bool, i64), sqlx::Error> { Ok((row.try_get(0)?, row.try_get(1)?)) };
        let (read_only, version) = read(row).map_err(|error| self.misread(&error))?;
        if read_only {
            let text = format!(
                "postgres at {} takes no writes: it is a standby, or read-only by its settings; point the url at the primary",
                self.address
            );
            return Err(Error::new(ErrorKind::Unavailable, text));
        }
        if version != VERSION {
            let next = if version > VERSION { "use a newer bramah" } else { "run bramah init" };
            let text = format!(
                "postgres at {}: bramah's tables have version {version}, this build speaks {VERSION}; {next}",
                self.address
            );
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        Ok(())
    }

    async fn open(
        self: Arc<Self>,
        opening: Arc<Opening>,
        wakes: Arc<Wakes>,
        patience: Duration,
    ) -> Result<()> {
        let about = quoted(&opening.about.encode());
        self.query(format!("SELECT bramah_open({}, {about})", uuid(opening.session)), patience).await?;
        self.query("SELECT bramah_sweep()".to_owned(), patience).await?;
        // The connection that renews is there before it is needed.
        self.over(&self.keep, "SELECT 1".to_owned(), patience).await?;
        if let Some(options) = &self.ear {
            let listener = self
                .listener
                .get_or_init(|| Listener::start(&self.office, options.clone(), self.calls.clone(), wakes));
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

    async fn granted(
        self: Arc<Self>,
        waiting: Vec<ClaimId>,
        patience: Duration,
    ) -> Result<Vec<(ClaimId, Fence)>> {
        let mut sessions: Vec<SessionId> = waiting.iter().map(|id| id.session).collect();
        sessions.sort_unstable();
        sessions.dedup();
        let mut granted = Vec::new();
        for session in sessions {
            let seqs = waiting.iter().filter(|id| id.session == session).map(|id| id.seq);
            let text = format!(
                "SELECT seq, coalesce(raised, ticket) FROM bramah_claims \
                  WHERE session = {} AND seq = ANY ({}::bigint[]) AND held AND until > clock_timestamp()",
                uuid(session),
                array(seqs)
            );
            for row in self.query(text, patience).await? {
                let read = || -> Result<_, sqlx::Error> { Ok((whole(&row, 0)?, whole(&row, 1)?)) };
                let (seq, fence) = read().map_err(|error| self.misread(&error))?;
                granted.push((ClaimId { session, seq }, Fence::new(fence)));
            }
        }
        Ok(granted)
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
        self.query(text, patience).await.map(drop)
    }

    async fn renew(
        self: Arc<Self>,
        session: SessionId,
        claims: Vec<Arc<Claim>>,
        patience: Duration,
    ) -> Result<Vec<Renewed>> {
        let text = format!(
            "SELECT * FROM bramah_renew({}, {}, {}, {})",
            uuid(session),
            array(claims.iter().map(|claim| claim.id.seq)),
            array(claims.iter().map(|claim| millis(claim.ttl))),
            array(claims.iter().map(|claim| millis(claim.kept()))),
        );
        let rows = self.over(&self.keep, text, patience).await?;
        rows.iter().map(renewed).collect::<Result<_, _>>().map_err(|error| self.misread(&error))
    }

    async fn nudge(self: Arc<Self>, names: Vec<Name>, patience: Duration) -> Result<()> {
        let listed: Vec<String> = names.iter().map(|name| quoted(name.as_str())).collect();
        let text = format!(
            "SELECT DISTINCT name FROM bramah_claims WHERE name IN ({}) AND until <= clock_timestamp()",
            listed.join(", ")
        );
        for row in self.over(&self.keep, text, patience).await? {
            let name: String = row.try_get(0).map_err(|error| self.misread(&error))?;
            self.over(&self.keep, format!("SELECT bramah_nudge({})", quoted(&name)), patience).await?;
        }
        Ok(())
    }

    async fn close(self: Arc<Self>, session: SessionId, patience: Duration) -> Result<()> {
        if let Some(listener) = self.listener.get() {
            listener.leave(session);
        }
        let text = format!("DELETE FROM bramah_sessions WHERE session = {}", uuid(session));
        self.query(text, patience).await.map(drop)
    }

    async fn look(self: Arc<Self>, scope: Scope, patience: Duration) -> Result<(Vec<Seen>, Vec<Break>)> {
        let wanted = match &scope {
            Scope::All => "true".to_owned(),
            Scope::Exact(name) => format!("name = {}", quoted(name.as_str())),
            // What is below begins with the name and a slash, and ends before the character after the slash.
            Scope::Under(name) => {
                let name = name.as_str();
                let (from, to) = (quoted(&format!("{name}/")), quoted(&format!("{name}0")));
                format!("(name = {} OR name >= {from} AND name < {to})", quoted(name))
            }
        };
        let ago = |column: &str| format!("(extract(epoch FROM clock_timestamp() - {column}) * 1000)::bigint");
        let text = format!(
            "SELECT replace(c.session::text, '-', ''), c.seq, c.name::text, c.capacity, c.weight, c.ttl, c.lease, c.note, c.held, \
                    coalesce(c.raised, c.ticket), {}, coalesce({}, 0), -{}, s.about \
               FROM (SELECT * FROM bramah_claims WHERE {wanted} AND until > clock_timestamp()) c \
               LEFT JOIN bramah_sessions s USING (session) ORDER BY c.name, c.ticket",
            ago("c.entered"),
            ago("c.granted"),
            ago("c.until"),
        );
        let rows = self.query(text, patience).await?;
        let seen = rows.iter().map(seen).collect::<Result<_, _>>().map_err(|error| self.misread(&error))?;
        let text = format!(
            "SELECT name::text, replace(session::text, '-', ''), seq, by, reason, {} FROM bramah_breaks WHERE {wanted}",
            ago("at")
        );
        let rows = self.query(text, patience).await?;
        let breaks =
            rows.iter().map(broken).collect::<Result<_, _>>().map_err(|error| self.misread(&error))?;
        Ok((seen, breaks))
    }
}

fn millis(span: Duration) -> u64 {
    // Rounded up: nothing is kept for less than was promised.
    u64::try_from(span.as_nanos().div_ceil(1_000_000))
        .map_or(u64::MAX >> 16, |millis| millis.min(u64::MAX >> 16))
}

fn whole(row: &PgRow, at: usize) -> Result<u64, sqlx::Error> {
    let number: i64 = row.try_get(at)?;
    u64::try_from(number).map_err(|error| sqlx::Error::Decode(error.into()))
}

fn owner(row: &PgRow, at: usize) -> Result<SessionId, sqlx::Error> {
    let text: String = row.try_get(at)?;
    text.parse().map_err(|error: Error| sqlx::Error::Decode(error.into()))
}

fn found(row: &PgRow, from: usize) -> Result<Found, sqlx::Error> {
    Ok(Found {
        name: row.try_get(from)?,
        capacity: row.try_get(from + 1)?,
        weight: row.try_get(from + 2)?,
        ttl: row.try_get(from + 3)?,
        lease: row.try_get(from + 4)?,
        note: row.try_get(from + 5)?,
    })
}

fn renewed(row: &PgRow) -> Result<Renewed, sqlx::Error> {
    let asked: bool = row.try_get(2)?;
    let stray = if asked { None } else { Some(found(row, 3)?) };
    Ok(Renewed { seq: whole(row, 0)?, held: row.try_get(1)?, stray })
}

fn seen(row: &PgRow) -> Result<Seen, sqlx::Error> {
    Ok(Seen {
        session: owner(row, 0)?,
        seq: whole(row, 1)?,
        found: found(row, 2)?,
        held: row.try_get(8)?,
        fence: row.try_get(9)?,
        age: row.try_get(10)?,
        since: row.try_get(11)?,
        left: row.try_get(12)?,
        about: row.try_get(13)?,
    })
}

fn broken(row: &PgRow) -> Result<Break, sqlx::Error> {
    Ok(Break {
        name: row.try_get(0)?,
        session: owner(row, 1)?,
        seq: whole(row, 2)?,
        by: row.try_get(3)?,
        reason: row.try_get(4)?,
        ago: row.try_get(5)?,
    })
}
