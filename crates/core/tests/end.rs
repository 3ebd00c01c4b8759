//! How programs end. Each is a process of its own, because what is local to its main thread is dropped when `main` returns.

use std::{
    process::{Command, ExitCode},
    sync::Arc,
    time::Duration,
};

use bramah_conformance::twist::{Twist, Twisted};
use bramah_core::{Claim, Clock, Engine, Exit, Memory, Reply, Result, Session};

/// Which program this is to be.
const PROGRAM: &str = "BRAMAH_TEST_PROGRAM";

/// Each program, and what it prints.
const PROGRAMS: &[(&str, &str)] = &[
    ("current_thread", "held\nmain is over\nwithdrawn\n"),
    ("multi_thread", "held\nmain is over\nwithdrawn\n"),
    ("worker", "held\nwithdrawn\nmain is over\n"),
    ("outside", "held\nwithdrawn\nmain is over\n"),
];

fn main() -> ExitCode {
    if let Ok(program) = std::env::var(PROGRAM) {
        return run(&program);
    }
    let mut code = ExitCode::SUCCESS;
    for (program, expected) in PROGRAMS {
        let own = std::env::current_exe().expect("this binary has a path");
        let output = Command::new(own).env(PROGRAM, program).output().expect("it starts again");
        let printed = String::from_utf8_lossy(&output.stdout);
        let fine = output.status.success() && printed == *expected;
        println!("{} {program}: {printed:?}", if fine { "ok" } else { "FAILED" });
        if !fine {
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// Tells when a claim has been withdrawn, which takes a while.
#[derive(Debug)]
struct Telling;

impl Twist for Telling {
    fn withdraw(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>, exit: Exit) -> Reply<()> {
        let reply = inner.withdraw(claim, exit);
        Reply::later(async move {
            Clock::boot().nap(Duration::from_millis(100)).await;
            reply.await?;
            println!("withdrawn");
            Ok(())
        })
    }
}

fn engine() -> Arc<dyn Engine> {
    Arc::new(Twisted::new(Arc::new(Memory::new()), Arc::new(Telling)))
}

/// Takes a lock, and drops guard and session at its end.
async fn hold() -> Result<()> {
    let session = Session::open(engine()).await?;
    let _guard = session.mutex("a")?.lock().await?;
    println!("held");
    Ok(())
}

fn run(program: &str) -> ExitCode {
    match program {
        "current_thread" => current_thread(),
        "multi_thread" => multi_thread(),
        "worker" => worker(),
        _ => outside(),
    }
    .expect("the program runs");
    ExitCode::SUCCESS
}

#[tokio::main(flavor = "current_thread")]
async fn current_thread() -> Result<()> {
    hold().await?;
    println!("main is over");
    Ok(())
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn multi_thread() -> Result<()> {
    hold().await?;
    println!("main is over");
    Ok(())
}

/// Dropped on a thread of the runtime, which is joined at the runtime's end.
fn worker() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("there is a runtime");
    runtime.block_on(async { tokio::spawn(hold()).await.expect("it does not panic") })?;
    drop(runtime);
    println!("main is over");
    Ok(())
}

fn outside() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("there is a runtime");
    let guard = runtime.block_on(async { Session::open(engine()).await?.mutex("a")?.lock().await })?;
    println!("held");
    drop(runtime);
    drop(guard);
    println!("main is over");
    Ok(())
}
