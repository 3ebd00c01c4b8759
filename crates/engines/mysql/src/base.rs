//! The calls to the database.

use std::{fmt, ops::RangeInclusive, sync::Arc, time::Duration};

use bramah_core::{
    Asking, Capacities, Claim, ClaimId, Error, ErrorKind, Exit, Fence, Fencing, Leasing, Liveness, Modes,
    Name, Opening, Order, Profile, Result, Scope, Seats, SessionId, Strays, Wait, Waking,
};
use bramah_relational::{
    Answer, Base, Break, Desk, Footing, Head, Manners, Mode, Reader, Renewed, Seen, Wakes,
    whole_millis as millis,
};
use sqlx::{MySqlConnection, Row, mysql::MySqlRow};

use crate::{
    config::Config,
    error,
    init::VERSION,
    session,
    state::State,
    text::{bytes, number, optional, quoted, session as id, table},
};

/// A connection begins with what users and servers may have set otherwise: what would begin a transaction after ours, end the
/// connection or the statement, cut answers short, or refuse a write or a join. Procedures keep the sql_mode that they were made with. A
/// call that waits for a row for longer than this has nobody who waits for it any more. `DEFAULT` would be the server's.
pub(crate) const MANNERS: Manners = Manners {
    greeting: &[
        "SET autocommit = 1, completion_type = 0, sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', \
                 sql_select_limit = 18446744073709551615, sql_big_selects = 1, sql_safe_updates = 0, unique_checks = 1, \
                 innodb_lock_wait_timeout = 2 \
                 /*!50700 , SESSION max_execution_time = 0 *//*M! , SESSION max_statement_time = 0 */, NAMES utf8mb4; \
                 SET SESSION TRANSACTION READ WRITE",
    ],
    prelude: None,
    is_farewell: error::is_farewell,
    is_undone: error::is_undone,
};

/// The time there; see the schema.
pub(crate) const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))";

/// How many lines one statement is about that has a part for each of them.
const HEADS: usize = 100;

/// A database, over connections to it.
pub(crate) struct Database {
    pub(crate) desk: Desk<MySqlConnection>,
    pub(crate) config: Config,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Connections have the password.
        f.debug_struct("MySql").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Database {
    pub(crate) fn new(config: &Config) -> Self {
        let server = format!("mysql at {}", config.address());
        let manners = match config.terms.mode {
            Mode::Table => MANNERS,
            Mode::Session => session::BESIDE,
        };
        let desk = Desk::new(server, &config.options, &config.terms, manners, error::meaning);
        Self { desk, config: config.clone() }
    }

    /// What the server's settings say.
    pub(crate) fn state(&self, rows: Vec<MySqlRow>) -> Result<State> {
        let settings = self.desk.read(&rows, |row| Ok((row.try_get(0)?, row.try_get(1)?)))?;
        Ok(State::read(&settings))
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
            wake: Waking::Polled,
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
        let state = self.state(self.desk.call(State::QUESTION.to_owned(), patience).await?)?;
        state.check(self.desk.server(), self.config.single_writer)?;
        let text = "SELECT (SELECT COALESCE(MAX(version), 0) FROM bramah_schema), \
                           (SELECT COUNT(*) FROM information_schema.tables \
                             WHERE table_schema = DATABASE() AND engine <> 'InnoDB' \
                               AND table_name IN ('bramah_claims', 'bramah_stripes', 'bramah_floors', 'bramah_keys'))";
        let rows = self.desk.call(text.to_owned(), patience).await?;
        let read =
            |row: &MySqlRow| -> Result<(i64, i64), sqlx::Error> { Ok((row.try_get(0)?, row.try_get(1)?)) };
        let (version, others) = self.desk.read_first(&rows, read)?;
        if version != VERSION {
            return Err(self.other_version(version));
        }
        if others > 0 {
            let text = format!(
                "{}: tables of bramah's are not in InnoDB, and others have no transactions; ALTER TABLE ... ENGINE=InnoDB",
                self.desk.server()
            );
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        self.check_complete(patience).await
    }

    async fn open(
        self: Arc<Self>,
        opening: Arc<Opening>,
        _wakes: Arc<Wakes>,
        patience: Duration,
    ) -> Result<()> {
        let text = format!("CALL bramah_open({}, {})", id(opening.session), quoted(&opening.about.encode()));
        self.desk.call(text, patience).await?;
        if let Err(error) = self.desk.call("CALL bramah_sweep()".to_owned(), patience).await {
            tracing::debug!(%error, "lines of the dead were not swept");
        }
        // The connection that renews is there before it is needed.
        self.desk.keep("SELECT 1".to_owned(), patience).await.map(drop)
    }

    fn footing(&self, _session: SessionId) -> Footing {
        Footing::Untold
    }

    async fn enter(self: Arc<Self>, claim: Arc<Claim>, patience: Duration) -> Result<Answer> {
        let wait = match claim.wait {
            Wait::No => "n",
            Wait::Watch => "w",
            Wait::Line => "l",
        };
        let text = format!(
            "CALL bramah_enter({}, {}, {}, {}, {}, {}, {}, {}, {}, '{wait}')",
            bytes(claim.name.as_str()),
            id(claim.id.session),
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
            "CALL bramah_ask({}, {}, {}, {}, {}, {}, {})",
            bytes(claim.name.as_str()),
            id(claim.id.session),
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
            "SELECT LOWER(HEX(session)), seq, COALESCE(raised, ticket) FROM bramah_claims FORCE INDEX (bramah_claims_line) \
              WHERE name IN ({}) AND held = 1 AND expires > {NOW}",
            names.iter().map(|name| bytes(name.as_str())).collect::<Vec<_>>().join(", "),
        );
        // Everybody who waits would wait for it behind those who call.
        let rows = self.desk.keep(text, patience).await?;
        self.desk.read(&rows, |row| Reader(row).granted())
    }

    async fn leave(self: Arc<Self>, claim: Arc<Claim>, exit: Exit, patience: Duration) -> Result<()> {
        let (by, reason) = match &exit {
            Exit::Own => (None, None),
            Exit::Broken(cause) => (Some(&*cause.by), Some(&*cause.reason)),
        };
        let text = format!(
            "CALL bramah_leave({}, {}, {}, {}, {})",
            bytes(claim.name.as_str()),
            id(claim.id.session),
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
        let claims = claims.iter().map(|claim| [claim.id.seq, millis(claim.ttl), millis(claim.kept())]);
        let text = format!(
            "CALL bramah_renew({}, {}, {}, {})",
            id(session),
            table(claims),
            span.start(),
            span.end()
        );
        let rows = self.desk.keep(text, patience).await?;
        self.desk.read(&rows, |row| Reader(row).renewed())
    }

    async fn heads(self: Arc<Self>, names: Vec<Name>, patience: Duration) -> Result<Vec<Head>> {
        let head = |name: &Name| {
            let name = bytes(name.as_str());
            format!(
                "(SELECT CONVERT(name USING utf8mb4), LOWER(HEX(session)), seq, expires <= {NOW} OR EXISTS ( \
                    SELECT 1 FROM bramah_claims FORCE INDEX (bramah_claims_line) \
                     WHERE name = {name} AND held = 1 AND expires <= {NOW}) AS stuck \
                  FROM bramah_claims FORCE INDEX (bramah_claims_line) WHERE name = {name} AND held = 0 ORDER BY ticket LIMIT 1)"
            )
        };
        let mut heads = Vec::new();
        for names in names.chunks(HEADS) {
            let text = names.iter().map(head).collect::<Vec<_>>().join(" UNION ALL ");
            let rows = self.desk.keep(text, patience).await?;
            heads.extend(self.desk.read(&rows, |row| Reader(row).head())?);
        }
        Ok(heads)
    }

    async fn nudge(self: Arc<Self>, name: Name, patience: Duration) -> Result<()> {
        let text = format!("CALL bramah_nudge({})", bytes(name.as_str()));
        self.desk.call(text, patience).await.map(drop)
    }

    async fn wish(self: Arc<Self>, claim: ClaimId, patience: Duration) -> Result<()> {
        let text = format!("CALL bramah_wish({}, {})", id(claim.session), claim.seq);
        self.desk.call(text, patience).await.map(drop)
    }

    async fn wishes(self: Arc<Self>, session: SessionId, patience: Duration) -> Result<Vec<u64>> {
        let text = format!("SELECT seq FROM bramah_wishes WHERE session = {}", id(session));
        let rows = self.desk.keep(text, patience).await?;
        self.desk.read(&rows, |row| Reader(row).whole(0))
    }

    async fn close(self: Arc<Self>, session: SessionId, patience: Duration) -> Result<()> {
        self.desk.call(format!("CALL bramah_close({})", id(session)), patience).await.map(drop)
    }

    async fn look(self: Arc<Self>, scope: Scope, patience: Duration) -> Result<(Vec<Seen>, Vec<Break>)> {
        let wanted = wanted(&scope);
        // A claim that waits is kept briefly, and so is a grant that its process has not confirmed; a fixed lease that has begun
        // is not renewed. From what it is kept for and from its expiry follows when it was renewed.
        let text = format!(
            "SELECT LOWER(HEX(c.session)), c.seq, CONVERT(c.name USING utf8mb4), c.capacity, c.weight, c.ttl, c.lease, c.note, \
                    c.held, COALESCE(c.raised, c.ticket), ({NOW} - c.entered) DIV 1000, \
                    ({NOW} - c.granted) DIV 1000, (c.expires - {NOW}) DIV 1000, s.about, \
                    ({NOW} - c.expires) DIV 1000 + CASE WHEN NOT c.held OR c.expires = c.granted + c.kept * 1000 THEN c.kept \
                      WHEN c.lease IS NULL THEN c.ttl END \
               FROM bramah_claims c LEFT JOIN bramah_sessions s ON s.session = c.session \
              WHERE {wanted} AND c.expires > {NOW} ORDER BY c.name, c.ticket"
        );
        let rows = self.desk.call(text, patience).await?;
        let seen = self.desk.read(&rows, |row| Reader(row).seen())?;
        let text = format!(
            "SELECT CONVERT(name USING utf8mb4), LOWER(HEX(session)), seq, ended_by, reason, ({NOW} - ended) DIV 1000 \
               FROM bramah_breaks WHERE {wanted}"
        );
        let rows = self.desk.call(text, patience).await?;
        Ok((seen, self.desk.read(&rows, |row| Reader(row).broken())?))
    }
}

/// Which names, as a condition.
pub(crate) fn wanted(scope: &Scope) -> String {
    match scope {
        Scope::All => "TRUE".to_owned(),
        Scope::Exact(name) => format!("name = {}", bytes(name.as_str())),
        // What is below begins with the name and a slash, and ends before the character after the slash.
        Scope::Under(name) => {
            let name = name.as_str();
            let (from, to) = (bytes(&format!("{name}/")), bytes(&format!("{name}0")));
            format!("(name = {} OR name >= {from} AND name < {to})", bytes(name))
        }
    }
}
