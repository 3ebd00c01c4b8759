//! What the server's errors mean here.

use bramah_core::{Error, ErrorKind};
use bramah_relational::Trouble;

/// The error of a call to the server at `address`.
pub(crate) fn of(trouble: Trouble, address: &str) -> Error {
    let unavailable = |text: String| Error::new(ErrorKind::Unavailable, text);
    match trouble {
        Trouble::Full(patience) => unavailable(format!(
            "postgres at {address}: all connections were in use for {patience:.1?}; raise pool= in the url, or ask less at once"
        )),
        Trouble::Unconnected(patience) => unavailable(format!(
            "postgres at {address} did not answer the connection within {patience:.1?}; is it up, and the way to it open?"
        )),
        Trouble::Silent(patience) => unavailable(format!(
            "postgres at {address} did not answer within {patience:.1?}; is it frozen, or the way to it?"
        )),
        Trouble::Said(error) => said(error, address),
    }
}

fn said(error: sqlx::Error, address: &str) -> Error {
    let (kind, text) = match &error {
        sqlx::Error::Database(server) => {
            let code = server.code().unwrap_or_default();
            let message = clean(server.message());
            match &*code {
                "42P01" | "42883" => (
                    ErrorKind::Invalid,
                    format!(
                        "postgres at {address} has no tables of bramah's, or old ones ({message}); run bramah init"
                    ),
                ),
                "25006" => (
                    ErrorKind::Unavailable,
                    format!(
                        "postgres at {address} takes no writes ({message}); point the url at the primary"
                    ),
                ),
                "28000" | "28P01" => {
                    (ErrorKind::Denied, format!("postgres at {address} refuses the login: {message}"))
                }
                "42501" => (
                    ErrorKind::Denied,
                    format!(
                        "postgres at {address} does not allow it: {message}; see docs/engines/postgres.md for the rights needed"
                    ),
                ),
                "3D000" => (
                    ErrorKind::Invalid,
                    format!("postgres at {address}: {message}; create it, or name another"),
                ),
                "BR001" => (
                    ErrorKind::Invalid,
                    format!(
                        "postgres at {address}: {message}; set default_transaction_isolation to read committed for this user"
                    ),
                ),
                "53300" => (
                    ErrorKind::Unavailable,
                    format!(
                        "postgres at {address} has no connection left ({message}); lower pool= in the url, or use a pooler"
                    ),
                ),
                // Connections, resources, the operator, and conflicts that another try resolves.
                code if ["08", "40", "53", "55", "57", "58"].iter().any(|class| code.starts_with(class)) => {
                    (ErrorKind::Unavailable, format!("postgres at {address}: {message}; try again"))
                }
                code => (ErrorKind::Corrupt, format!("postgres at {address}: {message} ({code})")),
            }
        }
        sqlx::Error::Io(why) => (
            ErrorKind::Unavailable,
            format!(
                "postgres at {address} cannot be reached: {}; is it up, and the address right?",
                clean(&why.to_string())
            ),
        ),
        sqlx::Error::Tls(why) => {
            (ErrorKind::Unavailable, format!("postgres at {address}: no TLS: {}", clean(&why.to_string())))
        }
        other => (ErrorKind::Unavailable, format!("postgres at {address}: {}", clean(&other.to_string()))),
    };
    Error::caused(kind, text, error)
}

/// Whether another try at once may succeed: the server undid it for the sake of another.
pub(crate) fn is_undone(trouble: &Trouble) -> bool {
    match trouble {
        Trouble::Said(sqlx::Error::Database(server)) => {
            matches!(server.code().as_deref(), Some("40001" | "40P01"))
        }
        _ => false,
    }
}

/// In one line.
fn clean(text: &str) -> String {
    text.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
