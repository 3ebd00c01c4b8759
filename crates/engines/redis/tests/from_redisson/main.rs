//! Every line of docs/guide/from-redisson.md, on a server, with Redisson's side of it played by redis-cli.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod configuration;
mod differences;
mod guide;
mod lock;
mod others;
mod questions;
mod stage;
mod strange;
