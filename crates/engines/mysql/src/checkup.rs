//! What there is to know of a server before one trusts locks to it: plain facts, for a doctor to judge.

use std::time::Duration;

use bramah_core::{ErrorKind, Result};
use bramah_relational::Mode;
use sqlx::Row;

use crate::{MySql, base::Database};

/// A server as it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How it is called: `mysql at db:3306`.
    pub server: String,
    /// `10.11.6-MariaDB`.
    pub version: String,
    /// `innodb_flush_log_at_trx_commit`: 1 is on disk before the answer, 2 with the operating system, 0 neither.
    pub flushes: String,
    /// Whether the binary log is written.
    pub logs: bool,
    /// `sync_binlog`: after how many commits that is on disk.
    pub sync_log: String,
    /// Whether a replica has a commit before it is answered.
    pub waits_for_replica: bool,
    /// How many connections there may be.
    pub most_connections: i64,
    /// Why the tables and procedures will not do, if they are incomplete or of another version.
    pub unfit: Option<String>,
    /// How many claims whose time is up wait for somebody to come by.
    pub expired: i64,
    /// Whether locks are those of `GET_LOCK`.
    pub is_session: bool,
}

/// How long one question may take.
const PATIENCE: Duration = Duration::from_secs(5);

const SETTINGS: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'innodb_flush_log_at_trx_commit', 'log_bin', \
    'sync_binlog', 'rpl_semi_sync_master_enabled', 'rpl_semi_sync_source_enabled', 'max_connections')";

const EXPIRED: &str = "SELECT COUNT(*) FROM bramah_claims WHERE expires <= \
    TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', UTC_TIMESTAMP(6))";

/// Looks at the server of a URL.
///
/// # Errors
/// Of a server that cannot be reached, or does not allow it.
pub async fn examine(url: &str) -> Result<Facts> {
    let mysql = MySql::from_url(url)?;
    let (base, office) = mysql.base();
    let base = base.clone();
    office.run(async move { look(&base).await }).await
}

async fn look(base: &Database) -> Result<Facts> {
    let desk = &base.desk;
    let rows = desk.call(SETTINGS.to_owned(), PATIENCE).await?;
    let settings: Vec<(String, String)> = desk.read(&rows, |row| Ok((row.try_get(0)?, row.try_get(1)?)))?;
    let is_session = base.config.terms.mode == Mode::Session;
    let unfit = match base.check_schema(PATIENCE).await {
        Err(error) if error.kind() == ErrorKind::Invalid => Some(error.to_string()),
        other => other.map(|()| None)?,
    };
    let expired = match unfit.is_none() && !is_session {
        true => desk.read_first(&desk.call(EXPIRED.to_owned(), PATIENCE).await?, |row| row.try_get(0))?,
        false => 0,
    };
    let value = |wanted: &str| {
        let found = settings.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map_or("", |(_, value)| value.as_str())
    };
    let is_on = |name: &str| matches!(value(name), "ON" | "1");
    Ok(Facts {
        server: desk.server().to_owned(),
        version: value("version").to_owned(),
        flushes: value("innodb_flush_log_at_trx_commit").to_owned(),
        logs: is_on("log_bin"),
        sync_log: value("sync_binlog").to_owned(),
        waits_for_replica: is_on("rpl_semi_sync_master_enabled") || is_on("rpl_semi_sync_source_enabled"),
        most_connections: value("max_connections").parse().unwrap_or(0),
        unfit,
        expired,
        is_session,
    })
}
