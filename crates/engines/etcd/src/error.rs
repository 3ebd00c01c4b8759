//! What etcd complains about, as core says it.

use std::{io, time::Duration};

use bramah_core::{Error, ErrorKind};
use tonic::{Code, Status};

/// Why a call gave nothing.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// A member said so.
    Said(Status),
    /// None answered within this time.
    Silent(Duration),
    /// What it said makes no sense.
    Odd(&'static str),
}

impl Trouble {
    /// Whether the lease is not there (any more).
    pub(crate) fn is_lease_gone(&self) -> bool {
        self.says("lease not found")
    }

    pub(crate) fn is_lease_there(&self) -> bool {
        self.says("lease already exists")
    }

    pub(crate) fn is_compacted(&self) -> bool {
        self.says("has been compacted")
    }

    /// Whether what answered is no etcd.
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self, Self::Said(status) if is_foreign(status))
    }

    fn says(&self, words: &str) -> bool {
        matches!(self, Self::Said(status) if status.message().contains(words))
    }

    /// As one line.
    pub(crate) fn explain(&self, members: &str) -> Error {
        let status = match self {
            Self::Said(status) => status,
            Self::Silent(span) => {
                let text = format!(
                    "etcd at {members} did not answer within {span:?}; is it running, and can it be reached from here?"
                );
                return Error::new(ErrorKind::Unavailable, text);
            }
            Self::Odd(what) => {
                return Error::new(ErrorKind::Corrupt, format!("etcd at {members}: {what}"));
            }
        };
        let said: String = status.message().chars().take(200).flat_map(char::escape_debug).collect();
        let says = |words: &str| status.message().contains(words);
        let (kind, text) = if let Some(text) = unreached(status) {
            (ErrorKind::Unavailable, text)
        } else if says("authentication failed") || says("authentication is not enabled") {
            (ErrorKind::Denied, format!("{said}; check the user and the password"))
        } else if says("user name is empty") {
            (ErrorKind::Denied, format!("{said}; it asks who you are: etcd://user:password@host"))
        } else if status.code() == Code::PermissionDenied {
            let hint = "the user needs readwrite on its locks and on /bramah/ below the prefix";
            (ErrorKind::Denied, format!("{said}; {hint}"))
        } else if says("space exceeded") {
            let hint = "its NOSPACE alarm is on: compact, defragment and disarm it";
            (ErrorKind::Unavailable, format!("{said}; {hint}"))
        } else if says("no leader") {
            (
                ErrorKind::Unavailable,
                format!("{said}; a majority of its members has to run and see each other"),
            )
        } else if is_passing(status) || is_token(status) {
            (ErrorKind::Unavailable, said)
        } else if says("requested lease not found") {
            (ErrorKind::Lost, "the session's lease has ended, and its locks with it".to_owned())
        } else {
            (ErrorKind::Invalid, said)
        };
        Error::caused(kind, format!("etcd at {members}: {text}"), Said(status.message().to_owned()))
    }
}

/// Why no etcd was reached, and what to do next; `None` if one was. tonic says no more than "transport error".
fn unreached(status: &Status) -> Option<String> {
    let mut cause =
        std::error::Error::source(status).filter(|cause| cause.is::<tonic::transport::Error>())?;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let why: String = cause.to_string().chars().take(200).flat_map(char::escape_debug).collect();
    let kind = cause.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
    Some(match (status.message(), kind) {
        (_, Some(io::ErrorKind::ConnectionRefused)) => {
            "connection refused: nothing listens there; is etcd running, and is the port right (2379 by default)?".to_owned()
        }
        ("dns error", _) => format!("{why}; check the host in the url"),
        ("tcp connect error", _) => format!("{why}; can it be reached from here?"),
        _ if is_foreign(status) => {
            "what listens there does not look like etcd; check host and port, and whether it wants TLS (etcds://)".to_owned()
        }
        _ => format!("{why}; check that etcd runs there, and whether it wants TLS (etcds://)"),
    })
}

/// Whether what answered does not speak HTTP/2, as every etcd does.
fn is_foreign(status: &Status) -> bool {
    let mut cause = std::error::Error::source(status);
    while let Some(error) = cause {
        // What h2 says of a first frame that is none.
        if error.to_string().contains("frame with invalid size") {
            return true;
        }
        cause = error.source();
    }
    false
}

/// What was said, without what tonic has around it.
#[derive(Debug)]
struct Said(String);

impl std::fmt::Display for Said {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Said {}

/// Whether another member, or this one a little later, may answer otherwise.
pub(crate) fn is_passing(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded | Code::Internal | Code::Aborted => true,
        // What tonic has for a connection that broke; etcd for a leader that was lost in the midst.
        Code::Unknown => !status.message().starts_with("etcdserver: user") && !is_token(status),
        Code::ResourceExhausted => status.message().contains("too many requests"),
        Code::FailedPrecondition => status.message().contains("leader"),
        _ => false,
    }
}

/// Whether it wants another token.
pub(crate) fn is_token(status: &Status) -> bool {
    let says = |words: &str| status.message().contains(words);
    status.code() == Code::Unauthenticated
        || says("invalid auth token")
        || says("revision of auth store is old")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_etcd_says_is_told_as_what_it_means() {
        for (code, said, kind, hint) in [
            (
                Code::InvalidArgument,
                "etcdserver: authentication failed, invalid user ID or password",
                ErrorKind::Denied,
                "password",
            ),
            (Code::InvalidArgument, "etcdserver: user name is empty", ErrorKind::Denied, "user:password"),
            (Code::PermissionDenied, "etcdserver: permission denied", ErrorKind::Denied, "readwrite"),
            (
                Code::ResourceExhausted,
                "etcdserver: mvcc: database space exceeded",
                ErrorKind::Unavailable,
                "NOSPACE",
            ),
            (Code::Unavailable, "etcdserver: no leader", ErrorKind::Unavailable, "majority"),
            (Code::Unknown, "transport error", ErrorKind::Unavailable, "transport"),
            (Code::NotFound, "etcdserver: requested lease not found", ErrorKind::Lost, "lease"),
            (Code::Unauthenticated, "etcdserver: invalid auth token", ErrorKind::Unavailable, "token"),
        ] {
            let error = Trouble::Said(Status::new(code, said)).explain("a:2379");
            assert_eq!(error.kind(), kind, "{said}");
            assert!(error.to_string().contains(hint) && !error.to_string().contains('\n'), "{error}");
        }
    }
}
