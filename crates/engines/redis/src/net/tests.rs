//! The driver against real servers.

mod cluster;
mod faults;
mod sentinels;
mod single;
#[cfg(feature = "tls")]
mod tls;

use std::{
    sync::{Arc, Mutex, Weak},
    time::Duration,
};

use bramah_lab::{Redis, servers::Flavor};
use redis::{Cmd, Value};

use super::Network;
use crate::{
    config::Config,
    driver::{Driver, Ear, Lane, Push, Request},
    script::Script,
};

/// Writes down what it hears.
#[derive(Default)]
pub(super) struct Notes(Mutex<Vec<String>>);

impl Ear for Notes {
    fn hear(&self, push: Push) {
        let line = match push {
            Push::Message { channel, payload } => {
                format!("{}: {}", String::from_utf8_lossy(&channel), String::from_utf8_lossy(&payload))
            }
            Push::Changed { key } => format!("changed {}", String::from_utf8_lossy(&key)),
            Push::Broken => "broken".to_owned(),
        };
        self.0.lock().unwrap().push(line);
    }
}

impl Notes {
    pub(super) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    /// What was heard, as soon as it is as much as this.
    pub(super) async fn at_least(&self, count: usize) -> Vec<String> {
        for _ in 0..400 {
            if self.0.lock().unwrap().len() >= count {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.take()
    }
}

pub(super) fn server() -> Redis {
    Redis::start(Flavor::Redis7).unwrap()
}

pub(super) fn connect(url: &str) -> (Arc<Network>, Arc<Notes>) {
    let notes = Arc::new(Notes::default());
    let ear: Weak<dyn Ear> = Arc::downgrade(&(Arc::clone(&notes) as Arc<dyn Ear>));
    (Arc::new(Network::new(&Config::from_url(url).unwrap(), ear).unwrap()), notes)
}

pub(super) fn cmd(words: &[&str]) -> Cmd {
    let mut cmd = Cmd::new();
    for word in words {
        cmd.arg(word);
    }
    cmd
}

pub(super) fn request(words: &[&str]) -> Request {
    Request {
        slot: words.get(1).map_or(0, |key| super::slot::slot_of(key.as_bytes())),
        lane: Lane::Calls,
        patience: Duration::from_secs(5),
        cmd: cmd(words),
        script: None,
        track: false,
        age: None,
    }
}

/// A call of a script with one key.
pub(super) fn eval(script: &Arc<Script>, key: &str) -> Request {
    Request {
        script: Some(Arc::clone(script)),
        slot: super::slot::slot_of(key.as_bytes()),
        ..request(&["EVALSHA", script.hash(), "1", key])
    }
}

pub(super) fn text(value: &Value) -> String {
    match value {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::Int(number) => number.to_string(),
        Value::Okay => "OK".to_owned(),
        other => format!("{other:?}"),
    }
}

pub(super) async fn get(network: &Network, words: &[&str]) -> String {
    text(&network.send(request(words)).await.unwrap())
}
