//! What a lock is called.

use std::{fmt, str::FromStr, sync::Arc};

use crate::{Error, ErrorKind, Result};

/// The name of a lock: 1 to 200 bytes, no control characters, segments parted by `/` and none of them empty.
///
/// Everything else is allowed. An engine that cannot carry a character encodes it; it never refuses a valid name
/// and never maps two names to one.
///
/// ```
/// use bramah_core::Name;
/// assert!(Name::new("orders/42").is_ok());
/// assert!(Name::new("orders//42").is_err());
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(Arc<str>);

impl Name {
    /// The longest name, in bytes.
    pub const MAX_BYTES: usize = 200;

    /// Checks `text` and makes a name of it.
    ///
    /// # Errors
    /// `Invalid`, saying which rule was broken.
    pub fn new(text: impl AsRef<str>) -> Result<Self> {
        let text = text.as_ref();
        let shown: String = text.chars().take(40).flat_map(char::escape_debug).collect();
        let refuse = |why: String| {
            Err(Error::new(
                ErrorKind::Invalid,
                format!("invalid name \"{shown}\": {why}; use 1 to 200 bytes such as orders/42"),
            ))
        };
        if text.is_empty() {
            return refuse("it is empty".into());
        }
        if text.len() > Self::MAX_BYTES {
            return refuse(format!("it has {} bytes, the most is {}", text.len(), Self::MAX_BYTES));
        }
        if text.chars().any(char::is_control) {
            return refuse("it has a control character".into());
        }
        if text.split('/').any(str::is_empty) {
            return refuse("it has an empty segment (a slash at an end, or two in a row)".into());
        }
        Ok(Self(text.into()))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this name is `prefix` or lies below it, segment by segment: `a/b` is under `a`, `ab` is not.
    pub fn is_under(&self, prefix: &Name) -> bool {
        self.0.strip_prefix(&*prefix.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl FromStr for Name {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        Self::new(text)
    }
}

impl TryFrom<&str> for Name {
    type Error = Error;
    fn try_from(text: &str) -> Result<Self> {
        Self::new(text)
    }
}

impl TryFrom<String> for Name {
    type Error = Error;
    fn try_from(text: String) -> Result<Self> {
        Self::new(text)
    }
}

impl TryFrom<&Name> for Name {
    type Error = Error;
    fn try_from(name: &Name) -> Result<Self> {
        Ok(name.clone())
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn awkward_but_legal_names_pass() {
        for text in [
            "a",
            "a/b",
            ".",
            "..",
            "../x",
            "{tag}",
            "*?[x]",
            "'; drop table",
            "ключ",
            "a b",
            "%2F",
            "zookeeper",
        ] {
            assert_eq!(Name::new(text).unwrap().as_str(), text);
        }
        assert!(Name::new("x".repeat(200)).is_ok());
    }

    #[test]
    fn broken_names_are_refused_with_the_rule_they_break() {
        let cases = [
            ("", "empty"),
            ("/a", "segment"),
            ("a/", "segment"),
            ("a//b", "segment"),
            ("a\nb", "control"),
            ("a\0", "control"),
        ];
        for (text, rule) in cases {
            let error = Name::new(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.to_string().contains(rule), "{error}");
            assert!(!error.to_string().contains('\n'));
        }
        assert!(Name::new("x".repeat(201)).unwrap_err().to_string().contains("201 bytes"));
    }

    #[test]
    fn under_goes_by_segments() {
        let a = Name::new("a").unwrap();
        assert!(Name::new("a/b").unwrap().is_under(&a));
        assert!(a.is_under(&a));
        assert!(!Name::new("ab").unwrap().is_under(&a));
    }
}
