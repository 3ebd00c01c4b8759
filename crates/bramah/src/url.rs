//! What a store's URL says. Pure text.

#[cfg(feature = "file")]
use std::path::PathBuf;

use bramah_core::{Error, ErrorKind, Result};

/// The stores of this build.
pub(crate) const SCHEMES: &[&str] = &[
    "memory:",
    #[cfg(feature = "file")]
    "file:///dir",
    #[cfg(feature = "redis")]
    "redis://host",
    #[cfg(feature = "redis")]
    "redis+sentinel://host,host/service",
    #[cfg(feature = "redis")]
    "redis+cluster://host,host",
    #[cfg(feature = "redis")]
    "redlock://host,host,host",
    #[cfg(feature = "postgres")]
    "postgres://host/database",
    #[cfg(feature = "mysql")]
    "mysql://host/database",
    #[cfg(feature = "etcd")]
    "etcd://host,host,host",
    #[cfg(feature = "zookeeper")]
    "zookeeper://host,host,host/chroot",
];

/// The schemes of Redis URLs. Those with two s are the same over TLS.
#[cfg(feature = "redis")]
pub(crate) const REDIS: &[&str] =
    &["redis", "rediss", "redis+sentinel", "rediss+sentinel", "redis+cluster", "rediss+cluster"];

/// The same, for messages.
fn known() -> String {
    SCHEMES.join(", ")
}

/// The scheme and what follows its colon.
pub(crate) fn scheme(url: &str) -> Result<(&str, &str)> {
    let is_scheme = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_alphabetic())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    };
    url.split_once(':').filter(|(scheme, _)| is_scheme(scheme)).ok_or_else(|| {
        let shown: String = redacted(url).chars().take(80).flat_map(char::escape_debug).collect();
        Error::new(
            ErrorKind::Invalid,
            format!("\"{shown}\" is not the URL of a store; use one of {}", known()),
        )
    })
}

pub(crate) fn unknown(scheme: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("no store for {scheme}: in this build; it has {}", known()))
}

/// The directory of a `file:` URL: `file:///dir`, or `file:dir` relative to where we are. Percent-encoded bytes are
/// decoded.
#[cfg(feature = "file")]
pub(crate) fn directory(rest: &str) -> Result<PathBuf> {
    let wrong = |why: &str| {
        Err(Error::new(ErrorKind::Invalid, format!("file:{rest} names no directory: {why}; use file:///dir")))
    };
    let path = match rest.strip_prefix("//") {
        Some(path) if path.starts_with('/') => path,
        Some(path) => match path.strip_prefix("localhost/") {
            Some(_) => &path["localhost".len()..],
            None => return wrong("it has a host, and files are on this one"),
        },
        None => rest,
    };
    if path.contains(['?', '#']) {
        return wrong("it has options, and there are none (write %3F for a question mark)");
    }
    match decode(path) {
        Some(path) if !path.is_empty() => Ok(path.into()),
        Some(_) => wrong("it is empty"),
        None => wrong("a % is not followed by two hex digits, or the result is not text"),
    }
}

#[cfg(feature = "file")]
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte == b'%' {
            let digits = std::str::from_utf8(rest.get(..2)?).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = rest.get(2..)?;
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

pub(crate) fn redacted(url: &str) -> String {
    let bare = without_users(url);
    let (base, query) = bare.split_once('?').map_or((&*bare, None), |(base, query)| (base, Some(query)));
    match query {
        Some(query) => {
            let keys: Vec<String> = query
                .split('&')
                .map(|pair| match pair.split_once('=') {
                    Some((key, value))
                        if matches!(key, "layout" | "mode" | "fair" | "prefix" | "mutex" | "acl") =>
                    {
                        format!("{key}={value}")
                    }
                    Some((key, _)) => format!("{key}=***"),
                    None => pair.to_owned(),
                })
                .collect();
            format!("{base}?{}", keys.join("&"))
        }
        None => base.to_owned(),
    }
}

/// Cuts user info out. A password may hold any character, also where it should have been encoded, so this errs on the
/// short side: up to the last `@`, of what commas part only the ends behind an `@` are shown. A `file:` URL has no users.
fn without_users(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("//").filter(|(scheme, _)| *scheme != "file:") else {
        return url.to_owned();
    };
    let Some((users, last)) = rest.rsplit_once('@') else { return url.to_owned() };
    // What stands right before the last @ is all of one user.
    let others = users.rsplit_once(',').map_or("", |(others, _)| others);
    let earlier = others.split(',').filter_map(|part| part.rsplit_once('@')).map(|(_, host)| host);
    let hosts: Vec<&str> = earlier.chain([last]).collect();
    format!("{scheme}//{}", hosts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_cut_out_of_urls() {
        for (url, shown) in [
            ("redis://u:p@h:1/0", "redis://h:1/0"),
            ("redis://:p%40@h", "redis://h"),
            ("redlock://u:p@a,u:p@b/x", "redlock://a,b/x"),
            ("redis://u:p@x@h/", "redis://h/"),
            ("redis://u:a/b@h", "redis://h"),
            ("redis://u:p?x@h", "redis://h"),
            ("redlock://u:a,b@h1,u:c,d@h2/0", "redlock://h1,h2/0"),
            ("redlock://a,u:p@b,c", "redlock://b,c"),
            ("redis://h?password=x&layout=plain", "redis://h?password=***&layout=plain"),
            ("etcd://u:p@a,b:2379,c/locks?margin=2s", "etcd://a,b:2379,c/locks?margin=***"),
            ("zookeeper://u:a,b?c@h1,h2/x", "zookeeper://h1,h2/x"),
            ("zookeeper://u:p@h1,h2/x?acl=open&mutex=latch", "zookeeper://h1,h2/x?acl=open&mutex=latch"),
            ("file:///a/b@c", "file:///a/b@c"),
            ("memory:", "memory:"),
        ] {
            assert_eq!(redacted(url), shown);
        }
    }

    #[test]
    fn a_url_that_is_none_is_refused_in_one_line() {
        for url in ["", "nonsense", "/tmp/x", "1a:b", ":x"] {
            assert_eq!(scheme(url).unwrap_err().kind(), ErrorKind::Invalid);
        }
        assert!(unknown("gopher").to_string().contains("gopher"));
    }

    #[cfg(feature = "file")]
    #[test]
    fn directories_are_read_from_file_urls() {
        assert_eq!(directory("///a/b%20c").unwrap(), PathBuf::from("/a/b c"));
        assert_eq!(directory("//localhost/a").unwrap(), PathBuf::from("/a"));
        assert_eq!(directory("x/y").unwrap(), PathBuf::from("x/y"));
        for bad in ["//host/a", "", "//", "///a?b=c", "///%zz", "///%f"] {
            assert_eq!(directory(bad).unwrap_err().kind(), ErrorKind::Invalid, "{bad}");
        }
    }
}
