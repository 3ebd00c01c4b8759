//! Passwords that stand in files of their own. Nothing of what such a file has in it is ever said.

use std::{fmt::Write, fs::File, os::unix::fs::MetadataExt, path::Path};

use super::source;
use crate::{exit::Failure, say::say};

/// Longer than any password, and than the tokens that are used as such.
const MOST_BYTES: u64 = 64 << 10;

/// The password in the file; says so if others can read it too.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let refuse = |why: &str| Failure::usage(format!("the password file {} {why}", path.display()));
    let broken = |error| refuse(&format!("cannot be read: {error}"));
    let file = source::open(path).map_err(broken)?;
    let mode = mode_for_others(&file);
    let bytes = source::read(file, MOST_BYTES + 1).map_err(broken)?;
    let password = one_line(bytes).map_err(refuse)?;
    if let Some(mode) = mode {
        say(&format!(
            "the password file {} has mode {mode:04o}, which lets others read it; chmod 600 it",
            path.display()
        ));
    }
    Ok(password)
}

/// The mode of a file that group or others can read.
pub(super) fn mode_for_others(file: &File) -> Option<u32> {
    let data = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some(data.mode() & 0o7777).filter(|mode| mode & 0o044 != 0)
}

/// Without the end of the line, if there is one.
fn one_line(mut bytes: Vec<u8>) -> Result<Vec<u8>, &'static str> {
    if bytes.len() as u64 > MOST_BYTES {
        return Err("has more than 64 KB");
    }
    if bytes.ends_with(b"\n") {
        bytes.pop();
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
    }
    match bytes {
        bytes if bytes.is_empty() => Err("is empty"),
        bytes if bytes.iter().any(|byte| matches!(byte, b'\n' | b'\r')) => {
            Err("has more than one line; the password stands alone in it")
        }
        bytes => Ok(bytes),
    }
}

/// Why a password cannot be put into this URL, if so.
pub(super) fn objection(url: &str) -> Option<&'static str> {
    match url {
        _ if url.starts_with("memory:") || url.starts_with("file:") => {
            Some("this store has no password; leave it out")
        }
        _ if crate::store::has_password(url) => Some("the engine has a password already; keep one of them"),
        _ if !url.contains("//") => Some("the engine has no place for it; use a URL such as redis://host"),
        _ => None,
    }
}

/// Stores whose URLs have one login, before all hosts.
const ONE_LOGIN: [&str; 4] = ["etcd:", "etcds:", "zookeeper:", "zookeepers:"];

/// Puts the password to every host, or before all of them. User names stay, and the first host's is that of all that have none.
pub(super) fn with_password(url: &str, password: &[u8]) -> String {
    let Some((scheme, rest)) = url.split_once("//") else { return url.to_owned() };
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    let password = encode(password);
    if ONE_LOGIN.contains(&scheme) {
        let (user, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        return format!("{scheme}//{user}:{password}@{hosts}{tail}");
    }
    let first =
        authority.split(',').next().and_then(|host| host.rsplit_once('@')).map_or("", |(user, _)| user);
    let hosts: Vec<String> = authority
        .split(',')
        .map(|host| {
            let (user, host) = host.rsplit_once('@').unwrap_or((first, host));
            format!("{user}:{password}@{host}")
        })
        .collect();
    format!("{scheme}//{}{tail}", hosts.join(","))
}

/// Percent-encodes all that has or might have a meaning in a URL.
fn encode(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_put_to_every_host_and_users_stay() {
        for (url, whole) in [
            ("redis://h:6379/0", "redis://:p%40%2F%25@h:6379/0"),
            ("redis://ana@h", "redis://ana:p%40%2F%25@h"),
            ("redis+cluster://ana@a,b:2", "redis+cluster://ana:p%40%2F%25@a,ana:p%40%2F%25@b:2"),
            (
                "redlock://a:1,ana@b:2,c?layout=x",
                "redlock://:p%40%2F%25@a:1,ana:p%40%2F%25@b:2,:p%40%2F%25@c?layout=x",
            ),
            ("postgres:///db", "postgres://:p%40%2F%25@/db"),
            ("etcd://ana@a:1,b,c/locks", "etcd://ana:p%40%2F%25@a:1,b,c/locks"),
            ("zookeepers://ana@a,b/x?ca=y", "zookeepers://ana:p%40%2F%25@a,b/x?ca=y"),
        ] {
            assert_eq!(with_password(url, b"p@/%"), whole);
            assert_eq!(objection(url), None);
            assert!(!bramah::redacted(whole).contains("%40"), "{whole}");
        }
        assert_eq!(
            with_password("redis://h", "ü \u{7f},:#?".as_bytes()),
            "redis://:%C3%BC%20%7F%2C%3A%23%3F@h"
        );
        assert_eq!(with_password("redis://h", &[0xff]), "redis://:%FF@h");
    }

    #[test]
    fn there_is_one_place_for_a_password() {
        for url in [
            "memory:",
            "file:///a",
            "file:a",
            "redis://u:p@h",
            "redis://a,:p@b",
            "redis://h?password=p",
            "redis:h",
        ] {
            assert!(objection(url).is_some(), "{url}");
        }
    }

    #[test]
    fn a_password_is_one_line() {
        for (text, password) in
            [("hush", "hush"), ("hush\n", "hush"), ("hush\r\n", "hush"), (" hush \n", " hush ")]
        {
            assert_eq!(one_line(text.into()).unwrap(), password.as_bytes());
        }
        for text in ["", "\n", "\r\n", "hush\n\n", "a\nb", "a\rb\n", "\nhush"] {
            assert!(one_line(text.into()).is_err(), "{text:?}");
        }
        let most = usize::try_from(MOST_BYTES).unwrap();
        assert!(one_line(vec![b'x'; most]).is_ok() && one_line(vec![b'x'; most + 1]).is_err());
    }
}
