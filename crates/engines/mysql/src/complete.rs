//! Whether everything is there that `bramah init` writes. The server cannot undo half of it, so an init that failed leaves some of it
//! behind; and somebody may have dropped some, or restored half of a dump.

use std::time::Duration;

use bramah_core::{Error, ErrorKind, Result};
use bramah_relational::{Mode, created};
use sqlx::Row;

use crate::{
    base::Database,
    init::{SESSION, TABLE, VERSION},
};

/// What a mode needs.
struct Needed {
    tables: Vec<&'static str>,
    procedures: Vec<&'static str>,
}

impl Needed {
    fn of(mode: Mode) -> Self {
        let script = match mode {
            Mode::Table => TABLE,
            Mode::Session => SESSION,
        };
        let mut tables = created(script, "CREATE TABLE IF NOT EXISTS ");
        let mut procedures = created(script, "CREATE PROCEDURE ");
        // Some are for the script itself.
        let dropped = created(script, "DROP PROCEDURE ");
        procedures.retain(|name| !dropped.contains(name));
        if mode == Mode::Session {
            tables.extend(["bramah_schema", "bramah_sessions", "bramah_breaks", "bramah_claims"]);
            procedures.extend(["bramah_open", "bramah_close"]);
        }
        Self { tables, procedures }
    }
}

/// The procedures that this user may call.
const PROCEDURES: &str = "SELECT CONVERT(routine_name USING utf8mb4) FROM information_schema.routines \
    WHERE routine_schema = DATABASE() AND routine_name LIKE 'bramah%'";

impl Database {
    /// Whether the tables are of our version and nothing is missing that this mode needs.
    ///
    /// # Errors
    /// `Invalid` with what is missing.
    pub(crate) async fn check_schema(&self, patience: Duration) -> Result<()> {
        let version = "SELECT COALESCE(MAX(version), 0) FROM bramah_schema".to_owned();
        let rows = self.desk.call(version, patience).await?;
        match self.desk.read_first(&rows, |row| row.try_get(0))? {
            VERSION => self.check_complete(patience).await,
            version => Err(self.other_version(version)),
        }
    }

    /// Whether nothing is missing that this mode needs.
    ///
    /// # Errors
    /// `Invalid` with what is missing; `Denied` if this user may not read a table.
    pub(crate) async fn check_complete(&self, patience: Duration) -> Result<()> {
        let needed = Needed::of(self.config.terms.mode);
        // The server tells itself what is missing or forbidden.
        let text = format!("SELECT 1 FROM {} WHERE FALSE", needed.tables.join(", "));
        self.desk.call(text, patience).await?;
        let rows = self.desk.call(PROCEDURES.to_owned(), patience).await?;
        let there = self.desk.read(&rows, |row| row.try_get::<String, _>(0))?;
        let missing: Vec<&str> =
            needed.procedures.into_iter().filter(|name| !there.iter().any(|one| one == name)).collect();
        // Who may call none sees none, and is told so by the first call.
        if missing.is_empty() || there.is_empty() {
            return Ok(());
        }
        let text = format!(
            "{}: bramah's tables and procedures are incomplete, {} missing; run bramah init",
            self.desk.server(),
            missing.join(", ")
        );
        Err(Error::new(ErrorKind::Invalid, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_needs_its_own() {
        let table = Needed::of(Mode::Table);
        assert!(table.tables.contains(&"bramah_stripes") && table.procedures.contains(&"bramah_enter"));
        assert!(!table.tables.contains(&"bramah_keys") && !table.procedures.contains(&"bramah_take"));
        assert!(!table.procedures.contains(&"bramah_upgrade"), "it is gone after init");
        let session = Needed::of(Mode::Session);
        assert!(session.tables.contains(&"bramah_places") && session.procedures.contains(&"bramah_take"));
        assert!(!session.tables.contains(&"bramah_stripes") && !session.procedures.contains(&"bramah_enter"));
    }
}
