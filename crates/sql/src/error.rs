//! What can go wrong, one line each.

use std::{error::Error as StdError, fmt};

use bramah_core::Fence;

use crate::class::{Class, classify};

/// A result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a step, a transaction or all tries of one came to nothing.
///
/// `?` makes one of a `sqlx::Error`, and [`Error::other`] makes one of an error of yours.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The row is in another version than the one that was read: somebody wrote in between.
    Conflict {
        /// The version that was read.
        expected: i64,
        /// The version that is there.
        actual: i64,
    },
    /// There is no such row, or not any more.
    Missing,
    /// The row is there, and its number is as it should be, but the statement did not match it: another condition of its
    /// `where` does not hold. To try again would not help.
    Unmatched {
        /// The version or the fence of the row.
        known: i64,
    },
    /// The statement wrote more than one row. Roll back.
    TooMany {
        /// How many it wrote.
        rows: u64,
    },
    /// Another transaction has the row locked, and the patience is over.
    Busy(sqlx::Error),
    /// The row has seen a later holder of the lock: this one has lost it, and must not write.
    Stale {
        /// The fence of this holder.
        held: Fence,
        /// The fence of the row.
        known: Fence,
    },
    /// Each try was in another one's way.
    Exhausted {
        /// How many there were.
        tries: u32,
        /// What the last of them said.
        last: Box<Error>,
    },
    /// This server does not have what was asked for.
    Unsupported {
        /// What it is, and since when there is such a thing.
        what: String,
        /// The server and its version.
        server: String,
    },
    /// The call itself is wrong, whatever is in the table.
    Misuse(&'static str),
    /// The transaction was over before its end: an error in it was not handed on, and the server has given it up; or the closure ran
    /// `ROLLBACK` or `COMMIT` itself. On MySQL and MariaDB also a statement such as `create table` ends it.
    Ended(sqlx::Error),
    /// No answer to `COMMIT` came that says what became of it: the connection was lost, or the server ended it or the statement just
    /// then. It may have taken effect, or not. It is not tried again.
    ///
    /// An error of the server's own, such as that of a deferred constraint or trigger, is [`Error::Sql`]: it has rolled back.
    InDoubt(sqlx::Error),
    /// Anything else of the database or the driver.
    Sql(sqlx::Error),
    /// Yours.
    Other(Box<dyn StdError + Send + Sync>),
}

impl Error {
    /// An error of yours, or a text. The transaction is rolled back, and not tried again.
    pub fn other(why: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Other(why.into())
    }

    /// Whether the same transaction, run again from its start, may well succeed.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Conflict { .. } | Self::Busy(_) => true,
            Self::Sql(why) => classify(why).is_retryable(),
            _ => false,
        }
    }
}

impl From<sqlx::Error> for Error {
    fn from(why: sqlx::Error) -> Self {
        if classify(&why) == Class::Busy { Self::Busy(why) } else { Self::Sql(why) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conflict { expected, actual } => {
                write!(
                    f,
                    "conflict: the row was read in version {expected} and is in version {actual} now; read it again"
                )
            }
            Self::Missing => f.write_str("missing: no row matches; it may have been deleted"),
            Self::Unmatched { known } => write!(
                f,
                "unmatched: the row is there with the number {known}, but another condition of the statement does not hold"
            ),
            Self::TooMany { rows } => {
                write!(
                    f,
                    "too many: the statement wrote {rows} rows where one was meant; roll back and name one by its key"
                )
            }
            Self::Busy(why) => write!(f, "busy: another transaction has the row locked ({})", OneLine(why)),
            Self::Stale { held, known } => {
                write!(
                    f,
                    "stale: the row has seen fence {known}, this holder has {held}; the lock is somebody else's now"
                )
            }
            Self::Exhausted { tries, last } => {
                write!(f, "exhausted: gave up after {tries} tries, the last one: {last}")
            }
            Self::Unsupported { what, server } => write!(f, "unsupported: {server} has no {what}"),
            Self::Misuse(what) => write!(f, "misuse: {what}"),
            Self::Ended(why) => write!(
                f,
                "ended: the transaction was over before its end; an error in it was not handed on, or a statement ended it ({})",
                OneLine(why)
            ),
            Self::InDoubt(why) => {
                write!(f, "in doubt: no answer to COMMIT, look whether it took effect ({})", OneLine(why))
            }
            Self::Sql(why) => write!(f, "database: {}", OneLine(why)),
            Self::Other(why) => write!(f, "{}", OneLine(why)),
        }
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        match self {
            Self::Busy(why) | Self::Ended(why) | Self::InDoubt(why) | Self::Sql(why) => Some(why),
            Self::Exhausted { last, .. } => Some(last),
            Self::Other(why) => Some(&**why),
            _ => None,
        }
    }
}

/// A server quotes the statement in its complaint, with its line breaks.
struct OneLine<T>(T);

impl<T: fmt::Display> fmt::Display for OneLine<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        let mut words = text.split_whitespace();
        f.write_str(words.next().unwrap_or_default())?;
        words.try_for_each(|word| write!(f, " {word}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_one_line_that_starts_with_its_name() {
        let broken = || sqlx::Error::Protocol("first\n   second".into());
        let all = [
            (Error::Conflict { expected: 3, actual: 4 }, "conflict: "),
            (Error::Missing, "missing: "),
            (Error::Unmatched { known: 3 }, "unmatched: "),
            (Error::TooMany { rows: 2 }, "too many: "),
            (Error::Busy(broken()), "busy: "),
            (Error::Stale { held: Fence::new(3), known: Fence::new(4) }, "stale: "),
            (Error::Exhausted { tries: 3, last: Box::new(Error::Sql(broken())) }, "exhausted: "),
            (Error::Unsupported { what: "a".into(), server: "b".into() }, "unsupported: "),
            (Error::Misuse("a"), "misuse: "),
            (Error::Ended(broken()), "ended: "),
            (Error::InDoubt(broken()), "in doubt: "),
            (Error::Sql(broken()), "database: "),
            (Error::other("first\nsecond"), "first second"),
        ];
        for (error, start) in all {
            let text = error.to_string();
            assert!(text.starts_with(start) && !text.contains('\n'), "{text:?}");
        }
    }

    #[test]
    fn an_error_of_yours_comes_back_as_it_was() {
        let error = Error::other(fmt::Error);
        assert!(!error.is_retryable());
        assert!(error.source().unwrap().is::<fmt::Error>());
    }

    #[test]
    fn only_what_may_succeed_next_time_is_retryable() {
        assert!(Error::Conflict { expected: 1, actual: 2 }.is_retryable());
        assert!(Error::Busy(sqlx::Error::RowNotFound).is_retryable());
        let last = Box::new(Error::Conflict { expected: 1, actual: 2 });
        assert!(!Error::Exhausted { tries: 1, last }.is_retryable());
        assert!(!Error::InDoubt(sqlx::Error::WorkerCrashed).is_retryable());
        assert!(!Error::Missing.is_retryable());
    }
}
