//! Everything on MySQL.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "only/mysql.rs"]
mod alone;
mod cases;
#[path = "on/mysql.rs"]
mod on;
#[path = "only/both.rs"]
mod only;
#[path = "server/mysql.rs"]
mod server;
