//! A process that is killed leaves no server behind, and no directory. The process is this program once more.

use std::{
    env,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use bramah_lab::{
    Etcd, MariaDb, Members, PgBouncer, Pooling, Postgres, Redis, Signal, ZooKeeper,
    servers::{self, Flavor},
    until,
};

/// What a child is to be. It is no argument, for those are what tests are chosen by.
const ROLE: &str = "BRAMAH_LAB_ROLE";

fn main() {
    match env::var(ROLE).ok().as_deref() {
        Some("redis") => redis(),
        Some("postgres") => postgres(),
        Some("mariadb") => mariadb(Flavor::MariaDb),
        Some("mysql") => mariadb(Flavor::MySql),
        Some("pgbouncer") => pgbouncer(),
        Some("etcd34") => etcd(Flavor::Etcd34),
        Some("etcd35") => etcd(Flavor::Etcd35),
        Some("zookeeper") => zookeeper(),
        Some("unwatched") => unwatched(),
        _ => {}
    }
    let needs = [
        ("redis", vec![Flavor::Redis7]),
        ("postgres", vec![Flavor::Postgres]),
        ("mariadb", vec![Flavor::MariaDb]),
        ("mysql", vec![Flavor::MySql]),
        ("pgbouncer", vec![Flavor::Postgres, Flavor::PgBouncer]),
        ("etcd34", vec![Flavor::Etcd34]),
        ("etcd35", vec![Flavor::Etcd35]),
        ("zookeeper", vec![Flavor::ZooKeeper]),
    ];
    for (role, flavors) in needs {
        if flavors.into_iter().all(has) {
            a_killed_process_leaves_no_server_behind(role);
            println!("a_killed_process_leaves_no_server_behind {role} ... ok");
        }
    }
    a_process_that_nobody_watches_is_left_behind();
    println!("a_process_that_nobody_watches_is_left_behind ... ok");
}

fn a_killed_process_leaves_no_server_behind(role: &str) {
    // Process ids and directories.
    for left in killed(role).split_whitespace() {
        until("the end of it", Duration::from_secs(30), || {
            let there = if left.starts_with('/') { Path::new(left).exists() } else { runs(left) };
            if there { Err(format!("{left} is there")) } else { Ok(()) }
        })
        .expect("nothing left");
    }
}

fn has(flavor: Flavor) -> bool {
    let got = servers::get(flavor);
    if let Err(why) = &got {
        servers::missing(flavor, why);
    }
    got.is_ok()
}

/// The control: it is the watching that ends a server, and not the death of its parent.
fn a_process_that_nobody_watches_is_left_behind() {
    let pid = killed("unwatched");
    assert!(runs(&pid));
    Command::new("kill").args(["-9", &pid]).status().expect("kill");
}

/// Starts this program as a child, kills it once it has told something, and returns that.
fn killed(role: &str) -> String {
    let program = env::current_exe().expect("this program");
    let mut child = Command::new(program).env(ROLE, role).stdout(Stdio::piped()).spawn().expect("a child");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    let pid = line.split_whitespace().next().expect("a process id");
    assert!(runs(pid), "{line}");
    child.kill().expect("a kill");
    child.wait().expect("its end");
    line.trim().to_owned()
}

fn redis() {
    let start = || {
        let redis = Redis::start(Flavor::Redis7).expect("a server");
        let folder = redis.call(&["CONFIG", "GET", "dir"]).expect("its directory").many().pop();
        (redis, folder.expect("its directory").text())
    };
    let (redis, folder) = start();
    // Also one that is stopped.
    redis.signal(Signal::STOP).expect("a stop");
    // And one that has ended before us.
    let (dead, its_folder) = start();
    dead.signal(Signal::KILL).expect("a kill");
    println!("{} {folder} {its_folder}", redis.pid().expect("its process"));
    wait_forever();
}

/// Killed while a session is in the midst of something and all its processes are stopped.
fn postgres() {
    let postgres = Postgres::start().expect("a server");
    thread::scope(|scope| {
        scope.spawn(|| postgres.sql("SELECT pg_sleep(600)"));
        let sleeps =
            "SELECT pid FROM pg_stat_activity WHERE query LIKE '%pg_sleep(6%' AND pid <> pg_backend_pid()";
        until("the sleeper", Duration::from_secs(30), || match postgres.sql(sleeps)?.as_str() {
            "" => Err("nobody sleeps".into()),
            _ => Ok(()),
        })
        .expect("a sleeper");
        let others = "SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid(); SHOW data_directory";
        let others = postgres.sql(others).expect("its processes").replace('\n', " ");
        postgres.freeze().expect("a freeze");
        println!("{} {others}", postgres.pid().expect("its process"));
        wait_forever();
    });
}

fn mariadb(flavor: Flavor) {
    let mariadb = MariaDb::of(flavor, &[]).expect("a server");
    let folder = mariadb.sql("SELECT @@datadir").expect("its directory");
    println!("{} {folder}", mariadb.pid().expect("its process"));
    wait_forever();
}

fn pgbouncer() {
    let postgres = Postgres::start().expect("a server");
    let bouncer = PgBouncer::before(&postgres, Pooling::Session).expect("a pooler");
    let folder = postgres.sql("SHOW data_directory").expect("its directory");
    let pids = [bouncer.pid(), postgres.pid()].map(|pid| pid.expect("its process"));
    println!("{} {} {folder}", pids[0], pids[1]);
    wait_forever();
}

fn etcd(flavor: Flavor) {
    let etcd = Etcd::start(flavor, 3).expect("a cluster");
    tell_members(&etcd);
}

fn zookeeper() {
    let zookeeper = ZooKeeper::start(3).expect("an ensemble");
    tell_members(&zookeeper);
}

/// Also those of which one is stopped.
fn tell_members(members: &Members) -> ! {
    members.freeze(1).expect("a freeze");
    let told = (0..members.count()).map(|member| {
        format!("{} {}", members.pid(member).expect("its process"), members.folder(member).display())
    });
    println!("{}", told.collect::<Vec<_>>().join(" "));
    wait_forever();
}

fn wait_forever() -> ! {
    loop {
        thread::park();
    }
}

fn unwatched() {
    let mut sleep = Command::new("sleep");
    let mut child = sleep.arg("600").stdout(Stdio::null()).spawn().expect("a process");
    println!("{}", child.id());
    child.wait().expect("its end");
}

fn runs(pid: &str) -> bool {
    Command::new("kill").args(["-0", pid]).stderr(Stdio::null()).status().expect("kill").success()
}
