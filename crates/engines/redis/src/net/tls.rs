//! TLS with verification, always.

use bramah_core::{Error, ErrorKind, Result};

use crate::config::Tls;

#[cfg(feature = "tls")]
pub(super) use with::{check, shake_hands};
#[cfg(not(feature = "tls"))]
pub(super) use without::{check, shake_hands};

#[cfg(feature = "tls")]
mod with {
    use std::{path::Path, sync::Arc};

    use rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    };
    use tokio::net::TcpStream;
    use tokio_rustls::{TlsConnector, client::TlsStream};

    use super::{Error, ErrorKind, Result, Tls};
    use crate::{config::Address, error::clean};

    /// Whether the files can be read and fit together.
    pub(in crate::net) fn check(tls: &Tls) -> Result<()> {
        client(tls).map(drop)
    }

    /// Makes a connection private, and sure of who is at its other end.
    pub(in crate::net) async fn shake_hands(
        tls: &Tls,
        address: &Address,
        socket: TcpStream,
    ) -> Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(address.host.clone()).map_err(|error| {
            Error::caused(
                ErrorKind::Invalid,
                format!("the host of {address} cannot be in a certificate; use a name or an ip address"),
                error,
            )
        })?;
        // Files are read each time: certificates are rotated.
        TlsConnector::from(Arc::new(client(tls)?)).connect(name, socket).await.map_err(|error| {
            let why = clean(&error.to_string());
            let next = if why.contains("valid for name") || why.contains("NotValidForName") {
                "use a host name that its certificate has"
            } else if why.contains("expired") || why.contains("not valid yet") {
                "it needs a new one, or one of the clocks is wrong"
            } else if why.contains("invalid peer certificate") {
                "name the authority that signed it as ca=<file>"
            } else {
                "does that port speak tls?"
            };
            Error::caused(
                ErrorKind::Unavailable,
                format!("redis at {address} and we could not agree on tls: {why}; {next}"),
                error,
            )
        })
    }

    fn client(tls: &Tls) -> Result<ClientConfig> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::caused(ErrorKind::Unsupported, "tls cannot be set up", error))?
            .with_root_certificates(roots(tls.ca.as_deref())?);
        let Some((chain, key)) = &tls.identity else { return Ok(builder.with_no_client_auth()) };
        let certificates = certificates(chain, "cert")?;
        let private = PrivateKeyDer::from_pem_file(key).map_err(|error| unreadable("key", key, &error))?;
        builder.with_client_auth_cert(certificates, private).map_err(|error| {
            let why = clean(&error.to_string());
            Error::caused(
                ErrorKind::Invalid,
                format!("cert {} and key {} cannot be used together: {why}", chain.display(), key.display()),
                error,
            )
        })
    }

    fn roots(ca: Option<&Path>) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        let found = match ca {
            Some(path) => certificates(path, "ca")?,
            None => rustls_native_certs::load_native_certs().certs,
        };
        roots.add_parsable_certificates(found);
        if roots.is_empty() {
            let text = match ca {
                Some(path) => format!("ca {} has no certificate that can be used", path.display()),
                None => "the system has no certificates to trust; name some with ca=<file>".to_owned(),
            };
            return Err(Error::new(ErrorKind::Invalid, text));
        }
        Ok(roots)
    }

    fn certificates(path: &Path, what: &str) -> Result<Vec<CertificateDer<'static>>> {
        CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect)
            .map_err(|error| unreadable(what, path, &error))
    }

    fn unreadable(what: &str, path: &Path, error: &rustls::pki_types::pem::Error) -> Error {
        let why = clean(&error.to_string());
        Error::new(ErrorKind::Invalid, format!("{what} {} cannot be read as pem: {why}", path.display()))
    }
}

#[cfg(not(feature = "tls"))]
mod without {
    use tokio::net::TcpStream;

    use super::{Error, ErrorKind, Result, Tls};
    use crate::config::Address;

    pub(in crate::net) fn check(_: &Tls) -> Result<()> {
        Err(unsupported())
    }

    pub(in crate::net) async fn shake_hands(_: &Tls, _: &Address, _: TcpStream) -> Result<TcpStream> {
        Err(unsupported())
    }

    fn unsupported() -> Error {
        Error::new(ErrorKind::Unsupported, "this build has no tls; build bramah-redis with the feature tls")
    }
}
