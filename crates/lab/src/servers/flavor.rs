//! Which servers there are.

use std::{
    fmt::{self, Display},
    fs,
    ops::RangeInclusive,
    path::{Path, PathBuf},
};

/// A server and its major version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Flavor {
    /// Redis 7, as in Debian bookworm.
    Redis7,
    /// Redis 8, as in Debian trixie.
    Redis8,
    /// Valkey 8, as in Debian trixie.
    Valkey8,
    /// PostgreSQL: the one of the machine, or 15 as in Debian bookworm.
    Postgres,
    /// MariaDB: the one of the machine, or 10.11 as in Debian bookworm.
    MariaDb,
    /// MySQL: the one of the machine, or what Debian sid has, for no release has one.
    MySql,
    /// PgBouncer: the one of the machine, or 1.24 as in Debian trixie. It passes prepared statements on.
    PgBouncer,
    /// etcd 3.4, as in Debian bookworm.
    Etcd34,
    /// etcd 3.5 or newer, as in Debian trixie.
    Etcd35,
    /// ZooKeeper 3.9 as in Debian trixie, on the Java of the machine.
    ZooKeeper,
}

impl Flavor {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Redis7,
        Self::Redis8,
        Self::Valkey8,
        Self::Postgres,
        Self::MariaDb,
        Self::MySql,
        Self::PgBouncer,
        Self::Etcd34,
        Self::Etcd35,
        Self::ZooKeeper,
    ];

    /// Those that [`Redis`](crate::Redis) starts.
    pub const REDIS: [Self; 3] = [Self::Redis7, Self::Redis8, Self::Valkey8];

    /// Those that [`Etcd`](crate::Etcd) starts.
    pub const ETCD: [Self; 2] = [Self::Etcd34, Self::Etcd35];

    /// Its name, for people and for directories: `redis7`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Redis7 => "redis7",
            Self::Redis8 => "redis8",
            Self::Valkey8 => "valkey8",
            Self::Postgres => "postgres",
            Self::MariaDb => "mariadb",
            Self::MySql => "mysql",
            Self::PgBouncer => "pgbouncer",
            Self::Etcd34 => "etcd34",
            Self::Etcd35 => "etcd35",
            Self::ZooKeeper => "zookeeper",
        }
    }

    /// The major versions that will do.
    pub(super) fn majors(self) -> RangeInclusive<u32> {
        match self {
            Self::Etcd34 | Self::Etcd35 | Self::ZooKeeper => 3..=3,
            Self::Redis7 => 7..=7,
            Self::Redis8 | Self::Valkey8 => 8..=8,
            Self::Postgres => 14..=99,
            Self::MariaDb => 10..=99,
            // MariaDB may be called mysqld too, and went on from 10.
            Self::MySql => 8..=9,
            Self::PgBouncer => 1..=1,
        }
    }

    /// The minor versions that will do.
    fn minors(self) -> RangeInclusive<u32> {
        match self {
            Self::Etcd34 => 4..=4,
            Self::Etcd35 => 5..=99,
            _ => 0..=u32::MAX,
        }
    }

    /// The server's program.
    pub(super) fn server(self) -> &'static str {
        match self {
            Self::Redis7 | Self::Redis8 => "redis-server",
            Self::Valkey8 => "valkey-server",
            Self::Postgres => "postgres",
            Self::MariaDb => "mariadbd",
            Self::MySql => "mysqld",
            Self::PgBouncer => "pgbouncer",
            Self::Etcd34 | Self::Etcd35 => "etcd",
            // A script of ours among the unpacked files, for Debian's wants to be installed.
            Self::ZooKeeper => "bramah-zookeeper",
        }
    }

    /// The programs that are needed beside the server: its command line client first.
    pub(super) fn tools(self) -> &'static [&'static str] {
        match self {
            Self::Redis7 | Self::Redis8 => &["redis-cli"],
            Self::Valkey8 => &["valkey-cli"],
            Self::Postgres => &["psql", "initdb", "pg_basebackup"],
            Self::MariaDb => &["mariadb", "mariadb-install-db", "my_print_defaults"],
            Self::MySql => &["mysql"],
            Self::Etcd34 | Self::Etcd35 => &["etcdctl"],
            Self::PgBouncer | Self::ZooKeeper => &[],
        }
    }

    /// The packages that have all of these.
    pub(super) fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Redis7 | Self::Redis8 => &["redis-server"],
            Self::Valkey8 => &["valkey-server"],
            Self::Postgres => &["postgresql-15"],
            Self::MariaDb => &["mariadb-server-core", "mariadb-client-core"],
            Self::MySql => &["mysql-server-core", "mysql-client-core"],
            Self::PgBouncer => &["pgbouncer"],
            Self::Etcd34 | Self::Etcd35 => &["etcd-server", "etcd-client"],
            Self::ZooKeeper => &[
                "libzookeeper-java",
                "libslf4j-java",
                "libdropwizard-metrics-java",
                "libsnappy-java",
                "libcommons-io-java",
                "libnetty-java",
                "libjctools-java",
            ],
        }
    }

    /// Whether its packages are all that is needed of Debian, whatever they say that they depend on.
    pub(super) fn alone(self) -> bool {
        self == Self::ZooKeeper
    }

    /// A program of ours that starts it, and that is put among the unpacked files.
    pub(super) fn script(self) -> Option<&'static str> {
        (self == Self::ZooKeeper).then_some(include_str!("zookeeper.sh"))
    }

    /// What has to be on the path, for it is not taken from Debian.
    pub(super) fn runtime(self) -> Option<&'static str> {
        (self == Self::ZooKeeper).then_some("java")
    }

    /// The release of Debian that has it.
    pub(super) fn suite(self) -> &'static str {
        match self {
            Self::Redis7 | Self::Postgres | Self::MariaDb | Self::Etcd34 => "bookworm",
            Self::Redis8 | Self::Valkey8 | Self::PgBouncer | Self::Etcd35 | Self::ZooKeeper => "trixie",
            Self::MySql => "sid",
        }
    }

    /// Whether its programs start each other, so that each has to be one that can be started as it is.
    pub(super) fn wrapped(self) -> bool {
        !Self::REDIS.contains(&self)
    }

    /// Where Debian has its programs, seen from the root of a system or of unpacked packages.
    pub(super) fn folders(self, root: &Path) -> Vec<PathBuf> {
        let mut folders: Vec<PathBuf> = Vec::new();
        if self == Self::Postgres {
            let versions = fs::read_dir(root.join("usr/lib/postgresql")).into_iter().flatten();
            folders.extend(versions.filter_map(|entry| Some(entry.ok()?.path().join("bin"))));
            // The newest first.
            folders.sort_by_key(|folder| std::cmp::Reverse(major_in(folder)));
        }
        folders.extend(["usr/bin", "usr/sbin"].map(|folder| root.join(folder)));
        folders
    }

    /// Whether a version is one of this flavor.
    pub(super) fn is(self, version: &str) -> bool {
        let mut numbers = version.split('.').map_while(|number| number.parse::<u32>().ok());
        let fits =
            |number: Option<u32>, range: RangeInclusive<u32>| number.is_some_and(|n| range.contains(&n));
        fits(numbers.next(), self.majors()) && fits(numbers.next(), self.minors())
    }
}

impl Display for Flavor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// 15 in `/usr/lib/postgresql/15/bin`.
fn major_in(folder: &Path) -> Option<u32> {
    folder.parent()?.file_name()?.to_str()?.parse().ok()
}

/// The version in what a server prints: `Redis server v=7.0.15 sha=...`, `postgres (PostgreSQL) 15.18 (Debian ...)`,
/// `mariadbd  Ver 10.11.18-MariaDB-0+deb12u1 for ...`.
pub(super) fn version_of(text: &str) -> Option<&str> {
    text.split_whitespace().find_map(|word| {
        let word = word.strip_prefix("v=").unwrap_or(word);
        let end = word.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(word.len());
        let version = word[..end].trim_end_matches('.');
        (version.contains('.') && !version.starts_with('.')).then_some(version)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_and_compared_by_its_major() {
        let text = "Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc-5.3.0 bits=64 build=0\n";
        assert_eq!(version_of(text), Some("7.0.15"));
        assert_eq!(version_of("cannot open shared object"), None);
        assert!(Flavor::Redis7.is("7.0.15") && Flavor::Valkey8.is("8.1.1"));
        assert!(!Flavor::Redis7.is("70.1") && !Flavor::Redis8.is("7.0.15"));
    }

    #[test]
    fn the_versions_of_databases_are_read_too() {
        let said = [
            ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n", "15.18"),
            (
                "mariadbd  Ver 10.11.18-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)\n",
                "10.11.18",
            ),
            ("/usr/sbin/mysqld  Ver 9.7.4-2 for Linux on x86_64 ((Debian))\n", "9.7.4"),
            ("PgBouncer 1.24.1\nlibevent 2.1.12-stable\n", "1.24.1"),
            ("etcd Version: 3.4.23\nGit SHA: Not provided\nGo Version: go1.19.8\n", "3.4.23"),
            ("Apache ZooKeeper, version 3.9.3 2026-03-08 16:19 UTC\n", "3.9.3"),
        ];
        for (text, version) in said {
            assert_eq!(version_of(text), Some(version));
        }
        assert!(Flavor::Postgres.is("15.18") && !Flavor::Postgres.is("9.6.1"));
        assert!(Flavor::Etcd34.is("3.4.23") && !Flavor::Etcd34.is("3.5.16"));
        assert!(Flavor::Etcd35.is("3.5.16") && Flavor::Etcd35.is("3.6.0") && !Flavor::Etcd35.is("3.4.23"));
    }
}
