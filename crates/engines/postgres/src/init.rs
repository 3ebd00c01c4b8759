//! The tables and functions in the database.

use std::time::Duration;

use bramah_core::{Clock, Result};
use bramah_relational::Trouble;
use sqlx::Row;

use crate::{base::Database, error};

/// What table mode needs.
pub(crate) const TABLE: &str = include_str!("../sql/schema.sql");

/// What session mode needs beside some of that.
pub(crate) const SESSION: &str = include_str!("../sql/session.sql");

/// What `bramah init` runs.
pub const SCHEMA: &str = concat!(include_str!("../sql/schema.sql"), include_str!("../sql/session.sql"));

/// The version that this build speaks.
pub(crate) const VERSION: i64 = 3;

/// How long writing it may take: others may be using what is there.
const PATIENCE: Duration = Duration::from_secs(30);

/// The pause before it is tried again.
const PAUSE: Duration = Duration::from_millis(500);

impl Database {
    pub(crate) async fn init(&self) -> Result<()> {
        let version = "SELECT coalesce(max(version), 0)::bigint FROM bramah_schema".to_owned();
        // Without the tables it is an error, and there is nothing to spoil.
        if let Ok(rows) = self.desk.call(version, PATIENCE).await {
            let version = self.desk.read_first(&rows, |row| row.try_get(0))?;
            if version > VERSION {
                return Err(self.other_version(version));
            }
        }
        // One at a time, and all of it or nothing: several statements in one message are one transaction. Whoever waits for a lock of a
        // table has everybody wait behind it, renewals too: so it does not wait for long, and tries again.
        let text =
            format!("SET LOCAL lock_timeout = '1s'; SELECT pg_advisory_xact_lock(1651663213, 0);\n{SCHEMA}");
        let clock = Clock::boot();
        let until = clock.now() + PATIENCE;
        loop {
            match self.desk.calls().query(text.clone(), PATIENCE).await {
                Err(Trouble::Said(sqlx::Error::Database(error)))
                    if error::is_locked(&*error) && clock.now() < until =>
                {
                    clock.nap(PAUSE).await;
                }
                done => {
                    let explain = |trouble: Trouble| trouble.explain(self.desk.server(), error::meaning);
                    return done.map(drop).map_err(explain);
                }
            }
        }
    }
}
