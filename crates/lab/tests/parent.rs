//! A process that is killed leaves no server behind, and no directory. The process is this program once more.

use std::{
    env,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use bramah_lab::{Redis, servers::Flavor, until};

fn main() {
    match env::args().nth(1).as_deref() {
        Some("watched") => watched(),
        Some("unwatched") => unwatched(),
        _ => {}
    }
    a_killed_process_leaves_no_server_behind();
    println!("a_killed_process_leaves_no_server_behind ... ok");
    a_process_that_nobody_watches_is_left_behind();
    println!("a_process_that_nobody_watches_is_left_behind ... ok");
}

fn a_killed_process_leaves_no_server_behind() {
    let line = killed("watched");
    let (pid, folder) = line.split_once(' ').expect("two words");
    until("the server's end", Duration::from_secs(30), || {
        if runs(pid) { Err(format!("{pid} runs")) } else { Ok(()) }
    })
    .expect("no server");
    until("the end of its directory", Duration::from_secs(30), || {
        if Path::new(folder).exists() { Err(format!("{folder} is there")) } else { Ok(()) }
    })
    .expect("no directory");
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
    let mut child = Command::new(program).arg(role).stdout(Stdio::piped()).spawn().expect("a child");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    let pid = line.split_whitespace().next().expect("a process id");
    assert!(runs(pid), "{line}");
    child.kill().expect("a kill");
    child.wait().expect("its end");
    line.trim().to_owned()
}

fn watched() {
    let redis = Redis::start(Flavor::Redis7).expect("a server");
    let folder = redis.call(&["CONFIG", "GET", "dir"]).expect("its directory").many().pop();
    println!("{} {}", redis.pid().expect("its process"), folder.expect("its directory").text());
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
