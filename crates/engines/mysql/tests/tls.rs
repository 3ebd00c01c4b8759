//! By TLS: the server is who it says, and nothing goes in the clear.
#![cfg(feature = "tls")]

use std::sync::Arc;

use bramah_core::{Engine, ErrorKind, Session};
use bramah_lab::{Certificates, TlsDatabase, servers::Flavor};
use bramah_mysql::MySql;

#[tokio::test(flavor = "multi_thread")]
async fn the_server_is_checked_and_every_connection_is_sealed() {
    let server = TlsDatabase::mariadb(Flavor::MariaDb).unwrap();
    let trusted = server.certificates().authority().display().to_string();
    let stranger = Certificates::new().unwrap();
    for mode in ["table", "session"] {
        let options = |authority: &str| format!("?mode={mode}&ssl-mode=VERIFY_IDENTITY&ssl-ca={authority}");
        let url = format!("{}{}", server.url(), options(&trusted));
        let mysql = MySql::from_url(&url).unwrap();
        mysql.init().await.unwrap();
        let engine: Arc<dyn Engine> = mysql.into();
        let session = Session::builder(engine).open().await.unwrap();
        let guard = session.mutex("sealed").unwrap().lock().await.unwrap();
        // Who comes in the clear is not let in.
        let user = "ALTER USER bramah REQUIRE SSL";
        server.sql(user).unwrap();
        assert!(guard.confirm().await.unwrap(), "{mode}");
        let clear = format!("{}?mode={mode}&ssl-mode=DISABLED", server.url());
        let error = MySql::from_url(&clear).unwrap().init().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        guard.release().await;
        let other = stranger.authority().display().to_string();
        let error = MySql::from_url(&format!("{}{}", server.url(), options(&other))).unwrap().init().await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        assert!(error.to_string().contains("no TLS"), "{error}");
    }
}
