//! Who stands behind a session, for people who wait for it.

use std::{io::Read, path::Path, sync::Arc};

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

    /// This process: `user@host:pid`. The user is `$USER` or `$LOGNAME`, else what `/etc/passwd` calls the process's user,
    /// else `uid` and its number.
    pub fn this_process() -> Self {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let pid = std::process::id();
        let user = user(|key| std::env::var(key).ok(), Path::new(PASSWD), rustix::process::getuid().as_raw());
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

/// Where local users are listed.
const PASSWD: &str = "/etc/passwd";
/// How much of that is read.
const MOST_PASSWD: u64 = 1 << 20;

/// What the user of this process is called.
fn user(get: impl Fn(&str) -> Option<String>, passwd: &Path, uid: u32) -> String {
    let set = ["USER", "LOGNAME"].into_iter().find_map(|key| get(key).filter(|user| !user.is_empty()));
    set.or_else(|| listed(passwd, uid)).unwrap_or_else(|| format!("uid{uid}"))
}

/// The name of a user in a file of the form of `/etc/passwd`.
fn listed(passwd: &Path, uid: u32) -> Option<String> {
    let mut text = Vec::new();
    std::fs::File::open(passwd).ok()?.take(MOST_PASSWD).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, number) = (fields.next()?, fields.next()?, fields.next()?);
        (number.parse() == Ok(uid) && !name.is_empty()).then(|| name.to_owned())
    })
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

    #[test]
    fn a_user_is_called_by_the_environment_then_by_passwd_then_by_number() {
        let dir = std::env::temp_dir().join(format!("bramah-about-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let passwd = dir.join("passwd");
        let lines = "root:x:0:0:root:/root:/bin/sh\n\n# no user\n:x:7:7\nbad:x:seven:7\nana:x:1000:1000::/home/ana:/bin/sh\n";
        std::fs::write(&passwd, lines).unwrap();
        let none = |_: &str| None;
        let only = |key: &'static str| move |asked: &str| (asked == key).then(|| "eve".to_owned());
        assert_eq!(user(only("USER"), &passwd, 1000), "eve");
        assert_eq!(user(only("LOGNAME"), &passwd, 1000), "eve");
        assert_eq!(user(|_| Some(String::new()), &passwd, 1000), "ana");
        assert_eq!((user(none, &passwd, 0), user(none, &passwd, 1000)), ("root".into(), "ana".into()));
        assert_eq!((user(none, &passwd, 7), user(none, &passwd, 8)), ("uid7".into(), "uid8".into()));
        assert_eq!(user(none, &dir.join("nothing"), 1000), "uid1000");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
