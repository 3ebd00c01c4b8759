//! A process that is killed leaves no server behind, and no directory. It is this program once more, under `child`.

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
    if env::args().any(|word| word == "child") {
        let redis = Redis::start(Flavor::Redis7).expect("a server");
        let folder = redis.call(&["CONFIG", "GET", "dir"]).expect("its directory").many().pop();
        println!("{} {}", redis.pid().expect("its process"), folder.expect("its directory").text());
        loop {
            thread::park();
        }
    }
    a_killed_process_leaves_no_server_behind();
    println!("a_killed_process_leaves_no_server_behind ... ok");
}

fn a_killed_process_leaves_no_server_behind() {
    let program = env::current_exe().expect("this program");
    let mut child = Command::new(program).arg("child").stdout(Stdio::piped()).spawn().expect("a child");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("its output")).read_line(&mut line).expect("a line");
    let (pid, folder) = line.trim().split_once(' ').expect("two words");
    assert!(runs(pid) && Path::new(folder).is_dir(), "{line}");

    child.kill().expect("a kill");
    child.wait().expect("its end");
    until("the server's end", Duration::from_secs(30), || {
        if runs(pid) { Err(format!("{pid} runs")) } else { Ok(()) }
    })
    .expect("no server");
    until("the end of its directory", Duration::from_secs(30), || {
        if Path::new(folder).exists() { Err(format!("{folder} is there")) } else { Ok(()) }
    })
    .expect("no directory");
}

fn runs(pid: &str) -> bool {
    Command::new("kill").args(["-0", pid]).stderr(Stdio::null()).status().expect("kill").success()
}
