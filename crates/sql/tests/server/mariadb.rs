//! A MariaDB.

use std::sync::OnceLock;

use bramah_lab::MariaDb;

/// It ends with this process.
pub(crate) fn server() -> &'static MariaDb {
    static SERVER: OnceLock<MariaDb> = OnceLock::new();
    SERVER.get_or_init(|| MariaDb::start().unwrap())
}
