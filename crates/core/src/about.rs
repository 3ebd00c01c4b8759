//! Who stands behind a session, for people who wait for it.

use std::sync::Arc;

use crate::{Error, ErrorKind, Result};

/// The process behind a session. Shown to whoever waits; never consulted for a grant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// A name for a person or a job: `ana@ci-7:812` unless set.
    pub owner: Arc<str>,
    /// The machine.
    pub host: Arc<str>,
    /// The process on it.
    pub pid: u32,
    /// More facts, as key and value.
    pub labels: Vec<(Arc<str>, Arc<str>)>,
}

impl About {
    /// The longest encoded form, in bytes.
    pub const MAX_BYTES: usize = 4096;

    /// This process: `user@host:pid`.
    pub fn this_process() -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let pid = std::process::id();
        let user = ["USER", "LOGNAME"]
            .iter()
            .find_map(|key| std::env::var(key).ok().filter(|user| !user.is_empty()))
            .unwrap_or_else(|| format!("uid{}", rustix::process::getuid().as_raw()));
        Self { owner: format!("{user}@{host}:{pid}").into(), host: host.into(), pid, labels: Vec::new() }
    }

    /// One line of text that [`decode`](About::decode) reads back: words parted by spaces, each percent-encoded.
    pub fn encode(&self) -> String {
        let mut text = format!("1 {} {} {}", escape(&self.owner), escape(&self.host), self.pid);
        for (key, value) in &self.labels {
            text.push_str(&format!(" {}={}", escape(key), escape(value)));
        }
        text
    }

    /// Reads what [`encode`](About::encode) wrote.
    ///
    /// # Errors
    /// `Corrupt`, with what was found, also for a newer version of the format.
    pub fn decode(text: &str) -> Result<Self> {
        let wrong = |why: &str| {
            Error::new(ErrorKind::Corrupt, format!("a session's description is not readable: {why}"))
        };
        let mut words = text.trim_end().split(' ');
        match words.next() {
            Some("1") => {}
            Some(version) if version.parse::<u32>().is_ok() => {
                return Err(wrong(&format!(
                    "it has format {version}, this version reads 1; use a newer bramah"
                )));
            }
            _ => return Err(wrong("it does not start with a format number")),
        }
        let mut field = |what: &str| words.next().map(unescape).ok_or_else(|| wrong(&format!("no {what}")));
        let (owner, host, pid) = (field("owner")?, field("host")?, field("pid")?);
        let pid = pid.parse().map_err(|_| wrong("the pid is not a number"))?;
        let labels = words
            .map(|word| {
                word.split_once('=').map(|(key, value)| (unescape(key).into(), unescape(value).into()))
            })
            .collect::<Option<_>>()
            .ok_or_else(|| wrong("a label without a value"))?;
        Ok(Self { owner: owner.into(), host: host.into(), pid, labels })
    }
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '%' || c == '=' || c.is_whitespace() || c.is_control() {
            let mut buffer = [0; 4];
            for byte in c.encode_utf8(&mut buffer).bytes() {
                out.push_str(&format!("%{byte:02x}"));
            }
        } else {
            out.push(c);
        }
    }
    out
}

fn unescape(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let code = text
            .get(at + 1..at + 3)
            .filter(|_| byte == b'%')
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        out.push(code.unwrap_or(byte));
        at += if code.is_some() { 3 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_written_is_read_back(owner in ".*", host in ".*", pid: u32, labels in prop::collection::vec((".*", ".*"), 0..4)) {
            let labels = labels.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
            let about = About { owner: owner.into(), host: host.into(), pid, labels };
            prop_assert_eq!(About::decode(&about.encode()).unwrap(), about.clone());
            prop_assert!(!about.encode().contains('\n'));
        }

        #[test]
        fn no_text_panics(text in ".*") {
            let _ = About::decode(&text);
        }
    }

    #[test]
    fn a_newer_format_is_refused_by_name() {
        assert!(About::decode("2 a b 3").unwrap_err().to_string().contains("format 2"));
    }
}
