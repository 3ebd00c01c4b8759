//! The tables and functions in the database.

use std::time::Duration;

use bramah_core::Result;

use crate::base::Database;

/// What `bramah init` runs.
pub const SCHEMA: &str = include_str!("../sql/schema.sql");

/// The version that this build speaks.
pub(crate) const VERSION: i64 = 1;

/// How long writing it may take: others may be using what is there.
const PATIENCE: Duration = Duration::from_secs(30);

impl Database {
    pub(crate) async fn init(&self) -> Result<()> {
        // One at a time, and all of it or nothing: several statements in one message are one transaction.
        let text = format!("SELECT pg_advisory_xact_lock(1651663213, 0);\n{SCHEMA}");
        self.desk.call(text, PATIENCE).await.map(drop)
    }
}
