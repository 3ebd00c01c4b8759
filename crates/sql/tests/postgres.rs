//! Everything on PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cases;
#[path = "on/postgres.rs"]
mod on;
#[path = "only/postgres.rs"]
mod only;
