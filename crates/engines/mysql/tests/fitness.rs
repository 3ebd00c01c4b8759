//! Which servers will do, and what is told of those that will not.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod stage;

use std::{sync::Arc, time::Duration};

use bramah_core::{Engine, Error, ErrorKind, Guard, Scope, Session};
use bramah_lab::{MariaDb as Server, servers::Flavor};
use bramah_mysql::MySql;

use crate::stage::flavors;

async fn open(url: &str) -> Result<Session, Error> {
    let engine: Arc<dyn Engine> = MySql::from_url(url)?.into();
    Session::builder(engine).ttl(Duration::from_secs(4)).open().await
}

/// Locks, renews and releases; one of two waits for the other.
async fn works(url: &str, name: &str) -> Result<(), Error> {
    let (first, second) = (open(url).await?, open(url).await?);
    let guard = first.mutex(name)?.reason("ein Grund: \\ ' \" 😂").lock().await?;
    let beside = first.mutex("beside")?.lock().await?;
    guard.confirm().await?;
    let mutex = second.mutex(name)?;
    assert!(mutex.try_lock().await?.is_none(), "{name} is given twice");
    let waiter = tokio::spawn(async move { mutex.lock().await });
    while second.claims() == 0 {
        tokio::task::yield_now().await;
    }
    // Nothing is lost in a round of renewals.
    tokio::time::timeout(Duration::from_secs(30), renewed(&guard)).await.expect("no renewal");
    assert!(guard.is_held() && beside.is_held(), "a lock was lost");
    assert_eq!(first.survey(&Scope::All).await?.len(), 2);
    let fence = guard.fence();
    guard.release().await;
    let next = tokio::time::timeout(Duration::from_secs(10), waiter).await.expect("no grant").unwrap()?;
    assert!(next.fence() > fence);
    next.release().await;
    assert!(beside.confirm().await?);
    beside.release().await;
    for session in [first, second] {
        assert_eq!(session.close(Duration::from_secs(5)).await.left, []);
    }
    Ok(())
}

async fn renewed(guard: &Guard) {
    loop {
        let before = guard.remaining();
        tokio::time::sleep(Duration::from_millis(20)).await;
        if guard.remaining() > before {
            return;
        }
    }
}

async fn refused(url: &str, kind: ErrorKind, said: &str) {
    let error = open(url).await.unwrap_err();
    let text = error.to_string();
    assert_eq!(error.kind(), kind, "{text}");
    assert!(text.contains(said) && text.contains("mysql at 127.0.0.1:") && !text.contains('\n'), "{text}");
    let password = url.split([':', '@']).nth(2).unwrap();
    assert!(!text.contains(password), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_a_server_is_set_to_it_does_the_same() {
    for flavor in flavors() {
        for format in ["ROW", "MIXED"] {
            let settings = [
                ("sql_mode", "NO_BACKSLASH_ESCAPES,ANSI_QUOTES,PIPES_AS_CONCAT"),
                ("transaction_isolation", "SERIALIZABLE"),
                ("character_set_server", "latin1"),
                ("autocommit", "0"),
                ("default_time_zone", "+05:00"),
                ("auto_increment_increment", "7"),
                ("server_id", "1"),
                ("log_bin", "changes"),
                ("binlog_format", format),
            ];
            let server = Server::of(flavor, &settings).unwrap();
            let mysql = MySql::from_url(&server.url()).unwrap();
            mysql.init().await.unwrap();
            works(&server.url(), "it's \\ a \"name\" ü").await.unwrap();
            assert_eq!(server.sql("SELECT @@log_bin, @@binlog_format").unwrap(), format!("1\t{format}"));
            // Again over what is there.
            mysql.init().await.unwrap();
            works(&server.url(), "again").await.unwrap();
        }
    }
}

/// What sessions begin with is the server's to say, and would end our transactions early, cut our answers short, or refuse them.
#[tokio::test(flavor = "multi_thread")]
async fn whatever_sessions_begin_with_they_do_the_same() {
    let mut failed = Vec::new();
    for flavor in flavors() {
        let server = Server::of(flavor, &[]).unwrap();
        MySql::from_url(&server.url()).unwrap().init().await.unwrap();
        let limit = match flavor {
            Flavor::MariaDb => "SET GLOBAL max_statement_time = 0.000001",
            _ => "SET GLOBAL max_execution_time = 1",
        };
        let defaults = [
            ("SET GLOBAL completion_type = 1", "SET GLOBAL completion_type = 0"),
            ("SET GLOBAL completion_type = 2", "SET GLOBAL completion_type = 0"),
            ("SET GLOBAL sql_select_limit = 1", "SET GLOBAL sql_select_limit = 18446744073709551615"),
            ("SET GLOBAL sql_safe_updates = ON", "SET GLOBAL sql_safe_updates = OFF"),
            (
                "SET GLOBAL max_join_size = 1; SET GLOBAL sql_big_selects = OFF",
                "SET GLOBAL max_join_size = 18446744073709551615; SET GLOBAL sql_big_selects = ON",
            ),
            ("SET GLOBAL TRANSACTION READ ONLY", "SET GLOBAL TRANSACTION READ WRITE"),
            (limit, &limit.replace("0.000001", "0").replace("= 1", "= 0")),
        ];
        for (at, (set, reset)) in defaults.into_iter().enumerate() {
            server.sql(set).unwrap();
            for mode in ["table", "session"] {
                // Another engine each time, with connections of its own.
                let url = format!("{}?mode={mode}&pool={}", server.url(), at + 2);
                if let Err(why) = works(&url, "it").await {
                    failed.push(format!("{flavor}, {mode}, after {set}: {why}"));
                }
            }
            server.sql(reset).unwrap();
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_will_not_do_is_refused_in_a_line() {
    for flavor in flavors() {
        let server = Server::of(flavor, &[]).unwrap();
        let url = server.url();
        refused(&url, ErrorKind::Invalid, "run bramah init").await;
        let mysql = MySql::from_url(&url).unwrap();
        mysql.init().await.unwrap();
        works(&url, "fit").await.unwrap();
        drop(mysql);

        server.sql("SET GLOBAL read_only = ON").unwrap();
        refused(&url, ErrorKind::Unavailable, "takes no writes").await;
        server.sql("SET GLOBAL read_only = OFF").unwrap();

        server.sql("ALTER TABLE bramah_floors ENGINE=MyISAM").unwrap();
        refused(&url, ErrorKind::Invalid, "InnoDB").await;
        server.sql("ALTER TABLE bramah_floors ENGINE=InnoDB").unwrap();

        server.sql("UPDATE bramah_schema SET version = 99").unwrap();
        refused(&url, ErrorKind::Invalid, "use a newer bramah").await;
        let error = MySql::from_url(&url).unwrap().init().await.unwrap_err();
        assert!(error.to_string().contains("use a newer bramah"), "{error}");
        server.sql("UPDATE bramah_schema SET version = 3").unwrap();

        let elsewhere = format!("{}elsewhere", url.strip_suffix("bramah").unwrap());
        refused(&elsewhere, ErrorKind::Denied, "does not allow it").await;
        let other = url.replacen("bramah:", "nobody:", 1);
        refused(&other, ErrorKind::Denied, "refuses the login").await;
        works(&url, "fit again").await.unwrap();

        // It became read-only after it was found fit.
        let session = open(&url).await.unwrap();
        server.sql("SET GLOBAL read_only = ON").unwrap();
        let error = session.mutex("late").unwrap().try_lock().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("takes no writes"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_logs_statements_is_refused() {
    for flavor in flavors() {
        let settings = [("server_id", "1"), ("log_bin", "changes"), ("binlog_format", "STATEMENT")];
        let server = Server::of(flavor, &settings).unwrap();
        let error = MySql::from_url(&server.url()).unwrap().init().await.unwrap_err();
        assert!(error.to_string().contains("set its binlog_format to ROW or MIXED"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_init_at_once_do_not_collide_nor_disturb() {
    for flavor in flavors() {
        let server = Server::of(flavor, &[]).unwrap();
        let mut tasks = tokio::task::JoinSet::new();
        for n in 1..=6 {
            let mysql = MySql::from_url(&format!("{}?pool={n}", server.url())).unwrap();
            tasks.spawn(async move { mysql.init().await });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap().unwrap();
        }
        works(&server.url(), "ready").await.unwrap();
        assert_eq!(server.sql("SELECT COUNT(*) FROM bramah_stripes").unwrap(), "1024");
    }
}
