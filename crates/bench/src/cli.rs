//! The command: what it costs to start, and what it costs to wait in a long line.

use std::{
    fs::OpenOptions,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use bramah::{Clock, LineView, Look, Result, Scope};

use crate::report::{Report, median};

const STARTS: usize = 50;
const WAITERS: usize = 200;
/// How long the line is left alone before it is measured, and while.
const SETTLING: Duration = Duration::from_secs(25);
const MEASURED: Duration = Duration::from_secs(30);

/// Writes down when it was run: the command of those who wait.
pub(crate) fn stamp(file: &str) -> io::Result<()> {
    let line = format!("{} {}\n", Clock::boot().now().ns(), std::env::var("BRAMAH_ID").unwrap_or_default());
    OpenOptions::new().create(true).append(true).open(file)?.write_all(line.as_bytes())
}

pub(crate) fn run(report: &mut Report) -> Result<()> {
    let dir = std::env::temp_dir().join(format!("bramah-bench-cli-{}", std::process::id()));
    let outcome = measure(report, &dir);
    let _ = std::fs::remove_dir_all(&dir);
    outcome
}

fn measure(report: &mut Report, dir: &Path) -> Result<()> {
    let broken = |error: io::Error| {
        bramah::Error::caused(bramah::ErrorKind::Unavailable, format!("bench: {error}"), error)
    };
    std::fs::create_dir_all(dir).map_err(broken)?;
    let bench = std::env::current_exe().map_err(broken)?;
    let lab = Lab { dir: dir.to_owned(), bramah: bench.with_file_name("bramah"), bench };
    start(report, &lab).map_err(broken)?;
    wait(report, &lab)
}

struct Lab {
    dir: PathBuf,
    bramah: PathBuf,
    bench: PathBuf,
}

impl Lab {
    fn url(&self) -> String {
        format!("file://{}/store", self.dir.display())
    }

    fn bramah(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.bramah);
        command.args(args).env("BRAMAH_ENGINE", self.url()).stdin(Stdio::null());
        command
    }

    /// The line of `x`, if anybody stands in it.
    fn line(&self) -> Result<Option<LineView>> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
                bramah::Error::caused(bramah::ErrorKind::Unavailable, format!("bench: {error}"), error)
            })?;
        runtime.block_on(async {
            let engine = bramah::engine(&self.url()).await?;
            let scope = Scope::Exact(bramah::Name::new("x")?);
            Ok(engine.survey(&scope, Look::Once).await?.lines.pop())
        })
    }
}

/// `bramah run x -- true` against `flock x true`, one after the other.
fn start(report: &mut Report, lab: &Lab) -> io::Result<()> {
    report
        .heading(&format!("a command under a lock, from start to end, median of {STARTS} interleaved runs"));
    let timed = |command: &mut Command| -> io::Result<f64> {
        let began = Instant::now();
        let status = command.status()?;
        let took = began.elapsed().as_secs_f64() * 1e3;
        if status.success() { Ok(took) } else { Err(io::Error::other(format!("{command:?}: {status}"))) }
    };
    let (mut floor, mut ours) = (Vec::new(), Vec::new());
    for round in 0..STARTS + 5 {
        let flock = timed(Command::new("flock").arg(lab.dir.join("x")).arg("true"))?;
        let bramah = timed(&mut lab.bramah(&["run", "x", "--", "true"]))?;
        // The first ones fill the caches.
        if round >= 5 {
            floor.push(flock);
            ours.push(bramah);
        }
    }
    let (floor, ours) = (median(floor), median(ours));
    report.line("flock x true, ms", format!("{floor:>12.2}"));
    report.line("bramah run x -- true, ms", format!("{ours:>12.2}"));
    report.goal("ratio (goal: at most 3)", format!("{:>12.2}", ours / floor), ours / floor <= 3.0);
    Ok(())
}

/// Many processes that wait for one name.
fn wait(report: &mut Report, lab: &Lab) -> Result<()> {
    report.heading(&format!("{WAITERS} processes that wait for one name on the file engine"));
    let stamps = lab.dir.join("stamps");
    let mut holder =
        Held(lab.bramah(&["run", "x", "--", "cat"]).stdin(Stdio::piped()).spawn().map_err(failed)?);
    until(|| Ok(lab.line()?.is_some_and(|line| line.holders().next().is_some())))?;
    let (bench, file) = (lab.bench.display().to_string(), stamps.display().to_string());
    let mut waiters = Vec::with_capacity(WAITERS);
    for _ in 0..WAITERS {
        let mut command = lab.bramah(&["run", "x", "--", &bench, "stamp", &file]);
        waiters.push(Held(command.stderr(Stdio::null()).spawn().map_err(failed)?));
    }
    until(|| Ok(lab.line()?.is_some_and(|line| line.waiters().count() == WAITERS)))?;
    thread::sleep(SETTLING);
    let before = cpu(&waiters);
    thread::sleep(MEASURED);
    let used = (cpu(&waiters) - before) / MEASURED.as_secs_f64() * 100.0;
    let line = lab.line()?;
    let places: Vec<String> =
        line.iter().flat_map(LineView::waiters).map(|place| place.claim.id.tag().to_string()).collect();
    let began = Instant::now();
    drop(holder.0.stdin.take());
    for waiter in &mut waiters {
        let _ = waiter.0.wait();
    }
    let all = began.elapsed().as_secs_f64();
    let text = std::fs::read_to_string(&stamps).map_err(failed)?;
    let served: Vec<(u64, &str)> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter_map(|(ns, id)| Some((ns.parse().ok()?, id)))
        .collect();
    let in_order = served.iter().map(|(_, id)| *id).eq(places.iter().map(String::as_str));
    let mut gaps: Vec<f64> = served.windows(2).map(|pair| (pair[1].0 - pair[0].0) as f64 / 1e6).collect();
    gaps.sort_by(f64::total_cmp);
    let at = |percent: usize| gaps.get(gaps.len() * percent / 100).copied().unwrap_or(f64::NAN);
    report.goal("served in the order of the line", format!("{:>12}", served.len()), in_order);
    report.goal(
        "CPU of all while they wait, % of one core (goal: at most 3)",
        format!("{used:>12.2}"),
        used <= 3.0,
    );
    report.line("from one command to the next, p50, ms", format!("{:>12.2}", at(50)));
    report.line("from one command to the next, p99, ms", format!("{:>12.2}", at(99)));
    report.line("all served after, s", format!("{all:>12.2}"));
    Ok(())
}

fn failed(error: io::Error) -> bramah::Error {
    bramah::Error::caused(bramah::ErrorKind::Unavailable, format!("bench: {error}"), error)
}

fn until(mut done: impl FnMut() -> Result<bool>) -> Result<()> {
    while !done()? {
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Seconds of CPU that these processes have used, all threads of each.
fn cpu(processes: &[Held]) -> f64 {
    let of_task = |path: PathBuf| -> Option<f64> {
        let text = std::fs::read_to_string(path.join("schedstat")).ok()?;
        Some(text.split(' ').next()?.parse::<f64>().ok()? / 1e9)
    };
    let of_process = |process: &Held| -> f64 {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", process.0.id()));
        tasks.into_iter().flatten().filter_map(|task| of_task(task.ok()?.path())).sum()
    };
    processes.iter().map(of_process).sum()
}

/// A process that ends with the benchmark.
struct Held(Child);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
