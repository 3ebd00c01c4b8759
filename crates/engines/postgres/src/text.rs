//! Values as they stand in a statement.

use std::fmt::Write;

use bramah_core::SessionId;

/// A text between quotes. It is the same whatever the server thinks of backslashes. (A NUL cannot be in a PostgreSQL text; names
/// and notes have none.)
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 3);
    quoted.push_str("E'");
    for c in text.chars() {
        match c {
            '\'' => quoted.push_str("''"),
            '\\' => quoted.push_str("\\\\"),
            '\0' => {}
            c => quoted.push(c),
        }
    }
    quoted.push('\'');
    quoted
}

/// A text that may be missing.
pub(crate) fn optional(text: Option<&str>) -> String {
    text.map_or_else(|| "NULL".to_owned(), quoted)
}

/// A number that may be missing.
pub(crate) fn number(number: Option<u64>) -> String {
    number.map_or_else(|| "NULL".to_owned(), |number| number.to_string())
}

/// A session, as a uuid.
pub(crate) fn session(session: SessionId) -> String {
    format!("'{session}'")
}

/// Numbers as an array.
pub(crate) fn array(numbers: impl Iterator<Item = u64>) -> String {
    let mut array = String::from("'{");
    for (at, number) in numbers.enumerate() {
        let comma = if at == 0 { "" } else { "," };
        // Writing to a string cannot fail.
        let _ = write!(array, "{comma}{number}");
    }
    array.push_str("}'");
    array
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_its_quotes() {
        assert_eq!(quoted("o'brien"), "E'o''brien'");
        assert_eq!(quoted("a\\'; DROP TABLE x; --"), "E'a\\\\''; DROP TABLE x; --'");
        assert_eq!(quoted("nul\0"), "E'nul'");
        assert_eq!(array([1, 22, 3].into_iter()), "'{1,22,3}'");
        assert_eq!((number(None), optional(None)), ("NULL".to_owned(), "NULL".to_owned()));
    }
}
