//! Sentinels: who is the master now.

use std::sync::Arc;

use bramah_core::{Error, ErrorKind, Result};

use super::link::Link;
use crate::config::Address;

pub(super) struct Sentinels {}

impl Sentinels {
    pub(super) async fn master(&self) -> Result<Address> {
        Err(Error::new(ErrorKind::Unsupported, "sentinels are not supported yet"))
    }

    pub(super) fn follow(&self, _: &Address, _: &Arc<Link>) {}
}
