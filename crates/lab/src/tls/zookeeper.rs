//! An ensemble of ZooKeeper that clients reach by TLS.

use std::{fs, net::TcpStream, ops::Deref, path::Path};

use super::{Certificates, Clients};
use crate::{
    daemon::Daemon,
    patience::{PATIENCE, until},
    port::Port,
    zookeeper::ZooKeeper,
};

/// A [`ZooKeeper`] whose members listen for TLS on one more port each. The plain ports stay, for the lab asks there.
#[derive(Debug)]
pub struct TlsZooKeeper {
    zookeeper: ZooKeeper,
    ports: Vec<Port>,
    certificates: Certificates,
}

impl TlsZooKeeper {
    /// Its certificates.
    #[must_use]
    pub fn certificates(&self) -> &Certificates {
        &self.certificates
    }

    /// Where clients connect by TLS, by member: `127.0.0.1:port`.
    #[must_use]
    pub fn secure_addresses(&self) -> Vec<String> {
        self.ports.iter().map(|port| format!("127.0.0.1:{}", port.number())).collect()
    }

    fn launch(members: usize, clients: Clients) -> Result<Self, String> {
        let certificates = Certificates::new()?;
        let ports = (0..members).map(|_| Port::free()).collect::<Result<Vec<_>, _>>()?;
        let text = |path: &Path| {
            fs::read_to_string(path).map_err(|why| format!("cannot read {}: {why}", path.display()))
        };
        // It wants both in one file.
        let identity = text(&certificates.server_key())? + &text(&certificates.server())?;
        let authority = text(&certificates.authority())?;
        let zookeeper = ZooKeeper::launch(members, &[], |member, daemon: &Daemon| {
            daemon.write("identity.pem", &identity)?;
            daemon.write("authority.pem", &authority)?;
            let port = ports.get(member).ok_or_else(|| format!("no member {member}"))?;
            let clients = match clients {
                Clients::MayShow => "want",
                Clients::MustShow => "need",
            };
            Ok(format!(
                "secureClientPort={}\nsecureClientPortAddress=127.0.0.1\n\
                 serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n\
                 ssl.keyStore.location={}\nssl.keyStore.type=PEM\n\
                 ssl.trustStore.location={}\nssl.trustStore.type=PEM\nssl.clientAuth={clients}\n",
                port.number(),
                daemon.file("identity.pem").display(),
                daemon.file("authority.pem").display(),
            ))
        })?;
        let made = Self { zookeeper, ports, certificates };
        // This port is opened after the plain one, which the lab has asked.
        for address in made.secure_addresses() {
            until("the port for TLS", PATIENCE, || {
                TcpStream::connect(&address).map(drop).map_err(|why| format!("{address}: {why}"))
            })?;
        }
        Ok(made)
    }
}

impl Deref for TlsZooKeeper {
    type Target = ZooKeeper;

    fn deref(&self) -> &ZooKeeper {
        &self.zookeeper
    }
}

impl ZooKeeper {
    /// Starts members that listen for TLS too. A client may show a certificate there, and need not.
    ///
    /// # Errors
    ///
    /// When ZooKeeper cannot be had or does not start.
    pub fn with_tls(members: usize) -> Result<TlsZooKeeper, String> {
        TlsZooKeeper::launch(members, Clients::MayShow)
    }

    /// Starts members that listen for TLS too, there only for clients that show a certificate of their authority.
    ///
    /// # Errors
    ///
    /// When ZooKeeper cannot be had or does not start.
    pub fn with_mutual_tls(members: usize) -> Result<TlsZooKeeper, String> {
        TlsZooKeeper::launch(members, Clients::MustShow)
    }
}
