//! What ZooKeeper and its driver say, in our words.

use std::time::Duration;

use bramah_core::{Error, ErrorKind};
use zookeeper_client::Error as Said;

/// Whether ZooKeeper answered, so that what was asked is known not to have been done. Every other error leaves that open.
pub(crate) fn is_answer(error: &Said) -> bool {
    matches!(
        error,
        Said::NoNode
            | Said::NoAuth
            | Said::BadVersion
            | Said::NoChildrenForEphemerals
            | Said::NodeExists
            | Said::NotEmpty
            | Said::InvalidAcl
            | Said::AuthFailed
            | Said::NotReadOnly
            | Said::QuotaExceeded
            | Said::Throttled
            | Said::MarshallingError
            | Said::Unimplemented
            | Said::UnexpectedErrorCode(_)
            | Said::BadArguments(_)
            | Said::SessionExpired
    )
}

/// The error for `what`, a lock's name or what was done, at `server`.
pub(crate) fn explain(server: &str, what: &str, error: &Said) -> Error {
    let (kind, why) = match error {
        Said::SessionExpired | Said::ClientClosed => {
            (ErrorKind::Lost, "the session has ended, and its locks with it".to_owned())
        }
        Said::NoAuth => (
            ErrorKind::Denied,
            "ZooKeeper does not allow it; see the ACL of the folder, and who created it".to_owned(),
        ),
        Said::AuthFailed => {
            (ErrorKind::Denied, "ZooKeeper does not take the user and password; check the url".to_owned())
        }
        Said::InvalidAcl => (
            ErrorKind::Denied,
            "acl=creator needs a user that ZooKeeper takes; put user:password@ into the url, or use acl=open"
                .to_owned(),
        ),
        Said::QuotaExceeded => (ErrorKind::Denied, "a quota of ZooKeeper is used up".to_owned()),
        Said::Unimplemented => {
            (ErrorKind::Unsupported, "this ZooKeeper is too old; 3.6 and newer will do".to_owned())
        }
        Said::NoChildrenForEphemerals => (
            ErrorKind::Invalid,
            "a part of its path is an ephemeral node, which cannot have children; use another name or chroot"
                .to_owned(),
        ),
        other => (ErrorKind::Unavailable, other.to_string()),
    };
    Error::caused(kind, format!("{what}: {why} (zookeeper {server})"), error.clone())
}

/// The error for an answer that did not come.
pub(crate) fn silent(server: &str, what: &str, patience: Duration) -> Error {
    let text = format!(
        "{what}: no answer within {} ms (zookeeper {server}); is a majority of the members up?",
        patience.as_millis()
    );
    Error::new(ErrorKind::Unavailable, text)
}

/// The error for a session that is not there any more.
pub(crate) fn ended(server: &str) -> Error {
    Error::new(ErrorKind::Lost, format!("zookeeper {server}: the session has ended, and its locks with it"))
}
