//! Everything on MariaDB.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod cases;

#[path = "on/mariadb.rs"]
mod on;
#[path = "only/mysql.rs"]
mod only;
