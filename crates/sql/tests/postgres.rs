//! Everything on PostgreSQL.

#![expect(clippy::unwrap_used, reason = "a test ends where something is not as it should be")]

mod cases;
#[path = "on/postgres.rs"]
mod on;
#[path = "only/postgres.rs"]
mod only;
