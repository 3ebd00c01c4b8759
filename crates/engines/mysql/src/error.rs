//! What the server's errors mean here.

use bramah_core::ErrorKind;
use sqlx::{error::DatabaseError, mysql::MySqlDatabaseError};

/// The number of an error: what it is called by is often the same for many.
fn number(error: &dyn DatabaseError) -> u16 {
    error.try_downcast_ref::<MySqlDatabaseError>().map_or(0, MySqlDatabaseError::number)
}

/// What an error of the server's means.
pub(crate) fn meaning(error: &dyn DatabaseError, server: &str, message: &str) -> (ErrorKind, String) {
    let unavailable = |text: String| (ErrorKind::Unavailable, text);
    match number(error) {
        // A table, a procedure, or its arguments.
        1146 | 1305 | 1318 => (
            ErrorKind::Invalid,
            format!("{server} has no tables of bramah's, or old ones ({message}); run bramah init"),
        ),
        1049 => (ErrorKind::Invalid, format!("{server}: {message}; create it, or name another")),
        1665 => (
            ErrorKind::Invalid,
            format!("{server} logs statements ({message}); set its binlog_format to ROW or MIXED"),
        ),
        1290 | 1792 | 1836 => {
            unavailable(format!("{server} takes no writes ({message}); point the url at the primary"))
        }
        1040 | 1203 | 1226 => {
            unavailable(format!("{server} has no connection left ({message}); lower pool= in the url"))
        }
        1045 | 1130 | 1698 | 1820 | 1862 => {
            (ErrorKind::Denied, format!("{server} refuses the login: {message}"))
        }
        1044 | 1095 | 1142 | 1143 | 1227 | 1370 => (
            ErrorKind::Denied,
            format!("{server} does not allow it: {message}; see docs/engines/mysql.md for the rights needed"),
        ),
        // Conflicts that another try resolves, connections, resources, and the operator.
        1020 | 1021 | 1041 | 1114 | 1129 | 1205 | 1213 => {
            unavailable(format!("{server}: {message}; try again"))
        }
        _ if is_farewell(error) => unavailable(format!("{server}: {message}; try again")),
        number => (ErrorKind::Corrupt, format!("{server}: {message} ({number})")),
    }
}

/// Whether the connection is not to be used again: the server ends it, or a call was cut off in a way that no handler in a
/// procedure is asked about, and its transaction is still open.
pub(crate) fn is_farewell(error: &dyn DatabaseError) -> bool {
    match number(error) {
        // Shutdown, the network, killed connections, those that rested for too long, and nodes that left their cluster.
        1047 | 1053 | 1152..=1161 | 1927 | 2006 | 2013 | 4031 => true,
        // Killed or timed-out statements, no memory, no stack, a commit that failed, and one in the midst of another.
        1037 | 1038 | 1041 | 1119 | 1180 | 1181 | 1317 | 1436 | 1568 | 1969 | 3024 => true,
        _ => error.code().is_some_and(|state| state.starts_with("08") || state.starts_with("70")),
    }
}

/// Whether another try at once may succeed: the server rolled it back for the sake of another transaction, or somebody killed the
/// statement.
pub(crate) fn is_undone(error: &dyn DatabaseError) -> bool {
    matches!(number(error), 1020 | 1205 | 1213) || is_cancelled(error)
}

/// Whether a statement was killed.
pub(crate) fn is_cancelled(error: &dyn DatabaseError) -> bool {
    number(error) == 1317
}
