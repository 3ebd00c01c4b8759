//! PostgreSQL.

use std::{ffi::OsString, fs, path::Path};

use rustix::process::Signal;

use crate::{
    console::Console,
    daemon::{Daemon, command, password, told},
    patience::{PATIENCE, until},
    servers::{self, Flavor},
    template, user,
};

/// What changes when the template is made in another way.
const TEMPLATE: u32 = 1;

/// Everybody who gets at the socket in the server's own directory is let in. Others need a password.
const ENTRY: &str =
    "local all all trust\nlocal replication all trust\nhost all all 127.0.0.1/32 scram-sha-256\n";

/// What the template is told: one line is one statement. The database that is there anyway becomes ours, for another one
/// would be three hundred files more to copy.
const FIRST: &str = "CREATE ROLE bramah LOGIN\nALTER DATABASE postgres RENAME TO bramah\n\
                     ALTER DATABASE bramah OWNER TO bramah\n";

/// How a server is asked to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// It ends all sessions and then itself, cleanly.
    Fast,
    /// It drops everything, as in a crash, and recovers when it is started again.
    Immediate,
}

/// A PostgreSQL with a user `bramah` and a database `bramah` that is the user's.
///
/// It keeps its data durably: `fsync` and all limits are as PostgreSQL has them when nobody says otherwise. It may be called
/// from several threads. What is asked of a server that does not run is an error.
///
/// ```no_run
/// use bramah_lab::Postgres;
///
/// let postgres = Postgres::start()?;
/// assert_eq!(postgres.sql("SELECT 1")?, "1");
/// # Ok::<(), String>(())
/// ```
#[derive(Debug)]
pub struct Postgres {
    daemon: Daemon,
    password: String,
}

impl Postgres {
    /// Starts a server.
    ///
    /// # Errors
    ///
    /// When PostgreSQL cannot be had or does not start.
    pub fn start() -> Result<Self, String> {
        Self::with(&[])
    }

    /// Starts a server with settings of its own: `("max_connections", "20")`.
    ///
    /// # Errors
    ///
    /// When PostgreSQL cannot be had or does not start.
    pub fn with(settings: &[(&str, &str)]) -> Result<Self, String> {
        let postgres = Daemon::retry(|| Self::prepare(settings), Self::run, |postgres| &postgres.daemon)?;
        // It is told on its input, and it is not said in a log.
        postgres.sql(&format!("ALTER ROLE bramah PASSWORD '{}';", postgres.password))?;
        Ok(postgres)
    }

    fn prepare(settings: &[(&str, &str)]) -> Result<Self, String> {
        let daemon = Daemon::new(Flavor::Postgres, Signal::QUIT)?;
        let name = format!("postgres-{}-{TEMPLATE}", daemon.server.version);
        template::copy(&name, &daemon.file("data"), |data| make_template(&daemon, data))?;
        let postgres = Self { daemon, password: password() };
        postgres.configure(settings)?;
        Ok(postgres)
    }

    /// Adds to its settings. The last word on a setting counts.
    fn configure(&self, settings: &[(&str, &str)]) -> Result<(), String> {
        let port = self.port().to_string();
        let folder = self.daemon.folder().to_string_lossy();
        let mut ours = vec![
            ("listen_addresses", "127.0.0.1"),
            ("port", port.as_str()),
            ("unix_socket_directories", &folder),
            // Debian's needs a library for it that is not fetched.
            ("jit", "off"),
            ("password_encryption", "scram-sha-256"),
        ];
        if cfg!(target_os = "linux") {
            // After a crash: all files at once, and not each by itself, which takes seconds.
            ours.push(("recovery_init_sync_method", "syncfs"));
        }
        let path = self.daemon.file("data/postgresql.conf");
        let mut text =
            fs::read_to_string(&path).map_err(|why| format!("cannot read {}: {why}", path.display()))?;
        for (setting, value) in ours.iter().chain(settings) {
            text.push_str(&format!("\n{setting} = '{}'", value.replace('\\', "\\\\").replace('\'', "''")));
        }
        self.daemon.write("data/postgresql.conf", &(text + "\n"))?;
        self.daemon.write("data/pg_hba.conf", ENTRY)
    }

    fn run(&self) -> Result<(), String> {
        let data = self.daemon.file("data");
        let arguments: [OsString; 2] = ["-D".into(), data.clone().into()];
        self.daemon.run(&arguments, |pid| says_ready(&data.join("postmaster.pid"), pid))
    }

    /// Its port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.daemon.port()
    }

    /// `127.0.0.1:port`.
    #[must_use]
    pub fn address(&self) -> String {
        self.daemon.address()
    }

    /// `postgres://bramah:password@127.0.0.1:port/bramah`.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_at(&self.address())
    }

    /// The same at another address, such as that of a [`Proxy`](crate::Proxy) before it.
    #[must_use]
    pub fn url_at(&self, address: &str) -> String {
        url(&self.password, address)
    }

    /// The version that it told: `15.18`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.daemon.server.version
    }

    /// Its first process, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.daemon.pid()
    }

    /// What it has logged, over all its starts.
    #[must_use]
    pub fn log(&self) -> String {
        self.daemon.log()
    }

    pub(crate) fn password(&self) -> &str {
        &self.password
    }

    /// Runs statements in the database `bramah` through psql, as the superuser. A line is a row, and `|` is between columns.
    ///
    /// # Errors
    ///
    /// With what psql or the server complained about.
    pub fn sql(&self, text: &str) -> Result<String, String> {
        let mut psql = psql()?;
        psql.arg("-h").arg(self.daemon.folder()).args(["-p", &self.port().to_string(), "-U", "postgres"]);
        told(psql.args(["-d", "bramah"]), text)
    }

    /// Runs statements as the user `bramah` over TCP, at another address than its own: through what is before it.
    ///
    /// # Errors
    ///
    /// With what psql, the server or what is before it complained about.
    pub fn sql_at(&self, address: &str, text: &str) -> Result<String, String> {
        sql(&self.password, address, text)
    }

    /// A psql with a session that lasts, as the user `bramah`.
    ///
    /// # Errors
    ///
    /// When there is no psql.
    pub fn console(&self) -> Result<Console, String> {
        let mut psql = psql()?;
        psql.args(["-h", "127.0.0.1", "-p", &self.port().to_string(), "-U", "bramah", "-d", "bramah"]);
        Console::start(psql.env("PGPASSWORD", &self.password))
    }

    /// Asks it to end and waits until it has.
    ///
    /// # Errors
    ///
    /// When it does not run, or does not end.
    pub fn stop(&self, how: How) -> Result<(), String> {
        self.daemon.stop(match how {
            How::Fast => Signal::INT,
            How::Immediate => Signal::QUIT,
        })
    }

    /// Starts it again on the same port with the same data. One that runs is stopped immediately before.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub fn start_again(&self) -> Result<(), String> {
        self.daemon.end();
        self.run()
    }

    /// Stops all its processes where they are. Connections stay, and nobody answers on them.
    ///
    /// # Errors
    ///
    /// When it does not run.
    pub fn freeze(&self) -> Result<(), String> {
        self.daemon.freeze()
    }

    /// Lets a frozen one go on.
    ///
    /// # Errors
    ///
    /// When it does not run.
    pub fn thaw(&self) -> Result<(), String> {
        self.daemon.thaw()
    }

    /// Starts a server that follows this one, with the same settings, and waits until it does.
    ///
    /// # Errors
    ///
    /// When the data cannot be copied, or it does not start or does not follow.
    pub fn standby(&self) -> Result<Self, String> {
        let standby = Daemon::retry(|| self.follower(), Self::run, |standby| &standby.daemon)?;
        until(&format!("{} as a standby", standby.daemon), PATIENCE, || {
            match standby.sql("SELECT status FROM pg_stat_wal_receiver")?.as_str() {
                "streaming" => Ok(()),
                status => Err(format!("its receiver is {status:?}")),
            }
        })?;
        Ok(standby)
    }

    fn follower(&self) -> Result<Self, String> {
        let daemon = Daemon::new(Flavor::Postgres, Signal::QUIT)?;
        let mut copy = command(daemon.server.tool("pg_basebackup")?)?;
        copy.arg("-h").arg(self.daemon.folder()).args(["-p", &self.port().to_string(), "-U", "postgres"]);
        copy.arg("-D").arg(daemon.file("data")).args(["-R", "-X", "stream", "-c", "fast", "--no-password"]);
        told(user::become_other(copy.current_dir(daemon.folder())), "")?;
        let standby = Self { daemon, password: self.password.clone() };
        standby.configure(&[])?;
        Ok(standby)
    }

    /// Makes a standby a server that takes writes, and waits until it is one.
    ///
    /// # Errors
    ///
    /// When it is not a standby, or does not run.
    pub fn promote(&self) -> Result<(), String> {
        match self.sql("SELECT pg_promote(true, 30)")?.as_str() {
            "t" => Ok(()),
            _ => Err(format!("{} was not promoted in time", self.daemon)),
        }
    }
}

pub(crate) fn url(password: &str, address: &str) -> String {
    format!("postgres://bramah:{password}@{address}/bramah")
}

/// Runs statements as the user `bramah` over TCP.
pub(crate) fn sql(password: &str, address: &str, text: &str) -> Result<String, String> {
    let (host, port) = address.rsplit_once(':').ok_or_else(|| format!("{address} has no port"))?;
    let mut psql = psql()?;
    psql.args(["-h", host, "-p", port, "-U", "bramah", "-d", "bramah"]);
    told(psql.env("PGPASSWORD", password), text)
}

/// Tuples only, unaligned, and it ends at the first error.
fn psql() -> Result<std::process::Command, String> {
    let mut psql = command(servers::get(Flavor::Postgres)?.tool("psql")?)?;
    psql.args(["-X", "-q", "-A", "-t", "-w", "-v", "ON_ERROR_STOP=1", "-f", "-"]);
    psql.env("PGCONNECT_TIMEOUT", "30");
    Ok(psql)
}

fn make_template(daemon: &Daemon, data: &Path) -> Result<(), String> {
    let home = data.parent().unwrap_or(data);
    let mut initdb = command(daemon.server.tool("initdb")?)?;
    initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"]).arg(data);
    told(user::become_other(initdb.current_dir(home)), "")?;
    let mut single = command(&daemon.server.server)?;
    single.args(["--single", "-D"]).arg(data).arg("template1");
    told(user::become_other(single.current_dir(home)), FIRST).map(drop)
}

/// Whether its file tells that it is ready, and that it is this process.
fn says_ready(file: &Path, pid: u32) -> Result<(), String> {
    let text = fs::read_to_string(file).map_err(|why| format!("cannot read {}: {why}", file.display()))?;
    let mut lines = text.lines().map(str::trim);
    match (lines.next(), lines.nth(6)) {
        (Some(first), Some("ready")) if first == pid.to_string() => Ok(()),
        (_, status) => Err(format!("its status is {}", status.unwrap_or("not written yet"))),
    }
}
