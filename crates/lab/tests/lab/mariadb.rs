//! MariaDB and MySQL.

use std::{
    net::TcpStream,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use bramah_lab::{MariaDb, servers::Flavor};

use crate::{has, runs};

#[test]
fn it_starts_and_answers_root_and_its_user() {
    for flavor in [Flavor::MariaDb, Flavor::MySql].into_iter().filter(|flavor| has(*flavor)) {
        let began = Instant::now();
        let mariadb = MariaDb::of(flavor, &[]).unwrap();
        eprintln!("{flavor} {} started in {:?}", mariadb.version(), began.elapsed());
        assert_eq!(mariadb.sql("SELECT 1").unwrap(), "1");
        assert_eq!(mariadb.sql("SELECT 1, 'a'; SELECT 2").unwrap(), "1\ta\n2");
        let who = "SELECT current_user(), database()";
        assert_eq!(mariadb.sql(who).unwrap(), "root@localhost\tbramah");
        assert_eq!(mariadb.sql_as_user(who).unwrap(), "bramah@%\tbramah");
        let why = mariadb.sql("SELECT * FROM nothing").unwrap_err();
        assert!(why.contains("doesn't exist"), "{why}");
        let url = mariadb.url();
        assert!(url.starts_with("mysql://bramah:"), "{url}");
        assert!(url.ends_with(&format!("@127.0.0.1:{}/bramah", mariadb.port())), "{url}");
    }
}

#[test]
fn its_user_may_do_everything_in_its_database_and_nothing_elsewhere() {
    for flavor in [Flavor::MariaDb, Flavor::MySql].into_iter().filter(|flavor| has(*flavor)) {
        let mariadb = MariaDb::of(flavor, &[]).unwrap();
        let routine = "CREATE TABLE mine (id int); CREATE PROCEDURE count_mine() SELECT count(*) FROM mine; \
                       CALL count_mine()";
        assert_eq!(mariadb.sql_as_user(routine).unwrap(), "0");
        for elsewhere in ["CREATE DATABASE other", "SELECT * FROM mysql.user", "SHUTDOWN"] {
            let why = mariadb.sql_as_user(elsewhere).unwrap_err();
            assert!(why.contains("denied"), "{why}");
        }
    }
}

#[test]
fn a_dropped_server_is_gone() {
    for flavor in [Flavor::MariaDb, Flavor::MySql].into_iter().filter(|flavor| has(*flavor)) {
        let mariadb = MariaDb::of(flavor, &[]).unwrap();
        let (address, pid) = (mariadb.address(), mariadb.pid().unwrap());
        let folder = mariadb.sql("SELECT @@datadir").unwrap();
        assert!(TcpStream::connect(&address).is_ok() && std::path::Path::new(&folder).exists());
        mariadb.freeze().unwrap();
        drop(mariadb);
        assert!(TcpStream::connect(&address).is_err());
        assert!(!runs(pid) && !std::path::Path::new(&folder).exists());
    }
}

#[test]
fn a_stopped_or_killed_server_keeps_its_data_and_its_port() {
    for flavor in [Flavor::MariaDb, Flavor::MySql].into_iter().filter(|flavor| has(*flavor)) {
        let mariadb = MariaDb::of(flavor, &[]).unwrap();
        mariadb.sql("CREATE TABLE kept (id int) ENGINE=InnoDB").unwrap();
        for round in 1..=2 {
            mariadb.sql("INSERT INTO kept VALUES (1)").unwrap();
            let (url, pid) = (mariadb.url(), mariadb.pid());
            if round == 1 {
                mariadb.stop().unwrap();
                assert!(mariadb.stop().unwrap_err().contains("does not run"));
            } else {
                mariadb.kill();
            }
            assert_eq!(mariadb.pid(), None);
            assert!(mariadb.sql("SELECT 1").is_err());
            mariadb.start_again().unwrap();
            assert_eq!(mariadb.url(), url);
            assert_ne!(mariadb.pid(), pid);
            assert_eq!(mariadb.sql_as_user("SELECT count(*) FROM kept").unwrap(), round.to_string());
        }
    }
}

#[test]
fn a_frozen_server_is_silent_until_it_is_thawed() {
    for flavor in [Flavor::MariaDb, Flavor::MySql].into_iter().filter(|flavor| has(*flavor)) {
        let mariadb = MariaDb::of(flavor, &[]).unwrap();
        mariadb.freeze().unwrap();
        let (tell, told) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(|| tell.send(mariadb.sql("SELECT 1")));
            assert!(told.recv_timeout(Duration::from_millis(300)).is_err());
            mariadb.thaw().unwrap();
            assert_eq!(told.recv_timeout(Duration::from_secs(30)).unwrap().unwrap(), "1");
        });
    }
}

#[test]
fn settings_are_set_and_wrong_ones_are_told_by_the_servers_own_words() {
    for flavor in [Flavor::MariaDb, Flavor::MySql].into_iter().filter(|flavor| has(*flavor)) {
        let mariadb = MariaDb::of(flavor, &[("max_connections", "17")]).unwrap();
        assert_eq!(mariadb.sql("SELECT @@max_connections").unwrap(), "17");
        let why = MariaDb::of(flavor, &[("no_such_setting", "1")]).unwrap_err();
        assert!(why.contains("did not start") && why.contains("no_such_setting"), "{why}");
    }
}
