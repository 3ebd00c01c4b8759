//! What the server is, and whether it is fit.

use bramah_core::{Error, ErrorKind, Result};

/// The settings of a server that matter here.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) is_mariadb: bool,
    version: String,
    reads_only: bool,
    galera: bool,
    primaries: bool,
    logs_statements: bool,
    shows_connections: bool,
}

impl State {
    /// What to ask for it. Not every server has every one of them.
    pub(crate) const QUESTION: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('version', 'read_only', \
         'super_read_only', 'innodb_read_only', 'wsrep_on', 'group_replication_group_name', \
         'group_replication_single_primary_mode', 'log_bin', 'binlog_format', 'performance_schema')";

    /// Reads the names and values that are answered.
    pub(crate) fn read(settings: &[(String, String)]) -> Self {
        let value = |wanted: &str| {
            let found = settings.iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
            found.map_or("", |(_, value)| value.as_str())
        };
        let is_on = |name: &str| !matches!(value(name), "" | "OFF" | "0");
        let version = value("version").to_owned();
        Self {
            is_mariadb: version.to_ascii_lowercase().contains("mariadb"),
            version,
            reads_only: is_on("read_only") || is_on("super_read_only") || is_on("innodb_read_only"),
            galera: is_on("wsrep_on"),
            primaries: is_on("group_replication_group_name")
                && !is_on("group_replication_single_primary_mode"),
            logs_statements: is_on("log_bin") && value("binlog_format").eq_ignore_ascii_case("STATEMENT"),
            shows_connections: is_on("performance_schema"),
        }
    }

    /// Whether locks can be kept there.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check(&self, server: &str, single_writer: bool) -> Result<()> {
        let refused = |kind, text: String| Err(Error::new(kind, format!("{server} {text}")));
        if !self.is_recent() {
            return refused(
                ErrorKind::Unsupported,
                format!("is {}; the oldest that will do are MySQL 8.0 and MariaDB 10.6", self.version),
            );
        }
        if self.reads_only {
            return refused(
                ErrorKind::Unavailable,
                "takes no writes: it is a replica, or read-only by its settings; point the url at the primary"
                    .to_owned(),
            );
        }
        let cluster = match (self.galera, self.primaries) {
            (true, _) => Some("a node of a Galera cluster"),
            (_, true) => Some("a member of a group with several primaries"),
            _ => None,
        };
        if let Some(cluster) = cluster.filter(|_| !single_writer) {
            return refused(
                ErrorKind::Unsupported,
                format!(
                    "is {cluster}, whose members do not see each other's row locks: two could grant the same lock; \
                     point every client at the same member and say galera=single-writer in the url"
                ),
            );
        }
        if self.logs_statements {
            return refused(
                ErrorKind::Invalid,
                "logs statements, which transactions at READ COMMITTED do not allow; set its binlog_format to ROW or MIXED"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Whether locks can be kept there in session mode: who waits has to be seen, also by users without rights.
    ///
    /// # Errors
    /// Why not.
    pub(crate) fn check_session(&self, server: &str) -> Result<()> {
        let refused = |text: &str| {
            let text = format!("{server} {text}, and without that nobody sees who waits; use mode=table");
            Err(Error::new(ErrorKind::Unsupported, text))
        };
        let mut parts = self.parts();
        match [parts.next(), parts.next(), parts.next()] {
            _ if self.is_mariadb => Ok(()),
            [Some(8), Some(0), Some(0..22)] => {
                refused("is older than MySQL 8.0.22, which is the first with performance_schema.processlist")
            }
            _ if !self.shows_connections => refused("has its performance_schema turned off"),
            _ => Ok(()),
        }
    }

    fn parts(&self) -> impl Iterator<Item = u32> {
        self.version.split(|c: char| !c.is_ascii_digit()).map_while(|part| part.parse().ok())
    }

    fn is_recent(&self) -> bool {
        let mut parts = self.parts();
        let version = (parts.next().unwrap_or(0), parts.next().unwrap_or(0));
        version >= if self.is_mariadb { (10, 6) } else { (8, 0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(settings: &[(&str, &str)]) -> String {
        let owned: Vec<_> =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        match State::read(&owned).check("mysql at db:3306", false) {
            Ok(()) => String::new(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn servers_that_will_do_are_told_from_others() {
        let fit =
            ["8.0.36", "8.0.mysql_aurora.3.04.0", "9.7.4-2", "10.11.18-MariaDB-0+deb12u1", "11.4.2-MariaDB"];
        for version in fit {
            assert_eq!(
                said(&[("version", version), ("read_only", "OFF"), ("wsrep_on", "OFF")]),
                "",
                "{version}"
            );
        }
        for version in ["5.7.44-log", "10.5.9-MariaDB", "8", ""] {
            let said = said(&[("version", version)]);
            assert_eq!(said.contains("the oldest that will do"), version != "8", "{version}: {said}");
        }
    }

    #[test]
    fn session_mode_wants_to_see_who_waits() {
        for (version, shows, is_fit) in [
            ("8.0.22", "ON", true),
            ("9.7.4-2", "ON", true),
            ("8.0.21", "ON", false),
            ("8.4.0", "OFF", false),
            ("10.11.18-MariaDB-0+deb12u1", "OFF", true),
        ] {
            let settings = [("version", version), ("performance_schema", shows)];
            let settings = settings.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let checked = State::read(&settings).check_session("mysql at db:3306");
            assert_eq!(checked.is_ok(), is_fit, "{version}: {checked:?}");
        }
    }

    #[test]
    fn what_a_server_cannot_keep_is_told_by_its_address() {
        let group = ("group_replication_group_name", "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa");
        let cases: [(&[(&str, &str)], &str); 7] = [
            (&[("read_only", "ON")], "takes no writes"),
            (&[("super_read_only", "ON")], "takes no writes"),
            (&[("wsrep_on", "ON")], "Galera"),
            (&[group, ("group_replication_single_primary_mode", "OFF")], "several primaries"),
            (&[group, ("group_replication_single_primary_mode", "ON")], ""),
            (&[("log_bin", "ON"), ("binlog_format", "STATEMENT")], "binlog_format"),
            (&[("log_bin", "ON"), ("binlog_format", "MIXED")], ""),
        ];
        for (settings, expected) in cases {
            let said = said(&[&[("version", "8.4.0")], settings].concat());
            assert_eq!(said.is_empty(), expected.is_empty(), "{settings:?}: {said}");
            assert!(said.contains(expected), "{settings:?}: {said}");
            assert!(said.is_empty() || said.starts_with("mysql at db:3306 "), "{said}");
        }
        let galera = [("version".to_owned(), "8.0.1".to_owned()), ("wsrep_on".to_owned(), "ON".to_owned())];
        State::read(&galera).check("mysql at db:3306", true).unwrap();
    }
}
