//! What the server's errors mean here.

use bramah_core::ErrorKind;
use sqlx::error::DatabaseError;

/// What an error of the server's means.
pub(crate) fn meaning(error: &dyn DatabaseError, server: &str, message: &str) -> (ErrorKind, String) {
    let code = error.code().unwrap_or_default();
    match &*code {
        "42P01" | "42883" => (
            ErrorKind::Invalid,
            format!("{server} has no tables of bramah's, or old ones ({message}); run bramah init"),
        ),
        "25006" => (
            ErrorKind::Unavailable,
            format!("{server} takes no writes ({message}); point the url at the primary"),
        ),
        "28000" | "28P01" => (ErrorKind::Denied, format!("{server} refuses the login: {message}")),
        "42501" => (
            ErrorKind::Denied,
            format!(
                "{server} does not allow it: {message}; see docs/engines/postgres.md for the rights needed"
            ),
        ),
        "3D000" => (ErrorKind::Invalid, format!("{server}: {message}; create it, or name another")),
        "22021" | "22P05" => (
            ErrorKind::Invalid,
            format!(
                "{server}: the encoding of this database cannot hold the name or a text that goes with it ({message}); \
                 use other characters, or a database with the encoding UTF8"
            ),
        ),
        "BR001" => (
            ErrorKind::Invalid,
            format!("{server}: {message}; set default_transaction_isolation to read committed for this user"),
        ),
        "53300" => (
            ErrorKind::Unavailable,
            format!("{server} has no connection left ({message}); lower pool= in the url, or use a pooler"),
        ),
        "53200" => (
            ErrorKind::Unavailable,
            format!(
                "{server} has no memory left for more locks ({message}); raise max_locks_per_transaction there, hold fewer, or use mode=table"
            ),
        ),
        // Connections, resources, the operator, and conflicts that another try resolves.
        code if ["08", "40", "53", "55", "57", "58"].iter().any(|class| code.starts_with(class)) => {
            (ErrorKind::Unavailable, format!("{server}: {message}; try again"))
        }
        code => (ErrorKind::Corrupt, format!("{server}: {message} ({code})")),
    }
}

/// Whether the server says with this that it ends the connection.
pub(crate) fn is_farewell(error: &dyn DatabaseError) -> bool {
    matches!(error.code().as_deref(), Some("57P01" | "57P02" | "57P03" | "57P05"))
}

/// Whether the functions do not work in transactions of this level.
pub(crate) fn is_level(error: &dyn DatabaseError) -> bool {
    error.code().as_deref() == Some("BR001")
}

/// Whether another try at once may succeed: the server rolled it back for the sake of another transaction, or because somebody
/// cancelled it.
pub(crate) fn is_undone(error: &dyn DatabaseError) -> bool {
    matches!(error.code().as_deref(), Some("40001" | "40P01")) || is_cancelled(error)
}

/// Whether a lock was not available in the time that the statement had for it.
pub(crate) fn is_locked(error: &dyn DatabaseError) -> bool {
    error.code().as_deref() == Some("55P03")
}

/// Whether a statement was cancelled.
pub(crate) fn is_cancelled(error: &dyn DatabaseError) -> bool {
    error.code().as_deref() == Some("57014")
}
