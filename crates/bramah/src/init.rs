//! What a store needs before the first lock.

use bramah_core::{Error, ErrorKind, Result};

use crate::url;

/// Prepares the store at `url`: creates the tables and functions of a database, or brings them up to this version. What is there
/// is kept, and it may be run at any time.
///
/// # Errors
/// `Unsupported` for a store that needs nothing; else what the store says.
pub async fn init(url: &str) -> Result<()> {
    match url::scheme(url)? {
        #[cfg(feature = "postgres")]
        ("postgres" | "postgresql", _) => crate::postgres::Postgres::from_url(url)?.init().await,
        #[cfg(feature = "mysql")]
        ("mysql" | "mariadb", _) => crate::mysql::MySql::from_url(url)?.init().await,
        (scheme, _) => Err(needless(scheme)),
    }
}

/// What [`init`] would run there the first time, to be looked at, or run by somebody who may: a script for `psql`, or for `mysql` and
/// `mariadb`. Nothing is connected to.
///
/// # Errors
/// `Unsupported` for a store that needs nothing.
pub fn schema(url: &str) -> Result<String> {
    match url::scheme(url)? {
        #[cfg(feature = "postgres")]
        ("postgres" | "postgresql", _) => Ok(crate::postgres::SCHEMA.to_owned()),
        #[cfg(feature = "mysql")]
        ("mysql" | "mariadb", _) => Ok(crate::mysql::script()),
        (scheme, _) => Err(needless(scheme)),
    }
}

fn needless(scheme: &str) -> Error {
    let known = |shown: &&&str| shown.split(':').next().is_some_and(|first| scheme.starts_with(first));
    match crate::schemes().iter().find(known) {
        Some(_) => {
            Error::new(ErrorKind::Unsupported, format!("{scheme}: needs no preparation: use it as it is"))
        }
        None => url::unknown(scheme),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_store_that_needs_nothing_says_so() {
        for (url, said) in [
            ("memory:", "memory: needs no preparation: use it as it is"),
            #[cfg(feature = "etcd")]
            ("etcds://x", "etcds: needs no preparation: use it as it is"),
            #[cfg(feature = "zookeeper")]
            ("zookeeper://x", "zookeeper: needs no preparation: use it as it is"),
            ("gopher://x", "no store for gopher: in this build"),
        ] {
            assert!(schema(url).unwrap_err().to_string().starts_with(said), "{url}");
            assert!(init(url).await.unwrap_err().to_string().starts_with(said), "{url}");
        }
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn what_would_be_run_can_be_read() {
        assert!(schema("postgres://nowhere").unwrap().contains("CREATE TABLE IF NOT EXISTS bramah_claims"));
    }
}
