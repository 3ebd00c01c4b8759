//! A MySQL.

use std::sync::OnceLock;

use bramah_lab::{
    MariaDb,
    servers::{self, Flavor},
};

/// It ends with this process.
pub(crate) fn server() -> &'static MariaDb {
    static SERVER: OnceLock<MariaDb> = OnceLock::new();
    SERVER.get_or_init(|| {
        if let Err(why) = servers::get(Flavor::MySql) {
            // No release of Debian has one. Without it, no test of this program can be run.
            servers::missing(Flavor::MySql, &why);
            std::process::exit(0);
        }
        let server = MariaDb::of(Flavor::MySql, &[]).unwrap();
        // Its first login needs TLS, which its own client has. Then the server remembers.
        server.sql_as_user("select 1").unwrap();
        server
    })
}
