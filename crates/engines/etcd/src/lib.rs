//! etcd's protocol, on which the engine of etcd will stand.
//!
//! [`proto`] has the calls and messages that locks need. It is generated from the `.proto` files of etcd, which lie in
//! `proto/`, and is checked in: to build this takes no protoc.

pub mod proto;
