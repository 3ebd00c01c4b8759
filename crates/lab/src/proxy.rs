//! A network that misbehaves on request.

mod link;
mod mesh;
mod weather;

use std::{
    fmt,
    net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

pub(crate) use self::mesh::{Mesh, Place};
use self::{link::Link, weather::Weather};

/// What happens to bytes in one direction, of all connections, from the moment it is set. It also decides about what is
/// still held from before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fault {
    /// They pass.
    #[default]
    Pass,
    /// They are kept, and pass when the fault is over.
    Hold,
    /// They vanish, and so does the end of a connection.
    Drop,
    /// They arrive that much later.
    Delay(Duration),
}

/// What a client sees when the answer to its request is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The connection is reset, after the server has done everything that it was asked on it.
    Kill,
    /// Silence. The connection stays, what is sent on it still arrives, and nothing comes back any more.
    Stall,
    /// The answer itself arrives, and the end of the connection in the same packet. What is sent later does not arrive.
    HangUp,
}

/// What has passed so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Connections that were let through to the server.
    pub connections: u64,
    /// Those of them that are still there.
    pub live: usize,
    /// Connections that were refused, or that the server did not take.
    pub refused: u64,
    /// Bytes that arrived at the server.
    pub requested: u64,
    /// Bytes that arrived at clients.
    pub replied: u64,
    /// Bytes that vanished, in both directions.
    pub swallowed: u64,
    /// Requests that were let through and whose answers were lost.
    pub lost: u64,
}

/// A TCP proxy before one server. Faults may be switched while connections live.
///
/// ```no_run
/// use bramah_lab::{Fault, Loss, Proxy, Redis, servers::Flavor};
///
/// let redis = Redis::start(Flavor::Redis7)?;
/// let proxy = Proxy::to(&redis.address())?;
/// proxy.execute_and_lose(1, Loss::Kill);
/// // A client of proxy.address() gets a reset for its next request, and the server has executed it.
/// proxy.replies(Fault::Hold);
/// // And now it waits for every answer.
/// # Ok::<(), String>(())
/// ```
pub struct Proxy {
    address: SocketAddr,
    weather: Arc<Weather>,
    acceptor: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Listens on a free port of 127.0.0.1 for connections to `address`, like `127.0.0.1:6379`.
    ///
    /// # Errors
    ///
    /// When the address cannot be read, or there is no port.
    pub fn to(address: &str) -> Result<Self, String> {
        let server: SocketAddr = address.parse().map_err(|why| format!("a proxy to {address}: {why}"))?;
        let failed = |why| format!("a proxy to {address} cannot listen: {why}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let weather = Arc::new(Weather::default());
        let shared = Arc::clone(&weather);
        let acceptor = thread::spawn(move || accept(&listener, server, &shared));
        Ok(Self { address, weather, acceptor: Some(acceptor) })
    }

    /// Where clients connect: `127.0.0.1:port`.
    #[must_use]
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// The port of [`address`](Self::address).
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// What happens from now on to what clients send.
    pub fn requests(&self, fault: Fault) {
        self.weather.change(|sky| sky.requests = fault);
    }

    /// What happens from now on to what the server sends.
    pub fn replies(&self, fault: Fault) {
        self.weather.change(|sky| sky.replies = fault);
    }

    /// Whether new connections are closed at once.
    pub fn refuse(&self, refuse: bool) {
        self.weather.change(|sky| sky.refuse = refuse);
    }

    /// Leads new connections to another server from now on. Those that live stay where they are.
    ///
    /// # Errors
    ///
    /// When the address cannot be read.
    pub fn redirect(&self, address: &str) -> Result<(), String> {
        let server = address.parse().map_err(|why| format!("a proxy to {address}: {why}"))?;
        self.weather.change(|sky| sky.server = Some(server));
        Ok(())
    }

    /// Resets all live connections, on both sides, and waits until they are gone. What was held is lost.
    pub fn sever(&self) {
        self.weather.sever();
    }

    /// Lets the next `n` requests through and loses their answers.
    pub fn execute_and_lose(&self, n: usize, loss: Loss) {
        let mut left = n;
        self.lose_replies_matching(loss, move |_| {
            let lose = left > 0;
            left = left.saturating_sub(1);
            lose
        });
    }

    /// Lets every request through for which `matches` is true and loses its answer, until this is called again or
    /// [`lose_nothing`](Self::lose_nothing) is. It is asked of bytes as they came in one read: a small request is whole,
    /// and requests that a client sent together are asked for together. The answers to all of those are lost.
    /// Under TLS the bytes are ciphertext, and the handshake is requests as well.
    pub fn lose_replies_matching(&self, loss: Loss, matches: impl FnMut(&[u8]) -> bool + Send + 'static) {
        self.weather.change(|sky| sky.losing = Some((loss, Box::new(matches))));
    }

    /// Takes back what was asked to be lost and was not yet. Connections that are stalled stay so.
    pub fn lose_nothing(&self) {
        self.weather.change(|sky| sky.losing = None);
    }

    /// What has passed so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.weather.counts()
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("address", &self.address).field("counts", &self.counts()).finish()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.weather.change(|sky| sky.closing = true);
        // The acceptor only looks up when somebody comes.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(acceptor) = self.acceptor.take().filter(|_| woken) {
            let _ = acceptor.join();
        }
        self.sever();
    }
}

fn accept(listener: &TcpListener, server: SocketAddr, weather: &Arc<Weather>) {
    for client in listener.incoming() {
        let (closing, refuse) = weather.door();
        if closing {
            return;
        }
        let Ok(client) = client else { continue };
        let there =
            if refuse { None } else { TcpStream::connect(weather.redirected().unwrap_or(server)).ok() };
        match there {
            Some(there) => Link::start(client, there, weather),
            None => {
                weather.change(|sky| sky.counts.refused += 1);
                // It may be gone already.
                let _ = client.shutdown(Shutdown::Both);
            }
        }
    }
}
