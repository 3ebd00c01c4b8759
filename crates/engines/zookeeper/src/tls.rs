//! TLS with verification, always.

use bramah_core::Result;
use zookeeper_client::{Client, Connector};

use crate::config::Tls;

#[cfg(feature = "tls")]
pub(crate) use with::connect;
#[cfg(not(feature = "tls"))]
pub(crate) use without::connect;

/// What a session by TLS came to: an error of ours, or the driver's.
pub(crate) type Connected = Result<Result<Client, zookeeper_client::Error>>;

#[cfg(feature = "tls")]
mod with {
    use std::path::Path;

    use bramah_core::{Error, ErrorKind};
    use zookeeper_client::TlsOptions;

    use super::{Connected, Connector, Result, Tls};

    /// Connects to an ensemble whose members show certificates that the authority has signed.
    pub(crate) async fn connect(connector: Connector, tls: &Tls, server: &str) -> Connected {
        // The driver takes what the process has, and panics if it has none. Another one that is there is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // Files are read each time: certificates are rotated.
        let options = TlsOptions::new().with_pem_ca(&read(&tls.ca)?).map_err(|why| unfit(&tls.ca, &why))?;
        let options = match &tls.identity {
            Some((cert, key)) => {
                options.with_pem_identity(&read(cert)?, &read(key)?).map_err(|why| unfit(cert, &why))?
            }
            None => options,
        };
        Ok(connector.with_tls(options).secure_connect(server).await)
    }

    fn read(path: &Path) -> Result<String> {
        std::fs::read_to_string(path).map_err(|error| {
            let text = format!("zookeeper url: {} cannot be read: {error}", path.display());
            Error::caused(ErrorKind::Invalid, text, error)
        })
    }

    fn unfit(path: &Path, why: &zookeeper_client::Error) -> Error {
        let text = format!("zookeeper url: {} is no PEM file of what it should be: {why}", path.display());
        Error::new(ErrorKind::Invalid, text)
    }
}

#[cfg(not(feature = "tls"))]
mod without {
    use bramah_core::{Error, ErrorKind};

    use super::{Connected, Connector, Tls};

    pub(crate) async fn connect(_: Connector, _: &Tls, _: &str) -> Connected {
        let text =
            "zookeepers:// needs bramah-zookeeper with its feature tls, which this build does not have";
        Err(Error::new(ErrorKind::Unsupported, text))
    }
}
