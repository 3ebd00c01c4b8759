//! Databases that can be spoken to by TLS.

use std::{fs, ops::Deref, os::unix::fs::PermissionsExt};

use super::Certificates;
use crate::{mariadb::MariaDb, postgres::Postgres, servers::Flavor, user};

/// A database that speaks TLS to whoever wants it.
#[derive(Debug)]
pub struct TlsDatabase<S> {
    server: S,
    certificates: Certificates,
}

impl<S> TlsDatabase<S> {
    /// Its certificates.
    #[must_use]
    pub fn certificates(&self) -> &Certificates {
        &self.certificates
    }
}

impl TlsDatabase<Postgres> {
    /// Starts a PostgreSQL.
    ///
    /// # Errors
    ///
    /// When it cannot be had or does not start.
    pub fn postgres() -> Result<Self, String> {
        let certificates = readable()?;
        let [certificate, key, authority] = files(&certificates);
        let server = Postgres::with(&[
            ("ssl", "on"),
            ("ssl_cert_file", &certificate),
            ("ssl_key_file", &key),
            ("ssl_ca_file", &authority),
        ])?;
        Ok(Self { server, certificates })
    }
}

impl TlsDatabase<MariaDb> {
    /// Starts a [`Flavor::MariaDb`] or a [`Flavor::MySql`].
    ///
    /// # Errors
    ///
    /// When it cannot be had or does not start.
    pub fn mariadb(flavor: Flavor) -> Result<Self, String> {
        let certificates = readable()?;
        let [certificate, key, authority] = files(&certificates);
        let server =
            MariaDb::of(flavor, &[("ssl_cert", &certificate), ("ssl_key", &key), ("ssl_ca", &authority)])?;
        Ok(Self { server, certificates })
    }
}

/// Certificates that the server can read, and nobody else its key.
fn readable() -> Result<Certificates, String> {
    let certificates = Certificates::new()?;
    let key = certificates.server_key();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600))
        .map_err(|why| format!("cannot lock {}: {why}", key.display()))?;
    user::give(certificates.scratch.path())?;
    Ok(certificates)
}

fn files(certificates: &Certificates) -> [String; 3] {
    [certificates.server(), certificates.server_key(), certificates.authority()]
        .map(|path| path.display().to_string())
}

impl<S> Deref for TlsDatabase<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.server
    }
}
