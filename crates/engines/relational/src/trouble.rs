//! Why there is no answer.

use std::time::Duration;

use bramah_core::{Error, ErrorKind};
use sqlx::error::DatabaseError;

/// Why there is no answer.
#[derive(Debug)]
pub enum Trouble {
    /// All connections were in use for so long, or being made.
    Full(Duration),
    /// No connection was made in this time.
    Unconnected(Duration),
    /// It did not answer in time: whether it was carried out is not known.
    Silent(Duration),
    /// The connection has ended.
    Ended,
    /// The driver, or the server through it, says why.
    Said(sqlx::Error),
}

/// What a server's own error means: of which kind it is, and a line about it. It is given the server, as in `postgres at db:5432`,
/// and its message in one line.
pub type Meaning = fn(&dyn DatabaseError, &str, &str) -> (ErrorKind, String);

impl Trouble {
    /// The error that a caller sees.
    pub fn explain(self, server: &str, meaning: Meaning) -> Error {
        let unavailable = |text: String| Error::new(ErrorKind::Unavailable, text);
        match self {
            Self::Full(patience) => unavailable(format!(
                "{server}: all connections were in use for {patience:.1?}; raise pool= in the url, or ask less at once"
            ))
            .with_no_effect(),
            Self::Unconnected(patience) => unavailable(format!(
                "{server} did not answer the connection within {patience:.1?}; is it up, and the way to it open?"
            )),
            Self::Silent(patience) => unavailable(format!(
                "{server} did not answer within {patience:.1?}; is it frozen, or the way to it?"
            )),
            Self::Ended => unavailable(format!("{server}: the connection has ended; is the server up?")),
            Self::Said(error) => said(error, server, meaning),
        }
    }
}

fn said(error: sqlx::Error, server: &str, meaning: Meaning) -> Error {
    let (kind, text) = match &error {
        sqlx::Error::Database(theirs) => meaning(&**theirs, server, &clean(theirs.message())),
        // So the driver tells what TLS says.
        sqlx::Error::Io(why) if why.kind() == std::io::ErrorKind::InvalidData => (
            ErrorKind::Unavailable,
            format!(
                "{server}: no TLS: {}; is its certificate signed by an authority that you trust, and for this host?",
                clean(&why.to_string())
            ),
        ),
        sqlx::Error::Io(why) => (
            ErrorKind::Unavailable,
            format!(
                "{server} cannot be reached: {}; is it up, and the address right?",
                clean(&why.to_string())
            ),
        ),
        sqlx::Error::Tls(why) => {
            (ErrorKind::Unavailable, format!("{server}: no TLS: {}", clean(&why.to_string())))
        }
        other => (ErrorKind::Unavailable, format!("{server}: {}", clean(&other.to_string()))),
    };
    Error::caused(kind, text, error)
}

/// In one line.
fn clean(text: &str) -> String {
    text.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
