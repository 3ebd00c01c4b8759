//! Session mode: `pg_advisory_lock` and its family. What is done is in `sql/session.sql`.

use std::{sync::Arc, time::Duration};

use bramah_core::{
    Asking, Capacities, Claim, Error, ErrorKind, Exit, Fence, Fencing, Leasing, Liveness, Modes, Name, Order,
    Profile, Result, Scope, Seats, SessionId, Strays, Waking, line::WHOLE,
};
use bramah_relational::{
    Badge, Base, Break, Dialect, Manners, Meaning, Reader, Rolled, Seen, Taken, Terms, foreign, rows,
    whole_millis as millis,
};
use sqlx::{
    PgConnection, Row,
    error::DatabaseError,
    postgres::{PgConnectOptions, PgRow},
};

use crate::{
    base::{Database, MANNERS},
    error,
    keys::Key,
    text::{number, quoted, session as uuid},
};

/// The first version that ends connections which say nothing.
const OLDEST: i64 = 14_00_00;

/// When a connection began, as its badge has it.
const SINCE: &str = "(extract(epoch FROM backend_start) * 1000000)::bigint";

impl Database {
    /// The arguments of the functions that take a lock.
    fn claimed(claim: &Claim, key: Key) -> String {
        format!(
            "{}::smallint, {}, {}, {}, {}, {}, {}, {}, {}, {}",
            key.space,
            key.bits,
            quoted(claim.name.as_str()),
            uuid(claim.id.session),
            claim.id.seq,
            claim.capacity,
            claim.weight,
            millis(claim.ttl),
            number(claim.lease.map(millis)),
            quoted(&claim.note),
        )
    }
}

impl Dialect for Database {
    type Link = PgConnection;
    type Key = Key;

    const MANNERS: Manners = MANNERS;

    fn profile(&self) -> Profile {
        Profile {
            modes: Modes::Shared,
            capacity: Capacities::Claimed,
            order: Order::Fifo,
            fence: Fencing::Durable,
            liveness: Liveness::Session,
            wake: Waking::Pushed,
            seats: Seats::One,
            lease: Leasing::Kept,
            strays: Strays::Listed,
            asking: Asking::Never,
        }
    }

    fn options(&self) -> &PgConnectOptions {
        &self.config.options
    }

    fn terms(&self) -> &Terms {
        &self.config.terms
    }

    fn server(&self) -> &str {
        self.desk.server()
    }

    fn meaning(&self) -> Meaning {
        error::meaning
    }

    async fn ask(link: &mut PgConnection, text: String) -> sqlx::Result<Vec<PgRow>> {
        rows(link, text).await
    }

    async fn call(self: Arc<Self>, text: String, patience: Duration) -> Result<Vec<PgRow>> {
        self.desk.call(text, patience).await
    }

    fn misread(&self, error: &sqlx::Error) -> Error {
        self.desk.misread(error)
    }

    fn ttl(&self, wanted: Duration) -> Duration {
        wanted
    }

    fn key(&self, name: &Name) -> Result<Key> {
        self.config.keys.of(name)
    }

    async fn examine(self: Arc<Self>, patience: Duration) -> Result<()> {
        let text = "SELECT current_setting('server_version_num')::bigint, current_setting('server_version')";
        let rows = self.desk.call(text.to_owned(), patience).await?;
        let read =
            |row: &PgRow| -> Result<(i64, String), sqlx::Error> { Ok((row.try_get(0)?, row.try_get(1)?)) };
        let (version, shown) = self.desk.read_first(&rows, read)?;
        if version < OLDEST {
            let text = format!(
                "{} is PostgreSQL {shown}, and mode=session needs 14 or newer, which ends connections that say nothing; use mode=table",
                self.desk.server()
            );
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        Base::examine(self, patience).await
    }

    fn is_cancelled(error: &dyn DatabaseError) -> bool {
        error::is_cancelled(error)
    }

    fn who(&self) -> String {
        format!("SELECT pid::bigint, {SINCE} FROM pg_stat_activity WHERE pid = pg_backend_pid()")
    }

    fn greeting(&self, ttl: Duration) -> String {
        // The server ends what has been silent for the ttl. A host that has died says nothing either, but one that waits is not
        // taken for silent: that its end of the line is dead is found out by the system, or by looking.
        let seconds = ttl.as_secs().div_ceil(3).max(1);
        format!(
            "SET idle_session_timeout = {0}; SET tcp_keepalives_idle = {seconds}; SET tcp_keepalives_interval = {seconds}; \
             SET tcp_keepalives_count = 3; SET tcp_user_timeout = {0}; SET client_connection_check_interval = 1000; \
             SET lock_timeout = 0; SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0; \
             SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED; \
             SELECT pid::bigint, set_config('bramah.since', {SINCE}::text, false)::bigint FROM pg_stat_activity \
              WHERE pid = pg_backend_pid()",
            // The server counts in an int of milliseconds.
            millis(ttl).min(u64::from(u32::MAX >> 1)),
        )
    }

    fn open(&self, session: SessionId, about: &str) -> String {
        format!("SELECT bramah_open({}, {}), bramah_tidy()", uuid(session), quoted(about))
    }

    fn close(&self, session: SessionId) -> String {
        format!("SELECT bramah_close({})", uuid(session))
    }

    fn take(&self, claim: &Claim, key: &Key) -> String {
        format!("SELECT * FROM bramah_take({})", Self::claimed(claim, *key))
    }

    fn line_up(&self, claim: &Claim, key: &Key) -> String {
        format!("SELECT bramah_line_up({})", Self::claimed(claim, *key))
    }

    fn wait(&self, claim: &Claim, key: &Key) -> String {
        let shared = if claim.is_exclusive() { "" } else { "_shared" };
        format!(
            "SELECT pg_advisory_lock{shared}({})::text; SELECT * FROM bramah_took({})",
            key.arguments(),
            Self::claimed(claim, *key)
        )
    }

    fn leave(&self, claim: &Claim, key: &Key) -> String {
        format!(
            "SELECT bramah_let_go({}::smallint, {}, {}, {}, {})",
            key.space,
            key.bits,
            !claim.is_exclusive(),
            uuid(claim.id.session),
            claim.id.seq
        )
    }

    fn tend(&self, claim: &Claim, key: &Key) -> String {
        format!(
            "SELECT * FROM bramah_tend({}::smallint, {}, {}, {}, {}, {})",
            key.space,
            key.bits,
            uuid(claim.id.session),
            claim.id.seq,
            quoted(&claim.note),
            number(claim.floor.map(Fence::get)),
        )
    }

    fn clean(&self) -> String {
        "DELETE FROM bramah_places WHERE pid = pg_backend_pid(); SELECT pg_advisory_unlock_all()::text"
            .to_owned()
    }

    fn roll(&self, session: SessionId) -> String {
        format!(
            "SELECT p.seq, p.pid::bigint, coalesce(a.granted, false), p.broken \
               FROM bramah_places p LEFT JOIN bramah_advisory a USING (pid, space, key) WHERE p.session = {} \
             UNION ALL SELECT NULL, pg_backend_pid(), false, false",
            uuid(session)
        )
    }

    fn cancel(&self, badge: Badge) -> String {
        format!("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE {}", is(badge))
    }

    fn end(&self, badge: Badge) -> String {
        format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {}", is(badge))
    }

    fn evict(&self, claim: &Claim, exit: &Exit) -> String {
        let (by, reason) = match exit {
            Exit::Own => ("", ""),
            Exit::Broken(cause) => (&*cause.by, &*cause.reason),
        };
        format!(
            "SELECT bramah_evict({}, {}, {}, {}, {})",
            quoted(claim.name.as_str()),
            uuid(claim.id.session),
            claim.id.seq,
            quoted(by),
            quoted(reason)
        )
    }

    fn find(&self, claim: &Claim) -> String {
        match foreign::badge(claim.id) {
            Some(badge) => format!(
                "SELECT pid::bigint, {SINCE}, bool_or(a.granted) FROM pg_stat_activity JOIN bramah_advisory a USING (pid) \
                   JOIN bramah_keys k USING (space, key) WHERE {} AND k.name = {} GROUP BY pid, backend_start",
                is(badge),
                quoted(claim.name.as_str())
            ),
            None => format!(
                "SELECT p.pid::bigint, p.since, a.granted FROM bramah_places p JOIN bramah_advisory a USING (pid, space, key) \
                  WHERE p.session = {} AND p.seq = {} AND p.name = {}",
                uuid(claim.id.session),
                claim.id.seq,
                quoted(claim.name.as_str())
            ),
        }
    }

    fn look(&self, scope: &Scope) -> (String, String) {
        let wanted = crate::base::wanted(scope);
        let ago = |column: &str| format!("(extract(epoch FROM clock_timestamp() - {column}) * 1000)::bigint");
        // What is ours, and what is another program's on a key that has a name.
        let places = format!(
            "SELECT replace(p.session::text, '-', ''), p.seq, p.name::text, p.capacity, p.weight, p.ttl, p.lease, p.note, \
                    a.granted, coalesce(p.fence, 0), {0}, {1}, NULL::bigint, s.about, NULL::bigint \
               FROM (SELECT * FROM bramah_places WHERE {wanted}) p JOIN bramah_advisory a USING (pid, space, key) \
               LEFT JOIN bramah_sessions s USING (session) \
             UNION ALL \
             SELECT '{2:016x}' || lpad(to_hex(coalesce({SINCE}, 0)), 16, '0'), a.pid, k.name::text, c.capacity, \
                    CASE WHEN a.shared THEN 1 ELSE c.capacity END, 0, NULL, \
                    'not bramah: ' || coalesce(nullif(t.application_name, ''), 'a program') || ', pid ' || a.pid, \
                    a.granted, 0, {3}, NULL, NULL, NULL, NULL \
               FROM (SELECT * FROM bramah_keys WHERE {wanted}) k JOIN bramah_advisory a USING (space, key) \
               LEFT JOIN pg_stat_activity t USING (pid) \
              CROSS JOIN LATERAL (SELECT coalesce( \
                    (SELECT o.capacity FROM bramah_places o WHERE o.space = a.space AND o.key = a.key LIMIT 1), \
                    CASE WHEN a.shared THEN {WHOLE} ELSE 1 END) AS capacity) c \
              WHERE NOT EXISTS (SELECT FROM bramah_places p WHERE p.pid = a.pid AND p.space = a.space AND p.key = a.key) \
              ORDER BY 3, 9 DESC, 11 DESC NULLS LAST",
            ago("p.entered"),
            ago("p.granted"),
            foreign::MARK,
            ago("a.waitstart"),
        );
        let breaks = format!(
            "SELECT name::text, replace(session::text, '-', ''), seq, by, reason, {} FROM bramah_breaks WHERE {wanted}",
            ago("at")
        );
        (places, breaks)
    }

    fn read_badge(row: &PgRow) -> Result<Badge, sqlx::Error> {
        Ok(Badge { number: row.try_get(0)?, since: row.try_get(1)? })
    }

    fn read_taken(row: &PgRow) -> Result<Taken, sqlx::Error> {
        let state: String = row.try_get(0)?;
        Taken::read(&state, row.try_get(1)?, row.try_get(2)?)
    }

    fn read_ahead(row: &PgRow) -> Result<u32, sqlx::Error> {
        Ok(u32::try_from(Reader(row).whole(0)?).unwrap_or(u32::MAX))
    }

    fn read_rolled(row: &PgRow) -> Result<Rolled, sqlx::Error> {
        let seq: Option<i64> = row.try_get(0)?;
        Ok(Rolled {
            seq: seq.map(i64::cast_unsigned),
            number: row.try_get(1)?,
            held: row.try_get(2)?,
            broken: row.try_get(3)?,
        })
    }

    fn read_found(row: &PgRow) -> Result<(Badge, bool), sqlx::Error> {
        Ok((Self::read_badge(row)?, row.try_get(2)?))
    }

    fn read_seen(row: &PgRow) -> Result<Seen, sqlx::Error> {
        Reader(row).seen()
    }

    fn read_break(row: &PgRow) -> Result<Break, sqlx::Error> {
        Reader(row).broken()
    }
}

/// Which connection it is.
fn is(badge: Badge) -> String {
    format!("pid = {} AND {SINCE} = {}", badge.number, badge.since)
}
