//! A key, and the way to it.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use bramah_core::Result;
use redis::{Cmd, Value as Reply};

use super::{Data, Noun, Target, fault, span};
use crate::{
    driver::{Driver, Lane, Request, Slot},
    net::slot,
    script::Script,
};

static WRITE: LazyLock<Arc<Script>> =
    LazyLock::new(|| Arc::new(Script::new("write", include_str!("../../scripts/write.lua").to_owned())));

/// Where something lies, and what it is meant to be.
#[derive(Clone)]
pub(super) struct At {
    data: Data,
    noun: Noun,
    key: Arc<str>,
}

impl At {
    pub(super) fn new(data: &Data, noun: Noun, key: &str) -> Self {
        Self { data: data.clone(), noun, key: key.into() }
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn target(&self) -> Target<'_> {
        Target { noun: self.noun, key: &self.key, part: None }
    }

    /// One field of it.
    pub(super) fn field<'a>(&'a self, field: &'a str) -> Target<'a> {
        Target { part: Some(field), ..self.target() }
    }

    /// A command that takes the key first.
    pub(super) fn cmd(&self, verb: &str) -> Cmd {
        let mut cmd = redis::cmd(verb);
        cmd.arg(&*self.key);
        cmd
    }

    pub(super) async fn send(&self, cmd: Cmd) -> Result<Reply> {
        self.send_about(self.target(), cmd).await
    }

    /// Sends what is about a part of it, so that an error can name that.
    pub(super) async fn send_about(&self, target: Target<'_>, cmd: Cmd) -> Result<Reply> {
        self.answer(target, cmd, None).await
    }

    /// Carries out a command of many words and sets the ttl, at once.
    pub(super) async fn write_for(
        &self,
        ttl: Duration,
        verb: &str,
        words: impl IntoIterator<Item = Vec<u8>>,
    ) -> Result<u64> {
        let ttl_ms = span::millis(ttl, self.target())?;
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(WRITE.hash()).arg(1).arg(&*self.key).arg(ttl_ms).arg(verb);
        for word in words {
            cmd.arg(word);
        }
        let answer = self.answer(self.target(), cmd, Some(Arc::clone(&WRITE))).await?;
        self.target().count(&answer)
    }

    async fn answer(&self, target: Target<'_>, cmd: Cmd, script: Option<Arc<Script>>) -> Result<Reply> {
        let slot = slot::slot_of(self.key.as_bytes());
        match self.data.send(slot, cmd, script).await {
            Ok(reply) => Ok(reply),
            Err(error) if fault::is_of_another_kind(&error) => {
                // Only to say what it is: if that cannot be learned, the error is told without.
                let found = self.data.send(slot, self.cmd("TYPE"), None).await.ok();
                Err(target.of_another_kind(error, found.as_ref()))
            }
            Err(error) => Err(target.explain(error)),
        }
    }
}

impl Data {
    pub(super) fn send(
        &self,
        slot: Slot,
        cmd: Cmd,
        script: Option<Arc<Script>>,
    ) -> impl Future<Output = Result<Reply>> + Send + 'static {
        let patience = self.0.terms.timeout;
        self.0.driver.send(Request {
            slot,
            lane: Lane::Calls,
            patience,
            cmd,
            script,
            track: false,
            age: None,
        })
    }
}
