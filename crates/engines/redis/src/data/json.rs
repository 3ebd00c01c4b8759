//! What is stored, as text and back.

use std::any::type_name;

use bramah_core::{Error, Result};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::error::Category;

use super::Target;

/// The JSON of a value.
///
/// # Errors
/// `Invalid` for what JSON has no form for, as a map with keys that are no texts.
pub(super) fn encode<T: Serialize + ?Sized>(value: &T, target: Target<'_>) -> Result<Vec<u8>> {
    // Serde's own words may quote the value, here and below: they stay here.
    serde_json::to_vec(value).map_err(|_| {
        target.invalid(format_args!("a {} cannot be written as json; use another type", type_name::<T>()))
    })
}

/// The JSON of each.
pub(super) fn encode_all<'a, T: Serialize + ?Sized + 'a>(
    values: impl IntoIterator<Item = &'a T>,
    target: Target<'_>,
) -> Result<Vec<Vec<u8>>> {
    values.into_iter().map(|value| encode(value, target)).collect()
}

/// A value back from its JSON.
///
/// # Errors
/// `Corrupt` for what is not JSON, or not of this type.
pub(super) fn decode<T: DeserializeOwned>(text: &[u8], target: Target<'_>) -> Result<T> {
    serde_json::from_slice(text).map_err(|why| foreign::<T>(&why, target))
}

fn foreign<T>(why: &serde_json::Error, target: Target<'_>) -> Error {
    let what = match why.classify() {
        Category::Data => "json of another type than",
        Category::Io | Category::Syntax | Category::Eof => "not json, so no",
    };
    target.corrupt(format_args!(
        "what is stored is {what} {}; read it as what it is, or use another key",
        type_name::<T>()
    ))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bramah_core::ErrorKind;
    use proptest::prelude::*;

    use super::{super::Noun, *};

    const TARGET: Target<'_> = Target { noun: Noun::Value, key: "k", part: None };

    proptest! {
        #[test]
        fn what_was_written_is_read_back(
            number: i64, fraction in proptest::num::f64::NORMAL, texts: Vec<String>, some: Option<bool>,
        ) {
            let value = (number, fraction, texts, some);
            let text = encode(&value, TARGET).unwrap();
            prop_assert_eq!(decode::<(i64, f64, Vec<String>, Option<bool>)>(&text, TARGET).unwrap(), value);
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = (decode::<String>(&bytes, TARGET), decode::<BTreeMap<String, Vec<f64>>>(&bytes, TARGET));
        }
    }

    #[test]
    fn what_is_foreign_is_told_without_showing_it() {
        for (text, part) in [("\"hush\"", "another type than i64"), ("hush", "not json"), ("", "not json")] {
            let error = decode::<i64>(text.as_bytes(), TARGET).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            let told = format!("{error} {error:?}");
            assert!(told.contains(part) && told.contains("i64") && told.contains("\"k\""), "{told}");
            assert!(!told.contains("hush"), "{told}");
        }
        let deep = "[".repeat(100_000);
        assert_eq!(
            decode::<serde_json::Value>(deep.as_bytes(), TARGET).unwrap_err().kind(),
            ErrorKind::Corrupt
        );
    }

    #[test]
    fn what_json_has_no_form_for_is_invalid() {
        let map = BTreeMap::from([((1, 2), 3)]);
        assert_eq!(encode(&map, TARGET).unwrap_err().kind(), ErrorKind::Invalid);
    }
}
