//! The command as its users meet it: real processes, a store of its own for every test.
//!
//! Nothing here sleeps to let something happen: tests wait for conditions, with a deadline.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::disallowed_methods, reason = "the deadlines of tests are no deadlines of locks")]

mod breaking;
mod busy;
mod command;
mod config;
mod counting;
mod crash;
mod detached;
mod doctor;
mod etcd;
mod guardian;
mod listing;
mod loss;
mod manual;
mod mixed;
mod modes;
mod nesting;
mod other_user;
mod outage;
mod output;
mod postgres;
mod recipes;
mod redis;
mod renewed;
mod supervision;
mod support;
mod terminal;
mod usage;
mod wait_for;
mod waiting;
mod watch;
mod zookeeper;
