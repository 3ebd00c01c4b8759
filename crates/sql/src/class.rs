//! Which errors of a database mean "run it again".

/// What an error of a database means for the transaction that met it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// The transaction does not fit behind the others that were committed meanwhile. The server has given it up.
    Serialization,
    /// Two transactions waited for each other, and this one was chosen to end. The server has given it up.
    Deadlock,
    /// A lock was not to be had at once, or not in time. MySQL and MariaDB have undone the statement alone; PostgreSQL lets
    /// nothing more happen in the transaction.
    Busy,
    /// Anything else. To run it again may do harm or not help.
    Other,
}

impl Class {
    /// Whether the transaction, run again from its start, may well succeed, and surely was not committed.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        self != Self::Other
    }
}

/// Tells what an error means for the transaction that met it.
///
/// | | PostgreSQL | MySQL, MariaDB |
/// |---|---|---|
/// | [`Class::Serialization`] | 40001 | 1020, 3101 |
/// | [`Class::Deadlock`] | 40P01 | 1213 |
/// | [`Class::Busy`] | 55P03 | 1205, 3572 |
///
/// 1020 is MariaDB's answer to a write over a row that changed since the snapshot, where `innodb_snapshot_isolation` is on
/// (by default from 11.6.2 on). 3101 is MySQL's group replication that refuses a commit; Galera answers with 1213. 3572 is MySQL's
/// answer to `NOWAIT`, for which MariaDB has 1205.
///
/// ```
/// use bramah_sql::{Class, classify};
///
/// assert_eq!(classify(&sqlx::Error::RowNotFound), Class::Other);
/// ```
#[must_use]
pub fn classify(error: &sqlx::Error) -> Class {
    let Some(error) = error.as_database_error() else { return Class::Other };
    #[cfg(feature = "mysql")]
    if let Some(error) = error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
        return of_number(error.number());
    }
    #[cfg(feature = "postgres")]
    if let Some(error) = error.try_downcast_ref::<sqlx::postgres::PgDatabaseError>() {
        return of_state(error.code());
    }
    let _ = error;
    Class::Other
}

#[cfg(feature = "postgres")]
fn of_state(state: &str) -> Class {
    match state {
        "40001" => Class::Serialization,
        "40P01" => Class::Deadlock,
        "55P03" => Class::Busy,
        _ => Class::Other,
    }
}

#[cfg(feature = "mysql")]
fn of_number(number: u16) -> Class {
    match number {
        1020 | 3101 => Class::Serialization,
        1213 => Class::Deadlock,
        1205 | 3572 => Class::Busy,
        _ => Class::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(feature = "postgres")]
    fn states_of_postgres_have_their_classes() {
        let of = |states: &[&str]| states.iter().map(|state| of_state(state)).collect::<Vec<_>>();
        assert_eq!(of(&["40001", "40P01", "55P03"]), [Class::Serialization, Class::Deadlock, Class::Busy]);
        // Completion unknown, a duplicate, in a failed transaction, cancelled, shut down.
        assert_eq!(of(&["40003", "23505", "25P02", "57014", "57P01"]), [Class::Other; 5]);
    }

    #[test]
    #[cfg(feature = "mysql")]
    fn numbers_of_mysql_have_their_classes() {
        let of = |numbers: &[u16]| numbers.iter().map(|number| of_number(*number)).collect::<Vec<_>>();
        assert_eq!(of(&[1213, 1205, 3572]), [Class::Deadlock, Class::Busy, Class::Busy]);
        assert_eq!(of(&[1020, 3101]), [Class::Serialization; 2]);
        // A duplicate, a syntax error, a server that is shut down, a query that was killed.
        assert_eq!(of(&[1062, 1064, 1053, 1317]), [Class::Other; 4]);
    }

    #[test]
    fn what_is_not_of_a_database_is_not_tried_again() {
        assert!(!classify(&sqlx::Error::PoolTimedOut).is_retryable());
        assert!(!classify(&sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into())).is_retryable());
    }
}
