//! What there is to know of a server before one trusts locks to it: plain facts, for a doctor to judge.

use std::time::Duration;

use bramah_core::{ErrorKind, Result};
use bramah_relational::Mode;
use sqlx::{Row, postgres::PgRow};

use crate::{Config, Postgres, base::Database};

/// A server as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Where it is.
    pub address: String,
    /// `15.6`.
    pub version: String,
    /// `synchronous_commit`: what a grant has survived when it is answered.
    pub synchronous_commit: String,
    /// `fsync`: whether it survives the loss of power.
    pub fsync: bool,
    /// How many standbys follow, and how many of them have a commit before it is answered; `None` if this user may not know.
    pub standbys: Option<(i64, i64)>,
    /// `synchronous_standby_names`.
    pub synchronous_standbys: String,
    /// How many connections are in use, and how many there may be.
    pub connections: (i64, i64),
    /// Tables and the functions on them that this user may not use.
    pub forbidden: Vec<String>,
    /// Why the tables and functions will not do, if they are incomplete or of another version.
    pub unfit: Option<String>,
    /// Whether what is said by NOTIFY reaches us; `None` if that is not wanted.
    pub is_told: Option<bool>,
    /// How many rows of claims whose time is up wait for somebody to come by.
    pub expired: i64,
    /// In session mode: how many locks of all kinds there are, and for how many there is memory.
    pub room: Option<(i64, i64)>,
}

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(5);

const QUESTION: &str = "SELECT current_setting('server_version'), current_setting('synchronous_commit'), \
    current_setting('fsync')::boolean, current_setting('synchronous_standby_names'), \
    (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'), \
    current_setting('max_connections')::bigint, \
    (SELECT count(*) FROM pg_stat_replication), \
    (SELECT count(*) FROM pg_stat_replication WHERE sync_state IN ('sync', 'quorum')), \
    pg_has_role('pg_monitor', 'member') OR current_setting('is_superuser')::boolean, \
    (SELECT count(*) FROM pg_locks), \
    current_setting('max_locks_per_transaction')::bigint \
      * (current_setting('max_connections')::bigint + current_setting('max_prepared_transactions')::bigint)";

/// What table mode reads and writes, and session mode.
const TABLES: [&str; 2] = [
    "'bramah_claims', 'bramah_sessions', 'bramah_floors', 'bramah_watchers', 'bramah_breaks', 'bramah_wishes'",
    "'bramah_keys', 'bramah_places', 'bramah_sessions', 'bramah_breaks'",
];

const EXPIRED: &str = "SELECT count(*) FROM bramah_claims WHERE until <= clock_timestamp()";

/// Looks at the server of a URL.
///
/// # Errors
/// Of a server that cannot be reached, or does not allow it.
pub async fn examine(url: &str) -> Result<Facts> {
    let config = Config::from_url(url)?;
    let is_session = config.terms.mode == Mode::Session;
    let wants_told = config.listen && !is_session;
    let postgres = Postgres::from_url(url)?;
    let (base, office) = postgres.base();
    let base = base.clone();
    office.run(async move { look(&base, wants_told, is_session).await }).await
}

async fn look(base: &Database, wants_told: bool, is_session: bool) -> Result<Facts> {
    let desk = &base.desk;
    let misread = |error: sqlx::Error| desk.misread(&error);
    let rows = desk.call(QUESTION.to_owned(), PATIENCE).await?;
    let row = rows.first().ok_or_else(|| misread(sqlx::Error::RowNotFound))?;
    let unfit = match base.check_schema(PATIENCE).await {
        Err(error) if error.kind() == ErrorKind::Invalid => Some(error.to_string()),
        other => other.map(|()| None)?,
    };
    let rights = format!(
        "SELECT relname::text FROM pg_class WHERE relname IN ({}) AND pg_table_is_visible(oid) \
           AND NOT (has_table_privilege(oid, 'SELECT') AND has_table_privilege(oid, 'INSERT') \
                AND has_table_privilege(oid, 'UPDATE') AND has_table_privilege(oid, 'DELETE')) ORDER BY 1",
        TABLES[usize::from(is_session)]
    );
    let forbidden = desk.read(&desk.call(rights, PATIENCE).await?, |row| row.try_get(0))?;
    let expired = match unfit.is_none() && !is_session {
        true => desk.read_first(&desk.call(EXPIRED.to_owned(), PATIENCE).await?, |row| row.try_get(0))?,
        false => 0,
    };
    let is_told = if wants_told { Some(base.is_heard().await) } else { None };
    let facts = read(row, &base.config.address()).map_err(misread)?;
    Ok(Facts { room: facts.room.filter(|_| is_session), forbidden, unfit, is_told, expired, ..facts })
}

/// What the server says of itself.
fn read(row: &PgRow, address: &str) -> sqlx::Result<Facts> {
    let sees_standbys: bool = row.try_get(8)?;
    let standbys = (row.try_get(6)?, row.try_get(7)?);
    Ok(Facts {
        address: address.to_owned(),
        version: row.try_get(0)?,
        synchronous_commit: row.try_get(1)?,
        fsync: row.try_get(2)?,
        synchronous_standbys: row.try_get(3)?,
        connections: (row.try_get(4)?, row.try_get(5)?),
        standbys: sees_standbys.then_some(standbys),
        forbidden: Vec::new(),
        unfit: None,
        is_told: None,
        expired: 0,
        room: Some((row.try_get(9)?, row.try_get(10)?)),
    })
}
