//! Session mode: `GET_LOCK` and its family. What is done is in `sql/session.sql`.

use std::{sync::Arc, time::Duration};

use bramah_core::{
    Asking, Capacities, Claim, Error, Exit, Fence, Fencing, Leasing, Liveness, Modes, Name, Order, Profile,
    Result, Scope, Seats, SessionId, Strays, Waking,
};
use bramah_relational::{
    Badge, Base, Break, Dialect, Manners, Meaning, Reader, Rolled, Seen, Taken, Terms, foreign, rows,
    whole_millis as millis,
};
use sqlx::{
    MySqlConnection, Row,
    error::DatabaseError,
    mysql::{MySqlConnectOptions, MySqlRow},
};

use crate::{
    base::{Database, MANNERS, NOW, wanted},
    error,
    state::State,
    text::{bytes, number, quoted, session as id},
};

/// A connection begins with finding out when the server was started, in its seconds: both numbers are counted from the same moment, so
/// that it stays the same when its clock is set. MySQL and MariaDB have it in different places, and each reads its own.
pub(crate) const BOOT: &str = "SET @bramah_boot = (SELECT COALESCE(CAST(UNIX_TIMESTAMP() - MAX(variable_value) AS SIGNED), 0) FROM \
    /*!50700 performance_schema.*/ /*M! information_schema.*/ global_status WHERE variable_name = 'Uptime')";

/// How connections begin that have no locks, in session mode.
pub(crate) const BESIDE: Manners = Manners { greeting: &[MANNERS.greeting[0], BOOT], ..MANNERS };

/// What connections do, likewise. MySQL's `information_schema.processlist` is an error while anybody's statement has a character of
/// four bytes in it.
const CONNECTIONS: &str = "/*!50700 performance_schema.*/ /*M! information_schema.*/ processlist";

/// A year, in seconds: as long as a server waits. MariaDB knows no way to wait for ever.
const LONGEST: u64 = 31_536_000;

/// Which rows a subquery has: all of them, and it is answered before it is looked at. Merged into what is around it, who has a
/// lock would be asked twice, and answered differently.
const ALL: &str = "LIMIT 9223372036854775807";

impl Database {
    /// The arguments of the procedures that take a lock.
    fn claimed(claim: &Claim, key: &str) -> String {
        format!(
            "{key}, {}, {}, {}, {}, {}, {}, {}, {}",
            bytes(claim.name.as_str()),
            id(claim.id.session),
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
    type Link = MySqlConnection;
    type Key = String;

    /// A statement that was ended by our own wish has left no transaction that the next one does not end.
    const MANNERS: Manners =
        Manners { is_farewell: |error| error::is_farewell(error) && !Self::is_cancelled(error), ..MANNERS };

    fn profile(&self) -> Profile {
        Profile {
            modes: Modes::Exclusive,
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

    fn options(&self) -> &MySqlConnectOptions {
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

    async fn ask(link: &mut MySqlConnection, text: String) -> sqlx::Result<Vec<MySqlRow>> {
        rows(link, text).await
    }

    async fn call(self: Arc<Self>, text: String, patience: Duration) -> Result<Vec<MySqlRow>> {
        self.desk.call(text, patience).await
    }

    fn misread(&self, error: &sqlx::Error) -> Error {
        self.desk.misread(error)
    }

    fn ttl(&self, wanted: Duration) -> Duration {
        // The server counts whole seconds.
        Duration::from_secs(
            u64::try_from(wanted.as_millis().div_ceil(1000)).map_or(LONGEST, |s| s.clamp(1, LONGEST)),
        )
    }

    fn key(&self, name: &Name) -> Result<String> {
        self.config.keys.of(name)
    }

    async fn examine(self: Arc<Self>, patience: Duration) -> Result<()> {
        let state = self.state(self.desk.call(State::QUESTION.to_owned(), patience).await?)?;
        state.check_session(self.desk.server())?;
        Base::examine(self, patience).await
    }

    fn is_cancelled(error: &dyn DatabaseError) -> bool {
        error::is_cancelled(error)
    }

    fn who(&self) -> String {
        "SELECT CAST(CONNECTION_ID() AS SIGNED), CAST(COALESCE(@bramah_boot, 0) AS SIGNED)".to_owned()
    }

    fn greeting(&self, ttl: Duration) -> String {
        // The server ends what has been silent for the ttl, but a connection that waits is not taken for silent. Whoever waits and
        // dies has the lock for a ttl when its turn comes, if the server has not found the connection closed before.
        format!(
            "{}; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
             SET SESSION wait_timeout = {1}, SESSION interactive_timeout = {1}, SESSION lock_wait_timeout = {LONGEST}; \
             {BOOT}; {2}",
            MANNERS.greeting.join("; "),
            ttl.as_secs(),
            self.who()
        )
    }

    fn open(&self, session: SessionId, about: &str) -> String {
        // One that was killed has left its transaction open.
        format!("ROLLBACK; CALL bramah_open({}, {}); CALL bramah_tidy()", id(session), quoted(about))
    }

    fn close(&self, session: SessionId) -> String {
        format!("CALL bramah_close({})", id(session))
    }

    fn take(&self, claim: &Claim, key: &String) -> String {
        format!("CALL bramah_take({})", Self::claimed(claim, key))
    }

    fn line_up(&self, claim: &Claim, key: &String) -> String {
        format!("CALL bramah_line_up({})", Self::claimed(claim, key))
    }

    fn wait(&self, claim: &Claim, key: &String) -> String {
        // Not in a procedure: a call of one keeps others from replacing it, however long it waits.
        format!("DO GET_LOCK({key}, {LONGEST}); CALL bramah_took({})", Self::claimed(claim, key))
    }

    fn leave(&self, claim: &Claim, key: &String) -> String {
        format!("ROLLBACK; CALL bramah_let_go({key}, {}, {})", id(claim.id.session), claim.id.seq)
    }

    fn tend(&self, claim: &Claim, key: &String) -> String {
        format!(
            "CALL bramah_tend({key}, {}, {}, {}, {})",
            id(claim.id.session),
            claim.id.seq,
            quoted(&claim.note),
            number(claim.floor.map(Fence::get)),
        )
    }

    fn clean(&self) -> String {
        "ROLLBACK; DO RELEASE_ALL_LOCKS(); \
         DELETE FROM bramah_places WHERE connection = CONNECTION_ID() AND boot = @bramah_boot"
            .to_owned()
    }

    fn roll(&self, session: SessionId) -> String {
        format!(
            "SELECT seq, connection, IS_USED_LOCK(lock_name) <=> connection, broken FROM bramah_places \
              WHERE session = {} AND boot = @bramah_boot \
             UNION ALL SELECT NULL, CAST(CONNECTION_ID() AS SIGNED), FALSE, FALSE",
            id(session)
        )
    }

    fn cancel(&self, badge: Badge) -> String {
        format!("CALL bramah_stop({}, {}, @bramah_boot, FALSE)", badge.number, badge.since)
    }

    fn end(&self, badge: Badge) -> String {
        format!("CALL bramah_stop({}, {}, @bramah_boot, TRUE)", badge.number, badge.since)
    }

    fn evict(&self, claim: &Claim, exit: &Exit) -> String {
        let (by, reason) = match exit {
            Exit::Own => ("", ""),
            Exit::Broken(cause) => (&*cause.by, &*cause.reason),
        };
        format!(
            "CALL bramah_evict({}, {}, {}, {}, {})",
            bytes(claim.name.as_str()),
            id(claim.id.session),
            claim.id.seq,
            quoted(by),
            quoted(reason)
        )
    }

    fn find(&self, claim: &Claim) -> String {
        let name = bytes(claim.name.as_str());
        match foreign::badge(claim.id) {
            Some(badge) => format!(
                "SELECT CAST({0} AS SIGNED), CAST({1} AS SIGNED), TRUE FROM bramah_keys \
                  WHERE name = {name} AND IS_USED_LOCK(lock_name) = {0} AND @bramah_boot = {1}",
                badge.number, badge.since
            ),
            None => format!(
                "SELECT p.connection, p.boot, p.holder <=> p.connection \
                   FROM (SELECT connection, boot, IS_USED_LOCK(lock_name) AS holder FROM bramah_places \
                          WHERE session = {} AND seq = {} AND name = {name} AND boot = @bramah_boot {ALL}) p \
                   LEFT JOIN {CONNECTIONS} l ON l.id = p.connection \
                  WHERE p.holder <=> p.connection OR l.state = 'User lock'",
                id(claim.id.session),
                claim.id.seq,
            ),
        }
    }

    fn look(&self, scope: &Scope) -> (String, String) {
        let wanted = wanted(scope);
        // What is ours, and what is another program's on a key that has a name.
        let places = format!(
            "SELECT LOWER(HEX(p.session)), p.seq, CONVERT(p.name USING utf8mb4), p.capacity, p.weight, p.ttl, p.lease, p.note, \
                    p.holder <=> p.connection AND p.fence IS NOT NULL, COALESCE(p.fence, 0), ({NOW} - p.entered) DIV 1000, \
                    ({NOW} - p.granted) DIV 1000, CAST(NULL AS SIGNED), s.about, CAST(NULL AS SIGNED), p.place \
               FROM (SELECT q.*, IS_USED_LOCK(q.lock_name) AS holder FROM bramah_places q WHERE {wanted} AND boot = @bramah_boot {ALL}) p \
               LEFT JOIN bramah_sessions s ON s.session = p.session \
               LEFT JOIN {CONNECTIONS} l ON l.id = p.connection \
              WHERE p.holder <=> p.connection OR l.state = 'User lock' \
             UNION ALL \
             SELECT CONCAT('{:016x}', LPAD(LOWER(HEX(k.boot)), 16, '0')), k.holder, CONVERT(k.name USING utf8mb4), 1, 1, 0, NULL, \
                    CONCAT('not bramah: ', COALESCE(CONCAT(l.user, '@', l.host), 'a program'), ', connection ', k.holder), \
                    TRUE, 0, NULL, NULL, NULL, NULL, NULL, 0 \
               FROM (SELECT lock_name, name, CAST(IS_USED_LOCK(lock_name) AS SIGNED) AS holder, @bramah_boot AS boot FROM bramah_keys \
                      WHERE {wanted} {ALL}) k \
               LEFT JOIN {CONNECTIONS} l ON l.id = k.holder \
              WHERE k.holder IS NOT NULL AND NOT EXISTS (SELECT 1 FROM bramah_places p \
                     WHERE p.lock_name = k.lock_name AND p.connection = k.holder AND p.boot = k.boot) \
              ORDER BY 3, 9 DESC, 16",
            foreign::MARK,
        );
        let breaks = format!(
            "SELECT CONVERT(name USING utf8mb4), LOWER(HEX(session)), seq, ended_by, reason, ({NOW} - ended) DIV 1000 \
               FROM bramah_breaks WHERE {wanted}"
        );
        (places, breaks)
    }

    fn read_badge(row: &MySqlRow) -> Result<Badge, sqlx::Error> {
        Ok(Badge { number: row.try_get(0)?, since: row.try_get(1)? })
    }

    fn read_taken(row: &MySqlRow) -> Result<Taken, sqlx::Error> {
        let state: String = row.try_get(0)?;
        Taken::read(&state, row.try_get(1)?, row.try_get(2)?)
    }

    fn read_ahead(row: &MySqlRow) -> Result<u32, sqlx::Error> {
        Ok(u32::try_from(Reader(row).whole(0)?).unwrap_or(u32::MAX))
    }

    fn read_rolled(row: &MySqlRow) -> Result<Rolled, sqlx::Error> {
        let seq: Option<i64> = row.try_get(0)?;
        Ok(Rolled {
            seq: seq.map(i64::cast_unsigned),
            number: row.try_get(1)?,
            held: row.try_get(2)?,
            broken: row.try_get(3)?,
        })
    }

    fn read_found(row: &MySqlRow) -> Result<(Badge, bool), sqlx::Error> {
        Ok((Self::read_badge(row)?, row.try_get(2)?))
    }

    fn read_seen(row: &MySqlRow) -> Result<Seen, sqlx::Error> {
        Reader(row).seen()
    }

    fn read_break(row: &MySqlRow) -> Result<Break, sqlx::Error> {
        Reader(row).broken()
    }
}
