//! MariaDB, and MySQL.

use std::{fs, path::Path};

use rustix::process::Signal;

use crate::{
    console::Console,
    daemon::{Daemon, command, password, told},
    patience::{PATIENCE, until},
    servers::Flavor,
    template, user,
};

/// What changes when the template is made in another way.
const TEMPLATE: u32 = 1;

/// A MariaDB, or a MySQL, with a database `bramah` and a user `bramah` who may do everything in it, and nothing elsewhere.
///
/// It may be called from several threads. What is asked of a server that does not run is an error.
///
/// ```no_run
/// use bramah_lab::MariaDb;
///
/// let mariadb = MariaDb::start()?;
/// assert_eq!(mariadb.sql("SELECT 1")?, "1");
/// # Ok::<(), String>(())
/// ```
#[derive(Debug)]
pub struct MariaDb {
    daemon: Daemon,
    password: String,
}

impl MariaDb {
    /// Starts a server.
    ///
    /// # Errors
    ///
    /// When MariaDB cannot be had or does not start.
    pub fn start() -> Result<Self, String> {
        Self::with(&[])
    }

    /// Starts a server with settings of its own: `("max_connections", "20")`.
    ///
    /// # Errors
    ///
    /// When MariaDB cannot be had or does not start.
    pub fn with(settings: &[(&str, &str)]) -> Result<Self, String> {
        Self::of(Flavor::MariaDb, settings)
    }

    /// Starts a [`Flavor::MariaDb`] or a [`Flavor::MySql`] with settings of its own.
    ///
    /// # Errors
    ///
    /// When the flavor is neither, cannot be had or does not start.
    pub fn of(flavor: Flavor, settings: &[(&str, &str)]) -> Result<Self, String> {
        if !matches!(flavor, Flavor::MariaDb | Flavor::MySql) {
            return Err(format!("{flavor} is not MariaDB; start it with its own type"));
        }
        let mariadb =
            Daemon::retry(|| Self::prepare(flavor, settings), Self::run, |mariadb| &mariadb.daemon)?;
        // It is told on its input, and it is not said in a log.
        told(
            &mut mariadb.client()?,
            &format!(
                "CREATE DATABASE bramah; CREATE USER bramah IDENTIFIED BY '{}'; GRANT ALL ON bramah.* TO bramah;",
                mariadb.password
            ),
        )?;
        Ok(mariadb)
    }

    fn prepare(flavor: Flavor, settings: &[(&str, &str)]) -> Result<Self, String> {
        let daemon = Daemon::new(flavor, Signal::KILL)?;
        let name = format!("{flavor}-{}-{TEMPLATE}", daemon.server.version);
        template::copy(&name, &daemon.file("data"), |data| make_template(&daemon, data))?;
        // MySQL's own number, which all copies would have: it makes another one. MariaDB has none.
        let _ = fs::remove_file(daemon.file("data/auto.cnf"));
        let mariadb = Self { daemon, password: password() };
        mariadb.configure(settings)?;
        Ok(mariadb)
    }

    fn configure(&self, settings: &[(&str, &str)]) -> Result<(), String> {
        let port = self.daemon.port().to_string();
        let paths = [
            ("basedir", base(&self.daemon)?),
            ("datadir", self.daemon.file("data")),
            ("socket", self.daemon.file("socket")),
            ("pid_file", self.daemon.file("pid")),
            ("tmpdir", self.daemon.folder().to_path_buf()),
        ];
        let paths = paths.map(|(setting, path)| (setting, path.to_string_lossy().into_owned()));
        let mut lines = vec![
            ("bind_address", "127.0.0.1"),
            ("port", &port),
            // Root is let in at the socket, and not over TCP.
            ("skip_name_resolve", "ON"),
        ];
        if self.flavor() == Flavor::MySql {
            // Another protocol, on a port that all servers would share.
            lines.push(("mysqlx", "OFF"));
            // A directory that only an installation makes.
            lines.push(("secure_file_priv", "NULL"));
        }
        lines.extend(paths.iter().map(|(setting, path)| (*setting, path.as_str())));
        lines.extend(settings);
        let lines: String = lines.iter().map(|(setting, value)| format!("{setting} = {value}\n")).collect();
        self.daemon.write("server.cnf", &format!("[mysqld]\n{lines}"))
    }

    fn run(&self) -> Result<(), String> {
        let mut file = std::ffi::OsString::from("--defaults-file=");
        file.push(self.daemon.file("server.cnf"));
        self.daemon.run(&[file], |pid| {
            // The file is written when it listens, and one of an earlier start has another process in it.
            let written = fs::read_to_string(self.daemon.file("pid")).unwrap_or_default();
            if written.trim() != pid.to_string() {
                return Err("it does not listen yet".into());
            }
            told(&mut self.client()?, "SELECT 1").map(drop)
        })
    }

    /// Starts a server that follows this one from now on, and takes no writes. This one needs `server_id` and `log_bin`. What the
    /// other gets is committed here before it has it, except on MariaDB with `rpl_semi_sync_master_enabled`.
    ///
    /// # Errors
    ///
    /// When this one writes no log, or the other does not start or does not follow.
    pub fn replica(&self) -> Result<Self, String> {
        let id = self.port().to_string();
        let mut settings = vec![("server_id", id.as_str()), ("read_only", "ON")];
        let is_mariadb = self.flavor() == Flavor::MariaDb;
        if is_mariadb {
            settings.push(("rpl_semi_sync_slave_enabled", "ON"));
        }
        let replica = Self::of(self.flavor(), &settings)?;
        told(
            &mut self.client()?,
            &format!(
                "CREATE USER follower IDENTIFIED BY '{}'; GRANT REPLICATION SLAVE ON *.* TO follower;",
                self.password
            ),
        )?;
        let position = if is_mariadb { "SHOW MASTER STATUS" } else { "SHOW BINARY LOG STATUS" };
        let position = self.sql(position)?;
        let mut columns = position.split('\t');
        let (Some(file), Some(at)) = (columns.next(), columns.next()) else {
            return Err(format!("{} writes no log to follow; set log_bin", self.daemon));
        };
        let (verb, of, key) = match is_mariadb {
            true => ("CHANGE MASTER TO", "MASTER", "MASTER_USE_GTID = no"),
            false => ("CHANGE REPLICATION SOURCE TO", "SOURCE", "GET_SOURCE_PUBLIC_KEY = 1"),
        };
        replica.sql(&format!(
            "{verb} {of}_HOST = '127.0.0.1', {of}_PORT = {}, {of}_USER = 'follower', {of}_PASSWORD = '{}', \
             {of}_LOG_FILE = '{file}', {of}_LOG_POS = {at}, {key}; START REPLICA",
            self.port(),
            self.password,
        ))?;
        until(&format!("{} as a replica", replica.daemon), PATIENCE, || {
            let state = replica.following()?;
            if state.is_connected { Ok(()) } else { Err(state.said) }
        })?;
        Ok(replica)
    }

    /// Makes a replica a server that takes writes, after it has carried out all that it got.
    ///
    /// # Errors
    ///
    /// When it is not a replica, or does not run.
    pub fn promote(&self) -> Result<(), String> {
        self.sql("STOP REPLICA IO_THREAD")?;
        until(&format!("{} to carry out what it got", self.daemon), PATIENCE, || {
            let state = self.following()?;
            if state.is_level { Ok(()) } else { Err(state.said) }
        })?;
        self.sql("STOP REPLICA; SET GLOBAL read_only = OFF").map(drop)
    }

    /// How it follows another one.
    fn following(&self) -> Result<Following, String> {
        let said = told(self.client()?.args(["--column-names", "--vertical"]), "SHOW REPLICA STATUS")?;
        // MySQL has other words in some of the names.
        let of = |names: [&str; 2]| {
            let value = |line: &str| {
                let (name, value) = line.trim().split_once(": ")?;
                names.contains(&name).then(|| value.to_owned())
            };
            said.lines().find_map(value).unwrap_or_default()
        };
        let is_connected = of(["Slave_IO_Running", "Replica_IO_Running"]) == "Yes"
            && of(["Slave_SQL_Running", "Replica_SQL_Running"]) == "Yes";
        let got =
            [of(["Master_Log_File", "Source_Log_File"]), of(["Read_Master_Log_Pos", "Read_Source_Log_Pos"])];
        let done = [
            of(["Relay_Master_Log_File", "Relay_Source_Log_File"]),
            of(["Exec_Master_Log_Pos", "Exec_Source_Log_Pos"]),
        ];
        let is_level = !got[0].is_empty() && got == done;
        let said = format!("{} {} {got:?} {done:?}", of(["Last_IO_Error", ""]), of(["Last_SQL_Error", ""]));
        Ok(Following { is_connected, is_level, said })
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

    /// `mysql://bramah:password@127.0.0.1:port/bramah`.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_at(&self.address())
    }

    /// The same at another address, such as that of a [`Proxy`](crate::Proxy) before it.
    #[must_use]
    pub fn url_at(&self, address: &str) -> String {
        format!("mysql://bramah:{}@{address}/bramah", self.password)
    }

    /// Which server it is.
    #[must_use]
    pub fn flavor(&self) -> Flavor {
        self.daemon.server.flavor
    }

    /// The version that it told: `10.11.18`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.daemon.server.version
    }

    /// Its process, while it runs.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.daemon.pid()
    }

    /// What it has logged, over all its starts.
    #[must_use]
    pub fn log(&self) -> String {
        self.daemon.log()
    }

    /// Runs statements in the database `bramah` through its own client, as root. A line is a row, and a tab is between
    /// columns.
    ///
    /// # Errors
    ///
    /// With what the client or the server complained about.
    pub fn sql(&self, text: &str) -> Result<String, String> {
        told(self.client()?.arg("--database=bramah"), text)
    }

    /// Runs statements as the user `bramah` over TCP.
    ///
    /// # Errors
    ///
    /// With what the client or the server complained about.
    pub fn sql_as_user(&self, text: &str) -> Result<String, String> {
        told(&mut self.user()?, text)
    }

    /// Runs statements in a database as another user, over TCP.
    ///
    /// # Errors
    ///
    /// With what the client or the server complained about.
    pub fn sql_as(&self, user: &str, password: &str, database: &str, text: &str) -> Result<String, String> {
        let mut client = client(&self.daemon)?;
        client.args(["--protocol=tcp", "--host=127.0.0.1"]).arg(format!("--port={}", self.port()));
        client.args([format!("--user={user}"), format!("--database={database}")]);
        told(client.env("MYSQL_PWD", password), text)
    }

    /// Its own client with a session that lasts, as the user `bramah`.
    ///
    /// # Errors
    ///
    /// When there is no client.
    pub fn console(&self) -> Result<Console, String> {
        let mut client = self.user()?;
        Console::start(client.args(["--unbuffered", "--skip-reconnect"]))
    }

    /// The client of the user `bramah`, over TCP.
    fn user(&self) -> Result<std::process::Command, String> {
        let mut client = client(&self.daemon)?;
        client.args(["--protocol=tcp", "--host=127.0.0.1", "--user=bramah", "--database=bramah"]);
        client.arg(format!("--port={}", self.port())).env("MYSQL_PWD", &self.password);
        Ok(client)
    }

    /// Root's client, at the socket.
    fn client(&self) -> Result<std::process::Command, String> {
        let mut client = client(&self.daemon)?;
        let mut socket = std::ffi::OsString::from("--socket=");
        socket.push(self.daemon.file("socket"));
        client.args(["--user=root", "--protocol=socket"]).arg(socket);
        Ok(client)
    }

    /// Asks it to end and waits until it has.
    ///
    /// # Errors
    ///
    /// When it does not run, or does not end.
    pub fn stop(&self) -> Result<(), String> {
        self.daemon.stop(Signal::TERM)
    }

    /// Kills it, as by `kill -9`, and waits until it is gone. One that does not run is left as it is.
    pub fn kill(&self) {
        self.daemon.end();
    }

    /// Starts it again on the same port with the same data. One that runs is killed before.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub fn start_again(&self) -> Result<(), String> {
        self.kill();
        self.run()
    }

    /// Stops it where it is. Connections stay, and nobody answers on them.
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
}

/// How a replica follows.
struct Following {
    is_connected: bool,
    /// It has carried out all that it got.
    is_level: bool,
    said: String,
}

/// No headings, columns as they are, and nobody's settings.
fn client(daemon: &Daemon) -> Result<std::process::Command, String> {
    let mut client = command(daemon.server.cli()?)?;
    client.args(["--no-defaults", "--batch", "--raw", "--skip-column-names", "--connect-timeout=30"]);
    Ok(client)
}

fn make_template(daemon: &Daemon, data: &Path) -> Result<(), String> {
    let option = |name: &str, path: &Path| format!("--{name}={}", path.display());
    let mut install = if daemon.server.flavor == Flavor::MySql {
        let mut mysqld = command(&daemon.server.server)?;
        mysqld.args(["--no-defaults", "--initialize-insecure"]);
        mysqld
    } else {
        let mut install = command(daemon.server.tool("mariadb-install-db")?)?;
        install.args(["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"]);
        install.arg("--skip-name-resolve");
        install
    };
    let home = data.parent().unwrap_or(data);
    // MariaDB's script takes a path apart that has a space in it.
    let installed = home.join("installed");
    std::os::unix::fs::symlink(base(daemon)?, &installed)
        .map_err(|why| format!("cannot make {}: {why}", installed.display()))?;
    install.args([option("basedir", &installed), option("datadir", data)]);
    told(user::become_other(install.current_dir(home)), "").map(drop)
}

/// Where it is installed: the folder above `sbin`, which also has its messages and its first tables.
fn base(daemon: &Daemon) -> Result<std::path::PathBuf, String> {
    let server = daemon.server.server.path();
    let base = server.parent().and_then(Path::parent);
    base.map(Path::to_path_buf).ok_or_else(|| format!("{} is not in a folder of programs", server.display()))
}
