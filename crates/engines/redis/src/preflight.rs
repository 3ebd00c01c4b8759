//! Whether a server is fit to keep locks. Asked once, when the first session opens.

use std::{collections::HashMap, sync::atomic::Ordering};

use bramah_core::{Error, ErrorKind, Result};
use redis::Value;

use crate::{
    config::{Eviction, Layout},
    driver::{Driver, Node},
    protocol::Protocol,
};

/// The oldest version whose commands the scripts use.
const OLDEST: u64 = 7;

/// What `INFO` told of a node.
#[derive(Debug, Default)]
pub(crate) struct Info(HashMap<String, String>);

impl Info {
    /// Of the text of an answer.
    pub(crate) fn read(text: &str) -> Self {
        let pairs = text.lines().filter_map(|line| line.trim_end().split_once(':'));
        Self(pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect())
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(String::as_str)
    }

    /// The first part of the version of Redis that the server says it can stand in for.
    pub(crate) fn major(&self) -> Option<u64> {
        self.get("redis_version")?.split('.').next()?.parse().ok()
    }
}

/// # Errors
/// `Unsupported` for a server that is too old, or may throw locks away and was not allowed to.
pub(crate) async fn examine<D: Driver>(protocol: &Protocol<D>) -> Result<()> {
    if protocol.examined.load(Ordering::Relaxed) {
        return Ok(());
    }
    for node in protocol.driver.nodes(protocol.terms.timeout).await? {
        let info = match info(protocol, &node).await {
            Ok(info) => info,
            // Whoever may not ask may still lock.
            Err(error) if error.kind() == ErrorKind::Denied => continue,
            Err(error) => return Err(error),
        };
        judge(&node, &info, protocol.terms.layout, protocol.terms.eviction)?;
    }
    protocol.examined.store(true, Ordering::Relaxed);
    Ok(())
}

pub(crate) async fn info<D: Driver>(protocol: &Protocol<D>, node: &Node) -> Result<Info> {
    let answer = protocol.driver.ask(node, redis::cmd("INFO"), protocol.terms.timeout).await?;
    let text = match &answer {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::VerbatimString { text, .. } => text.clone(),
        _ => String::new(),
    };
    Ok(Info::read(&text))
}

fn judge(node: &Node, info: &Info, layout: Layout, eviction: Eviction) -> Result<()> {
    let refuse = |why: String| Err(Error::new(ErrorKind::Unsupported, why));
    if let Some(major) = info.major()
        && major < OLDEST
    {
        let version = info.get("redis_version").unwrap_or_default();
        return refuse(format!("{} has Redis {version}; locks need {OLDEST}.0 or later, or Valkey", node.0));
    }
    match info.get("maxmemory_policy") {
        Some(policy)
            if policy != "noeviction" && layout == Layout::Native && eviction == Eviction::Refused =>
        {
            refuse(format!(
                "{} may throw locks away when its memory is full (maxmemory-policy {policy}); set noeviction, use \
                 another server, or accept it with eviction=allow",
                node.0
            ))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(text: &str, layout: Layout, eviction: Eviction) -> Option<String> {
        judge(&Node("h:1".into()), &Info::read(text), layout, eviction).err().map(|error| error.to_string())
    }

    #[test]
    fn a_server_that_evicts_is_refused_for_lines_unless_it_is_allowed_to() {
        let evicts = "redis_version:7.0.15\r\nmaxmemory_policy:allkeys-lru\r\n";
        let refusal = judged(evicts, Layout::Native, Eviction::Refused).unwrap();
        assert!(
            refusal.contains("h:1") && refusal.contains("allkeys-lru") && refusal.contains("eviction=allow")
        );
        assert_eq!(judged(evicts, Layout::Native, Eviction::Allowed), None);
        assert_eq!(judged(evicts, Layout::Plain, Eviction::Refused), None);
        let keeps = "redis_version:7.0.15\r\nmaxmemory_policy:noeviction\r\n";
        assert_eq!(judged(keeps, Layout::Native, Eviction::Refused), None);
    }

    #[test]
    fn an_old_server_is_refused_by_its_version() {
        let old = judged("redis_version:6.2.14\r\n", Layout::Plain, Eviction::Refused).unwrap();
        assert!(old.contains("6.2.14") && old.contains("7.0"), "{old}");
        assert_eq!(judged("", Layout::Native, Eviction::Refused), None, "a server that does not say");
    }
}
