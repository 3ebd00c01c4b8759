//! The tables and functions in the database.

use std::time::Duration;

use bramah_core::Result;
use sqlx::Row;

use crate::base::Database;

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
        // One at a time, and all of it or nothing: several statements in one message are one transaction.
        let text = format!("SELECT pg_advisory_xact_lock(1651663213, 0);\n{SCHEMA}");
        self.desk.call(text, PATIENCE).await.map(drop)
    }
}
