//! PostgreSQL.

use std::{
    net::TcpStream,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use bramah_lab::{Fault, How, Postgres, Proxy, servers::Flavor, until};

use crate::{has, runs};

#[test]
fn it_starts_and_answers_its_superuser_and_its_user() {
    if !has(Flavor::Postgres) {
        return;
    }
    let began = Instant::now();
    let postgres = Postgres::start().unwrap();
    eprintln!("postgres {} started in {:?}", postgres.version(), began.elapsed());
    assert_eq!(postgres.sql("SELECT 1").unwrap(), "1");
    assert_eq!(postgres.sql("SELECT 1, 'a'; SELECT 2").unwrap(), "1|a\n2");
    let who = "SELECT current_user, current_database(), current_setting('is_superuser')";
    assert_eq!(postgres.sql(who).unwrap(), "postgres|bramah|on");
    assert_eq!(postgres.sql_at(&postgres.address(), who).unwrap(), "bramah|bramah|off");
    postgres.sql_at(&postgres.address(), "CREATE TABLE mine (id int)").unwrap();
    let why = postgres.sql("SELECT * FROM nothing").unwrap_err();
    assert!(why.contains("does not exist"), "{why}");
    let url = postgres.url();
    assert!(url.starts_with("postgres://bramah:"), "{url}");
    assert!(url.ends_with(&format!("@127.0.0.1:{}/bramah", postgres.port())), "{url}");
    let limits = "SELECT current_setting('max_connections'), current_setting('max_locks_per_transaction'), \
                  current_setting('fsync')";
    assert_eq!(postgres.sql(limits).unwrap(), "100|64|on");
}

#[test]
fn a_wrong_password_is_not_let_in() {
    if !has(Flavor::Postgres) {
        return;
    }
    let (postgres, other) = (Postgres::start().unwrap(), Postgres::start().unwrap());
    let why = postgres.sql_at(&other.address(), "SELECT 1").unwrap_err();
    assert!(why.contains("password authentication failed"), "{why}");
    assert!(![postgres.log(), other.log()].concat().contains(password(&postgres.url())));
}

fn password(url: &str) -> &str {
    url.split(['@', ':']).nth(2).unwrap()
}

#[test]
fn a_dropped_server_is_gone_with_all_its_processes() {
    if !has(Flavor::Postgres) {
        return;
    }
    let postgres = Postgres::start().unwrap();
    let (address, pid) = (postgres.address(), postgres.pid().unwrap());
    let folder = postgres.sql("SHOW data_directory").unwrap();
    let processes = postgres.sql("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()").unwrap();
    let processes: Vec<u32> = processes.lines().map(|pid| pid.parse().unwrap()).collect();
    assert!(processes.len() >= 4, "{processes:?}");
    assert!(TcpStream::connect(&address).is_ok());
    // Also one that cannot hear that it shall end.
    postgres.freeze().unwrap();
    drop(postgres);
    assert!(TcpStream::connect(&address).is_err());
    assert!(!runs(pid) && !processes.into_iter().any(runs));
    assert!(!std::path::Path::new(&folder).exists());
}

#[test]
fn a_stopped_server_keeps_its_data_and_its_port() {
    if !has(Flavor::Postgres) {
        return;
    }
    let postgres = Postgres::start().unwrap();
    postgres.sql("CREATE TABLE kept (id int)").unwrap();
    for (n, how) in [How::Fast, How::Immediate].into_iter().enumerate() {
        postgres.sql("INSERT INTO kept VALUES (1)").unwrap();
        let (url, pid) = (postgres.url(), postgres.pid());
        postgres.stop(how).unwrap();
        assert_eq!(postgres.pid(), None);
        assert!(postgres.stop(how).unwrap_err().contains("does not run"));
        assert!(postgres.sql("SELECT 1").is_err());
        postgres.start_again().unwrap();
        assert_eq!(postgres.url(), url);
        assert_ne!(postgres.pid(), pid);
        assert_eq!(postgres.sql_at(&postgres.address(), "SELECT 1").unwrap(), "1");
        assert_eq!(postgres.sql("SELECT count(*) FROM kept").unwrap(), (n + 1).to_string());
    }
    assert_eq!(postgres.log().matches("was not properly shut down").count(), 1);
    postgres.start_again().unwrap();
    assert_eq!(postgres.sql("SELECT count(*) FROM kept").unwrap(), "2");
}

#[test]
fn a_frozen_server_is_silent_until_it_is_thawed() {
    if !has(Flavor::Postgres) {
        return;
    }
    let postgres = Postgres::start().unwrap();
    postgres.freeze().unwrap();
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| tell.send(postgres.sql("SELECT 1")));
        assert!(told.recv_timeout(Duration::from_millis(300)).is_err());
        postgres.thaw().unwrap();
        assert_eq!(told.recv_timeout(Duration::from_secs(30)).unwrap().unwrap(), "1");
    });
}

#[test]
fn settings_are_set_and_wrong_ones_are_told_by_the_servers_own_words() {
    if !has(Flavor::Postgres) {
        return;
    }
    let postgres = Postgres::with(&[("max_connections", "17"), ("cluster_name", "it's \\ me")]).unwrap();
    assert_eq!(postgres.sql("SHOW max_connections; SHOW cluster_name").unwrap(), "17\nit's \\ me");
    let why = Postgres::with(&[("no_such_setting", "1")]).unwrap_err();
    assert!(why.contains("did not start") && why.contains("no_such_setting"), "{why}");
}

#[test]
fn a_standby_follows_and_is_promoted() {
    if !has(Flavor::Postgres) {
        return;
    }
    let primary = Postgres::start().unwrap();
    primary.sql("CREATE TABLE told (id int); INSERT INTO told VALUES (1)").unwrap();
    let standby = primary.standby().unwrap();
    primary.sql("INSERT INTO told VALUES (2)").unwrap();
    until("the second row", Duration::from_secs(30), || match standby.sql("SELECT count(*) FROM told")? {
        rows if rows == "2" => Ok(()),
        rows => Err(rows),
    })
    .unwrap();
    let why = standby.sql("INSERT INTO told VALUES (3)").unwrap_err();
    assert!(why.contains("read-only transaction"), "{why}");
    primary.stop(How::Immediate).unwrap();
    standby.promote().unwrap();
    standby.sql_at(&standby.address(), "CREATE TABLE mine (id int)").unwrap();
    standby.sql("INSERT INTO told VALUES (3)").unwrap();
    assert!(standby.promote().unwrap_err().contains("recovery is not in progress"));
    primary.start_again().unwrap();
    assert_eq!(primary.sql("SELECT count(*) FROM told").unwrap(), "2");
}

#[test]
fn a_proxy_stands_before_it() {
    if !has(Flavor::Postgres) {
        return;
    }
    let postgres = Postgres::start().unwrap();
    let proxy = Proxy::to(&postgres.address()).unwrap();
    assert!(postgres.url_at(&proxy.address()).contains(&proxy.port().to_string()));
    assert_eq!(postgres.sql_at(&proxy.address(), "SELECT 1").unwrap(), "1");
    proxy.lose_replies_matching(bramah_lab::Loss::Kill, |bytes| {
        bytes.windows(6).any(|word| word == b"CREATE")
    });
    let why = postgres.sql_at(&proxy.address(), "CREATE TABLE made (id int)").unwrap_err();
    assert!(why.contains("Connection reset") || why.contains("closed the connection"), "{why}");
    assert_eq!(postgres.sql("SELECT count(*) FROM made").unwrap(), "0");
    proxy.lose_nothing();
    proxy.requests(Fault::Hold);
    let (tell, told) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(|| tell.send(postgres.sql_at(&proxy.address(), "SELECT 2")));
        assert!(told.recv_timeout(Duration::from_millis(300)).is_err());
        proxy.requests(Fault::Pass);
        assert_eq!(told.recv_timeout(Duration::from_secs(30)).unwrap().unwrap(), "2");
    });
}
