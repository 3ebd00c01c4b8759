//! A new connection: socket, TLS, greeting.

use std::{
    collections::HashSet,
    path::PathBuf,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bramah_core::{Error, ErrorKind, Result};
use bramah_remote::{Lent, Office};
use redis::{
    AsyncConnectionConfig, ProtocolVersion, PushInfo, RedisConnectionInfo, Value, aio::MultiplexedConnection,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::AbortHandle,
};

use super::{
    rejection, tls,
    traffic::{Counted, Traffic},
    within::{nap, within},
};
use crate::{
    config::{Address, Config, Secret, Tls, Topology, read_password},
    error,
};

/// How many requests may wait to be written.
const QUEUE: usize = 4096;

/// How long a server may say nothing before it is asked whether it is there.
const QUIET: Duration = Duration::from_secs(5);

/// What every connection to servers of one kind starts with.
pub(super) struct Dialer {
    user: Option<String>,
    password: Option<Secret>,
    password_file: Option<PathBuf>,
    database: u32,
    tls: Option<Tls>,
    client_name: Option<String>,
    timeout: Duration,
    office: Office,
    /// Who has let us in before. A connection to one of these that ends at once is made again without asking why.
    hosts: Mutex<HashSet<String>>,
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

/// The task that drives a connection. It ends with this; the thread that it is on lives as long.
pub(super) struct Task(AbortHandle, #[expect(dead_code, reason = "kept for its thread")] Office);

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
    pub(super) fn to_data(config: &Config, office: &Office) -> Self {
        Self {
            user: config.user.clone(),
            password: config.password.clone(),
            password_file: config.password_file.clone(),
            database: config.database,
            tls: config.tls.clone(),
            client_name: config.client_name.clone(),
            timeout: config.connect_timeout,
            office: office.clone(),
            hosts: Mutex::default(),
        }
    }

    /// The sentinels' own user and password; the rest is as for the data.
    pub(super) fn to_sentinels(config: &Config, office: &Office) -> Self {
        let (user, password, password_file) = match &config.topology {
            Topology::Sentinel { user, password, password_file, .. } => {
                (user.clone(), password.clone(), password_file.clone())
            }
            _ => (None, None, None),
        };
        Self { user, password, password_file, database: 0, ..Self::to_data(config, office) }
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    /// The thread that connections live on.
    pub(super) fn office(&self) -> &Office {
        &self.office
    }

    /// Whether the files that are named can be used, so that a wrong path is told at once.
    pub(super) fn check(&self) -> Result<()> {
        if let Some(path) = &self.password_file {
            read_password(path)?;
        }
        self.tls.as_ref().map_or(Ok(()), tls::check)
    }

    /// Connects, greets and asks what the server is. `hear` gets every push, on the connection's own task, and is
    /// dropped with it. `traffic` counts what is written and read.
    ///
    /// Done on the thread of the connections, where the connection stays: a caller's runtime may be blocked or end.
    pub(super) fn open(
        self: &Arc<Self>,
        address: &Address,
        hear: impl Fn(PushInfo) + Send + Sync + 'static,
        traffic: Arc<Traffic>,
    ) -> Lent<Line> {
        let (dialer, address) = (Arc::clone(self), address.clone());
        self.office.lend(async move { dialer.open_here(&address, hear, traffic).await })
    }

    async fn open_here(
        &self,
        address: &Address,
        hear: impl Fn(PushInfo) + Send + Sync + 'static,
        traffic: Arc<Traffic>,
    ) -> Result<Line> {
        match within(self.timeout, pin!(self.try_open(address, hear, traffic))).await {
            Ok(Err(error)) if error::is_cut_off(&error) && !self.hosts().contains(&address.to_string()) => {
                Err(self.rejection(address).await.unwrap_or(error))
            }
            Ok(line) => {
                if line.is_ok() {
                    self.hosts().insert(address.to_string());
                }
                line
            }
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

    fn hosts(&self) -> MutexGuard<'_, HashSet<String>> {
        self.hosts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why the server ended a connection before it answered, if it says so to one that writes nothing.
    async fn rejection(&self, address: &Address) -> Option<Error> {
        let connected = async {
            let socket = TcpStream::connect((address.host.as_str(), address.port)).await.ok()?;
            match &self.tls {
                None => rejection::read(socket, &address.to_string()).await,
                Some(tls) => {
                    let stream = tls::shake_hands(tls, address, socket).await.ok()?;
                    rejection::read(stream, &address.to_string()).await
                }
            }
        };
        within(self.timeout, pin!(connected)).await.ok()?
    }

    async fn try_open(
        &self,
        address: &Address,
        hear: impl Fn(PushInfo) + Send + Sync + 'static,
        traffic: Arc<Traffic>,
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
            None => self.greet(address, Counted { stream: socket, traffic }, hear).await,
            Some(tls) => {
                let stream = tls::shake_hands(tls, address, socket).await?;
                self.greet(address, Counted { stream, traffic }, hear).await
            }
        }
    }

    async fn greet<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        &self,
        address: &Address,
        stream: Counted<S>,
        hear: impl Fn(PushInfo) + Send + Sync + 'static,
    ) -> Result<Line> {
        let traffic = Arc::clone(&stream.traffic);
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
        let alive = keep_looking(connection.clone(), Arc::clone(&traffic), self.timeout);
        // At the end of either the connection is closed, and `hear` is dropped.
        let task = self.office.task(async move {
            tokio::select! {
                biased;
                () = driver => {}
                () = alive => {}
            }
        });
        let task = Task(task, self.office.clone());
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

/// Asks a server that has said nothing for a while whether it is there. Ends when it is not: the other end of a connection
/// may be gone without a word, and whoever only listens would never know.
async fn keep_looking(mut connection: MultiplexedConnection, traffic: Arc<Traffic>, limit: Duration) {
    loop {
        let before = traffic.reads();
        nap(QUIET).await;
        if traffic.reads() != before {
            continue;
        }
        // Any answer will do, a refusal too.
        let ping = redis::cmd("PING");
        let _ = within(limit, pin!(connection.send_packed_command(&ping))).await;
        if traffic.reads() == before {
            return;
        }
    }
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
