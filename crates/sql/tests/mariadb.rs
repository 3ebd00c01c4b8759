//! Everything on MariaDB.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "only/mariadb.rs"]
mod alone;
mod cases;
#[path = "on/mysql.rs"]
mod on;
#[path = "only/both.rs"]
mod only;
#[path = "server/mariadb.rs"]
mod server;
