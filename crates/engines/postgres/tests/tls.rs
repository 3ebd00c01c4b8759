//! By TLS: the server is who it says, and nothing goes in the clear.
#![cfg(feature = "tls")]

use std::sync::Arc;

use bramah_core::{Engine, ErrorKind, Session};
use bramah_lab::{Certificates, TlsDatabase};
use bramah_postgres::Postgres;

#[tokio::test(flavor = "multi_thread")]
async fn the_server_is_checked_and_every_connection_is_sealed() {
    let server = TlsDatabase::postgres().unwrap();
    let trusted = server.certificates().authority().display().to_string();
    let stranger = Certificates::new().unwrap();
    for mode in ["table", "session"] {
        let options = |authority: &str| format!("?mode={mode}&sslmode=verify-full&sslrootcert={authority}");
        let url = format!("{}{}", server.url(), options(&trusted));
        let postgres = Postgres::from_url(&url).unwrap();
        postgres.init().await.unwrap();
        let engine: Arc<dyn Engine> = postgres.into();
        let session = Session::builder(engine).open().await.unwrap();
        let guard = session.mutex("sealed").unwrap().lock().await.unwrap();
        let open = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                     WHERE application_name = 'bramah' AND NOT ssl";
        assert_eq!(server.sql(open).unwrap(), "0", "{mode}");
        let sealed = open.replace("NOT ssl", "ssl");
        assert_ne!(server.sql(&sealed).unwrap(), "0", "{mode}");
        guard.release().await;
        let other = stranger.authority().display().to_string();
        let error = Postgres::from_url(&format!("{}{}", server.url(), options(&other))).unwrap().init().await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("no TLS"), "{error}");
    }
}
