//! A new connection: socket, TLS, greeting.

use std::{
    future::Future,
    path::PathBuf,
    pin::Pin,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bramah_core::{Error, ErrorKind, Result};
use redis::{
    AsyncConnectionConfig, ProtocolVersion, PushInfo, RedisConnectionInfo, Value, aio::MultiplexedConnection,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    task::AbortHandle,
};

use super::tls;
use super::within::within;
use crate::{
    config::{Address, Config, Secret, Tls, Topology, read_password},
    error,
};

/// How many requests may wait to be written.
const QUEUE: usize = 4096;

/// What every connection to servers of one kind starts with.
pub(super) struct Dialer {
    user: Option<String>,
    password: Option<Secret>,
    password_file: Option<PathBuf>,
    database: u32,
    tls: Option<Tls>,
    client_name: Option<String>,
    timeout: Duration,
}

/// A fresh connection.
pub(super) struct Line {
    pub(super) connection: MultiplexedConnection,
    pub(super) task: Task,
    /// `master` or `replica`; sentinels do not say.
    pub(super) role: Option<String>,
}

/// Who a server is.
pub(super) struct Server {
    /// Another one after every start.
    pub(super) id: String,
    /// How long it has run, in whole seconds.
    pub(super) uptime: Duration,
}

impl Line {
    /// What the server says of itself.
    pub(super) async fn server(&mut self, address: &Address) -> Result<Server> {
        let address = address.to_string();
        let info = self.connection.send_packed_command(redis::cmd("INFO").arg("server")).await;
        let info = match info.map_err(|error| error::from_greeting(&error, &address))? {
            Value::ServerError(error) => return Err(error::from_server(&error, &address)),
            info => info,
        };
        let field = |name: &str| {
            let info = text(&info)?;
            info.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
        };
        let seconds = field("uptime_in_seconds").and_then(|seconds| seconds.parse().ok());
        let server = seconds.zip(field("run_id"));
        let server =
            server.map(|(seconds, id)| Server { id: id.to_owned(), uptime: Duration::from_secs(seconds) });
        server.ok_or_else(|| {
            let text = format!(
                "redis at {address} does not say how long it has run, so whether it forgot a lock cannot be told; allow \
                 INFO there, or say restart=trust"
            );
            Error::new(ErrorKind::Denied, text)
        })
    }
}

/// The task that drives a connection. It ends with this.
pub(super) struct Task(AbortHandle);

impl Task {
    pub(super) fn end(&self) {
        self.0.abort();
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Dialer {
    pub(super) fn to_data(config: &Config) -> Self {
        Self {
            user: config.user.clone(),
            password: config.password.clone(),
            password_file: config.password_file.clone(),
            database: config.database,
            tls: config.tls.clone(),
            client_name: config.client_name.clone(),
            timeout: config.connect_timeout,
        }
    }

    /// The sentinels' own user and password; the rest is as for the data.
    pub(super) fn to_sentinels(config: &Config) -> Self {
        let (user, password, password_file) = match &config.topology {
            Topology::Sentinel { user, password, password_file, .. } => {
                (user.clone(), password.clone(), password_file.clone())
            }
            _ => (None, None, None),
        };
        Self { user, password, password_file, database: 0, ..Self::to_data(config) }
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Whether the files that are named can be used, so that a wrong path is told at once.
    pub(super) fn check(&self) -> Result<()> {
        if let Some(path) = &self.password_file {
            read_password(path)?;
        }
        self.tls.as_ref().map_or(Ok(()), tls::check)
    }

    /// Connects, greets and asks what the server is. `hear` gets every push, on the connection's own task, and is
    /// dropped with it. `writes` counts attempts to write.
    pub(super) async fn open(
        &self,
        address: &Address,
        hear: impl Fn(PushInfo) + Send + Sync + 'static,
        writes: Arc<AtomicU64>,
    ) -> Result<Line> {
        match within(self.timeout, pin!(self.try_open(address, hear, writes))).await {
            Ok(line) => line,
            Err(_) => {
                let next = match self.tls {
                    Some(_) => "is it up, and does that port speak tls?",
                    None => "is it up, and the way to it open?",
                };
                let text = format!(
                    "redis at {address} did not answer the connection within {:?}; {next}",
                    self.timeout
                );
                Err(Error::new(ErrorKind::Unavailable, text))
            }
        }
    }

    async fn try_open(
        &self,
        address: &Address,
        hear: impl Fn(PushInfo) + Send + Sync + 'static,
        writes: Arc<AtomicU64>,
    ) -> Result<Line> {
        let refused = |error: std::io::Error| {
            let why = error::clean(&error.to_string());
            Error::caused(
                ErrorKind::Unavailable,
                format!("redis at {address} cannot be reached: {why}; is it up, and the address right?"),
                error,
            )
        };
        let socket = TcpStream::connect((address.host.as_str(), address.port)).await.map_err(refused)?;
        socket.set_nodelay(true).map_err(refused)?;
        match &self.tls {
            None => self.greet(address, Counted { stream: socket, writes }, hear).await,
            Some(tls) => {
                let stream = tls::shake_hands(tls, address, socket).await?;
                self.greet(address, Counted { stream, writes }, hear).await
            }
        }
    }

    async fn greet<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        address: &Address,
        stream: S,
        hear: impl Fn(PushInfo) + Send + Sync + 'static,
    ) -> Result<Line> {
        let settings = AsyncConnectionConfig::new()
            // Ours, by the request's patience.
            .set_response_timeout(None)
            .set_connection_timeout(None)
            .set_pipeline_buffer_size(QUEUE)
            .set_push_sender(move |push| {
                hear(push);
                Ok::<(), redis::aio::SendError>(())
            });
        let (mut connection, driver) =
            MultiplexedConnection::new_with_config(&self.login()?, stream, settings)
                .await
                .map_err(|error| error::from_greeting(&error, &address.to_string()))?;
        let task = Task(spawn(driver));
        let mut greeting = redis::Pipeline::with_capacity(2);
        // HELLO says the role too, and unlike ROLE needs no permission.
        greeting.cmd("HELLO");
        if let Some(name) = &self.client_name {
            greeting.cmd("CLIENT").arg("SETNAME").arg(name);
        }
        let count = greeting.len();
        let answers = connection
            .send_packed_commands(&greeting, 0, count)
            .await
            .map_err(|error| error::from_greeting(&error, &address.to_string()))?;
        let role = match answers.into_iter().next() {
            Some(Value::ServerError(error)) => return Err(error::from_server(&error, &address.to_string())),
            Some(hello) => text_field(&hello, "role"),
            None => None,
        };
        Ok(Line { connection, task, role })
    }

    fn login(&self) -> Result<RedisConnectionInfo> {
        let mut login = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP3)
            .set_db(i64::from(self.database))
            .set_lib_name("bramah", env!("CARGO_PKG_VERSION"));
        if let Some(user) = &self.user {
            login = login.set_username(user);
        }
        if let Some(path) = &self.password_file {
            // Read each time: passwords are rotated.
            login = login.set_password(read_password(path)?.expose());
        } else if let Some(password) = &self.password {
            login = login.set_password(password.expose());
        }
        Ok(login)
    }
}

fn spawn(driver: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
    tokio::spawn(driver).abort_handle()
}

/// A field of a map whose keys are texts.
fn text_field(map: &Value, name: &str) -> Option<String> {
    let Value::Map(fields) = map else { return None };
    fields
        .iter()
        .find(|(key, _)| text(key) == Some(name))
        .and_then(|(_, value)| text(value))
        .map(str::to_owned)
}

/// A text, however the server sends it.
pub(super) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}

/// A stream that counts how often it was written to. Counted before it is tried: what may have left has been counted.
struct Counted<S> {
    stream: S,
    writes: Arc<AtomicU64>,
}

impl<S: AsyncRead + Unpin> AsyncRead for Counted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Counted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        self.writes.fetch_add(1, Ordering::AcqRel);
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
