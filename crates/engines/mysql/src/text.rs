//! Values as they stand in a statement.
//!
//! Texts are sent as their bytes in hexadecimal digits: nothing has to be escaped, whatever the server thinks of backslashes, and
//! no character set of a connection can change them.

use std::fmt::Write;

use bramah_core::SessionId;

/// A name, or anything else that is compared byte by byte.
pub(crate) fn bytes(text: &str) -> String {
    let mut literal = String::with_capacity(2 * text.len() + 3);
    literal.push_str("X'");
    for byte in text.bytes() {
        // Writing to a string cannot fail.
        let _ = write!(literal, "{byte:02x}");
    }
    literal.push('\'');
    literal
}

/// A text for people.
pub(crate) fn quoted(text: &str) -> String {
    format!("_utf8mb4 {}", bytes(text))
}

/// A text that may be missing.
pub(crate) fn optional(text: Option<&str>) -> String {
    text.map_or_else(|| "NULL".to_owned(), quoted)
}

/// A number that may be missing.
pub(crate) fn number(number: Option<u64>) -> String {
    number.map_or_else(|| "NULL".to_owned(), |number| number.to_string())
}

/// A session, as its sixteen bytes.
pub(crate) fn session(session: SessionId) -> String {
    format!("X'{session}'")
}

/// Rows of numbers, in JSON.
pub(crate) fn table(rows: impl Iterator<Item = [u64; 3]>) -> String {
    let mut table = String::from("'[");
    for (at, [first, second, third]) in rows.enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(table, "{comma}[{first},{second},{third}]");
    }
    table.push_str("]'");
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_its_quotes() {
        assert_eq!(bytes("a'\\ é"), "X'61275c20c3a9'");
        assert_eq!(quoted(""), "_utf8mb4 X''");
        assert_eq!(optional(Some("a")), "_utf8mb4 X'61'");
        assert_eq!((number(None), optional(None)), ("NULL".to_owned(), "NULL".to_owned()));
        assert_eq!(session(SessionId::from_bits(0xab)), "X'000000000000000000000000000000ab'");
        assert_eq!(table([[1, 2, 3], [4, 5, 6]].into_iter()), "'[[1,2,3],[4,5,6]]'");
        assert_eq!(table(std::iter::empty()), "'[]'");
    }
}
