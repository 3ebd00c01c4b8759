//! What a write that found no row has met: another number in the row, or no row.

use std::fmt;

use bramah_core::Fence;
use sqlx::{Encode, SqlSafeStr, Type};

use crate::{Error, Result, dialect::Dialect, statement::Statement};

/// A write that goes by a number in the row: [`cas`](crate::cas) by its version, [`fenced`](crate::fenced) by its fence.
pub(crate) struct Write<'t, DB: Dialect> {
    pub(crate) connection: &'t mut DB::Connection,
    pub(crate) update: Statement<DB>,
    pub(crate) held: Result<Held>,
}

/// The number that the writer goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    Version(i64),
    Fence(i64),
}

impl<'t, DB: Dialect> Write<'t, DB> {
    pub(crate) fn probe(self, select: impl SqlSafeStr) -> Probe<'t, DB> {
        Probe { write: self, select: Statement::new(select) }
    }
}

/// A write with the question that is asked if it found no row. Run it by [`execute`](Probe::execute).
#[must_use = "nothing is sent before execute"]
pub struct Probe<'t, DB: Dialect> {
    write: Write<'t, DB>,
    select: Statement<DB>,
}

impl<DB: Dialect> Probe<'_, DB> {
    /// Binds the next parameter of the probe.
    pub fn bind<'v, T: Encode<'v, DB> + Type<DB>>(mut self, value: T) -> Self {
        self.select.bind(value);
        self
    }

    /// Runs the write. It is done if it wrote one row. If it wrote none, the probe tells why.
    ///
    /// On MySQL and MariaDB the probe is run as a locking read, for a plain one would see the snapshot of the transaction, in
    /// which the row is still as it was read.
    ///
    /// # Errors
    ///
    /// [`Error::Conflict`] or [`Error::Stale`], [`Error::Missing`], [`Error::Unmatched`] and [`Error::TooMany`]; what the
    /// database says; and [`Error::Misuse`] before anything is sent.
    ///
    /// # Cancel safety
    ///
    /// When it is dropped, the write may have happened in the transaction. Roll back.
    pub async fn execute(self) -> Result<()> {
        let held = self.write.held?;
        let (update, values) = self.write.update.ready()?;
        let (select, keys) = self.select.ready()?;
        let rows = DB::execute(self.write.connection, update, values).await?;
        match rows {
            1 => return Ok(()),
            0 => {}
            rows => return Err(Error::TooMany { rows }),
        }
        let found = DB::rows(self.write.connection, DB::current(select), keys).await?;
        let known = found.first().map(|row| DB::integer(row)).transpose()?;
        Err(verdict(held, known))
    }
}

impl<DB: Dialect> fmt::Debug for Probe<'_, DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe").field("held", &self.write.held).finish_non_exhaustive()
    }
}

/// Why no row was written, by what the row has now: nothing if there is no row, and no number if it is NULL.
fn verdict(held: Held, known: Option<Option<i64>>) -> Error {
    match (held, known) {
        (_, None) => Error::Missing,
        (_, Some(None)) => {
            Error::Misuse("the version or fence in the row is NULL; declare the column not null default 0")
        }
        (Held::Version(expected), Some(Some(actual))) if expected != actual => {
            Error::Conflict { expected, actual }
        }
        (Held::Fence(held), Some(Some(known))) if held < known => {
            Error::Stale { held: Fence::new(held.unsigned_abs()), known: Fence::new(known.unsigned_abs()) }
        }
        (_, Some(Some(known))) => Error::Unmatched { known },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(held: Held, known: Option<Option<i64>>) -> String {
        format!("{:?}", verdict(held, known))
    }

    #[test]
    fn a_version_is_another_one_or_another_condition_does_not_hold() {
        assert_eq!(said(Held::Version(3), Some(Some(4))), "Conflict { expected: 3, actual: 4 }");
        assert_eq!(said(Held::Version(3), Some(Some(2))), "Conflict { expected: 3, actual: 2 }");
        assert_eq!(said(Held::Version(3), Some(Some(3))), "Unmatched { known: 3 }");
    }

    #[test]
    fn a_fence_is_stale_if_the_row_has_a_larger_one() {
        assert_eq!(said(Held::Fence(3), Some(Some(4))), "Stale { held: Fence(3), known: Fence(4) }");
        assert_eq!(said(Held::Fence(3), Some(Some(3))), "Unmatched { known: 3 }");
        assert_eq!(said(Held::Fence(3), Some(Some(2))), "Unmatched { known: 2 }");
    }

    #[test]
    fn no_row_and_no_number_are_told_apart() {
        assert_eq!(said(Held::Version(3), None), "Missing");
        assert_eq!(said(Held::Fence(3), None), "Missing");
        assert!(said(Held::Fence(3), Some(None)).contains("not null"));
    }
}
