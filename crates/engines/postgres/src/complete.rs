//! Whether everything is there that `bramah init` writes: somebody may have dropped some of it, or restored half of a dump.

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
    /// Tables and views.
    relations: Vec<&'static str>,
    functions: Vec<&'static str>,
}

impl Needed {
    fn of(mode: Mode) -> Self {
        let script = match mode {
            Mode::Table => TABLE,
            Mode::Session => SESSION,
        };
        let mut relations = created(script, "TABLE IF NOT EXISTS ");
        let mut functions = created(script, "CREATE OR REPLACE FUNCTION ");
        // The view of table mode is for people.
        if mode == Mode::Session {
            relations.extend(created(script, "CREATE OR REPLACE VIEW "));
            relations.extend(["bramah_schema", "bramah_sessions", "bramah_breaks", "bramah_claims"]);
            functions.extend(["bramah_open", "bramah_close"]);
        }
        // A function may be there with several lists of arguments.
        functions.sort_unstable();
        functions.dedup();
        Self { relations, functions }
    }
}

/// Names as an array of texts.
fn array(names: &[&str]) -> String {
    format!("'{{{}}}'::text[]", names.join(","))
}

impl Database {
    /// Whether the tables are of our version and nothing is missing that this mode needs.
    ///
    /// # Errors
    /// `Invalid` with what is missing.
    pub(crate) async fn check_schema(&self, patience: Duration) -> Result<()> {
        let version = "SELECT coalesce(max(version), 0)::bigint FROM bramah_schema".to_owned();
        let rows = self.desk.call(version, patience).await?;
        match self.desk.read_first(&rows, |row| row.try_get(0))? {
            VERSION => self.check_complete(patience).await,
            version => Err(self.other_version(version)),
        }
    }

    /// Whether nothing is missing that this mode needs.
    ///
    /// # Errors
    /// `Invalid` with what is missing.
    pub(crate) async fn check_complete(&self, patience: Duration) -> Result<()> {
        let needed = Needed::of(self.config.terms.mode);
        let text = format!(
            "SELECT n FROM unnest({}) n WHERE to_regclass(n) IS NULL \
             UNION ALL SELECT n || '()' FROM unnest({}) n \
              WHERE NOT EXISTS (SELECT FROM pg_proc WHERE proname = n AND pg_function_is_visible(oid))",
            array(&needed.relations),
            array(&needed.functions),
        );
        let rows = self.desk.call(text, patience).await?;
        let missing = self.desk.read(&rows, |row| row.try_get::<String, _>(0))?;
        if missing.is_empty() {
            return Ok(());
        }
        let text = format!(
            "{}: bramah's tables and functions are incomplete, {} missing; run bramah init",
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
        assert!(table.relations.contains(&"bramah_claims") && table.functions.contains(&"bramah_enter"));
        assert!(!table.relations.contains(&"bramah_keys") && !table.functions.contains(&"bramah_take"));
        let session = Needed::of(Mode::Session);
        assert!(
            session.relations.contains(&"bramah_places") && session.relations.contains(&"bramah_advisory")
        );
        assert!(session.functions.contains(&"bramah_take") && !session.functions.contains(&"bramah_enter"));
        assert!(!session.relations.contains(&"bramah_watchers"));
    }
}
