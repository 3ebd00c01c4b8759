//! A cluster of etcd that clients reach by TLS only.

use std::ops::Deref;

use super::{Certificates, Clients};
use crate::{
    etcd::{Access, Etcd},
    servers::Flavor,
};

/// An [`Etcd`] with which clients speak TLS and nothing else.
#[derive(Debug)]
pub struct TlsEtcd {
    etcd: Etcd,
    certificates: Certificates,
}

impl TlsEtcd {
    /// Its certificates.
    #[must_use]
    pub fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    fn launch(flavor: Flavor, members: usize, clients: Clients) -> Result<Self, String> {
        let certificates = Certificates::new()?;
        let set = |name: &str, file: std::path::PathBuf| format!("--{name}={}", file.display());
        let mut server =
            vec![set("cert-file", certificates.server()), set("key-file", certificates.server_key())];
        if clients == Clients::MustShow {
            server.push(set("trusted-ca-file", certificates.authority()));
            server.push("--client-cert-auth".into());
        }
        let client = vec![
            set("cacert", certificates.authority()),
            set("cert", certificates.client()),
            set("key", certificates.client_key()),
        ];
        let access = Access { scheme: "https", server, client };
        Ok(Self { etcd: Etcd::launch(flavor, members, &[], &access)?, certificates })
    }
}

impl Deref for TlsEtcd {
    type Target = Etcd;

    fn deref(&self) -> &Etcd {
        &self.etcd
    }
}

impl Etcd {
    /// Starts members that speak TLS only with clients.
    ///
    /// # Errors
    ///
    /// When the flavor cannot be had or does not start.
    pub fn with_tls(flavor: Flavor, members: usize) -> Result<TlsEtcd, String> {
        TlsEtcd::launch(flavor, members, Clients::MayShow)
    }

    /// Starts members that speak TLS only, and only with clients that show a certificate of their authority.
    ///
    /// # Errors
    ///
    /// When the flavor cannot be had or does not start.
    pub fn with_mutual_tls(flavor: Flavor, members: usize) -> Result<TlsEtcd, String> {
        TlsEtcd::launch(flavor, members, Clients::MustShow)
    }
}
