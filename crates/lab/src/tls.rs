//! Servers that speak TLS, and the certificates for them.

mod databases;
mod etcd;
mod zookeeper;

use std::{
    fs,
    ops::Deref,
    path::{Path, PathBuf},
};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

pub use self::{databases::TlsDatabase, etcd::TlsEtcd, zookeeper::TlsZooKeeper};
use crate::{
    redis::{Redis, Role},
    scratch::Scratch,
    servers::Flavor,
};

/// An authority with a certificate for a server on localhost and one for a client, all as PEM files that are removed
/// when this is dropped.
#[derive(Debug)]
pub struct Certificates {
    scratch: Scratch,
}

impl Certificates {
    /// Makes an authority, and two certificates that it signs.
    ///
    /// # Errors
    ///
    /// When the files cannot be written.
    pub fn new() -> Result<Self, String> {
        let made = Self { scratch: Scratch::new()? };
        made.write().map_err(|why| format!("no certificates in {}: {why}", made.scratch.path().display()))?;
        Ok(made)
    }

    fn write(&self) -> Result<(), Box<dyn std::error::Error>> {
        let mut root = CertificateParams::new(Vec::new())?;
        root.distinguished_name.push(DnType::CommonName, "Bramah lab");
        root.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        root.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let root = CertifiedIssuer::self_signed(root, KeyPair::generate()?)?;
        fs::write(self.authority(), root.pem())?;

        let leaf = |names: &[&str], usage| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let mut leaf = CertificateParams::new(names.clone())?;
            // Not the name of the authority, or OpenSSL takes it for signed by itself.
            leaf.distinguished_name.push(DnType::CommonName, names[0].clone());
            leaf.use_authority_key_identifier_extension = true;
            leaf.extended_key_usages.push(usage);
            let key = KeyPair::generate()?;
            Ok::<_, rcgen::Error>((leaf.signed_by(&key, &root)?.pem(), key.serialize_pem()))
        };
        let (certificate, key) = leaf(&["localhost", "127.0.0.1"], ExtendedKeyUsagePurpose::ServerAuth)?;
        fs::write(self.server(), certificate)?;
        fs::write(self.server_key(), key)?;
        let (certificate, key) = leaf(&["client"], ExtendedKeyUsagePurpose::ClientAuth)?;
        fs::write(self.client(), certificate)?;
        fs::write(self.client_key(), key)?;
        Ok(())
    }

    /// The certificate of the authority, which a client has to trust.
    #[must_use]
    pub fn authority(&self) -> PathBuf {
        self.file("authority.pem")
    }

    /// The certificate of a server named `localhost` and 127.0.0.1.
    #[must_use]
    pub fn server(&self) -> PathBuf {
        self.file("server.pem")
    }

    /// Its key.
    #[must_use]
    pub fn server_key(&self) -> PathBuf {
        self.file("server.key")
    }

    /// The certificate of a client.
    #[must_use]
    pub fn client(&self) -> PathBuf {
        self.file("client.pem")
    }

    /// Its key.
    #[must_use]
    pub fn client_key(&self) -> PathBuf {
        self.file("client.key")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }
}

/// Whether clients have to show a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clients {
    MayShow,
    MustShow,
}

/// A server that speaks TLS and nothing else. Otherwise it is a [`Redis`], whose client shows the client's certificate.
#[derive(Debug)]
pub struct TlsRedis {
    redis: Redis,
    certificates: Certificates,
}

impl TlsRedis {
    /// Its certificates.
    #[must_use]
    pub fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    fn launch(flavor: Flavor, clients: &str) -> Result<Self, String> {
        let certificates = Certificates::new()?;
        let text = |path: &Path| path.display().to_string();
        let (authority, server, server_key, client, client_key) = (
            text(&certificates.authority()),
            text(&certificates.server()),
            text(&certificates.server_key()),
            text(&certificates.client()),
            text(&certificates.client_key()),
        );
        let options = [
            ("tls-ca-cert-file", authority.as_str()),
            ("tls-cert-file", &server),
            ("tls-key-file", &server_key),
            ("tls-auth-clients", clients),
        ];
        let entry = ["--tls", "--cacert", &authority, "--cert", &client, "--key", &client_key];
        let entry = entry.into_iter().map(String::from).collect();
        let redis = Redis::launch(flavor, Role::Tls, &options, entry)?;
        Ok(Self { redis, certificates })
    }
}

impl Deref for TlsRedis {
    type Target = Redis;

    fn deref(&self) -> &Redis {
        &self.redis
    }
}

impl Redis {
    /// Starts a server that speaks TLS only. A client may show a certificate, and need not.
    ///
    /// # Errors
    ///
    /// When the flavor cannot be had or the server does not start.
    pub fn with_tls(flavor: Flavor) -> Result<TlsRedis, String> {
        TlsRedis::launch(flavor, "optional")
    }

    /// Starts a server that speaks TLS only, and only with clients that show a certificate of its authority.
    ///
    /// # Errors
    ///
    /// When the flavor cannot be had or the server does not start.
    pub fn with_mutual_tls(flavor: Flavor) -> Result<TlsRedis, String> {
        TlsRedis::launch(flavor, "yes")
    }
}
