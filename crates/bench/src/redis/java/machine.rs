//! A process with a Redisson in it.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Duration,
};

use bramah_lab::interop;
use rustix::time::{ClockId, clock_gettime};

use super::{super::text, Kind, Result, VERSION};

pub(super) struct Machine {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

/// What came of pairs.
pub(super) struct Driven {
    pub(super) pairs: f64,
    pub(super) seconds: f64,
    /// Seconds of its process's CPU.
    pub(super) cpu: f64,
    /// With those that were late: all that the server worked for.
    pub(super) all: f64,
}

/// What a caller is.
#[derive(Clone, Copy)]
pub(super) enum Caller {
    Thread,
    Futures,
}

impl Machine {
    pub(super) fn start(url: &str) -> Result<Self> {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engines/redis/tests/peers/redisson");
        let class_path = interop::maven(&project, &[&format!("redisson={VERSION}")])?;
        let mut child = Command::new("java")
            .args(["-Xmx1g", "-cp"])
            .arg(class_path)
            .args(["bramah.Bench", url, &ahead_ns().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|why| format!("java could not be started: {why}"))?;
        let input = child.stdin.take().ok_or("a process without input")?;
        let output = BufReader::new(child.stdout.take().ok_or("a process without output")?);
        let mut machine = Self { child, input, output };
        match machine.line()?.as_str() {
            "ready" => Ok(machine),
            other => Err(format!("redisson said {other:?}")),
        }
    }

    pub(super) fn tell(&mut self, line: &str) -> Result<()> {
        writeln!(self.input, "{line}").map_err(text)
    }

    pub(super) fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(text)?;
        if line.is_empty() { Err("redisson has ended".into()) } else { Ok(line.trim_end().to_owned()) }
    }

    pub(super) fn pairs(
        &mut self,
        kind: Kind,
        caller: Caller,
        callers: usize,
        span: Duration,
    ) -> Result<Driven> {
        let mode = match caller {
            Caller::Thread => "threads",
            Caller::Futures => "async",
        };
        self.tell(&format!("pairs {} {mode} {callers} {}", kind.word(), span.as_millis()))?;
        let line = self.line()?;
        let numbers: Vec<f64> = line.split(' ').filter_map(|word| word.parse().ok()).collect();
        match numbers.as_slice() {
            &[pairs, took_ns, cpu_ns, all] => {
                Ok(Driven { pairs, seconds: took_ns / 1e9, cpu: cpu_ns / 1e9, all })
            }
            _ => Err(format!("not understood of redisson: {line}")),
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How far our clock, which runs through suspend, is ahead of Java's.
fn ahead_ns() -> i64 {
    let at = |clock| {
        let now = clock_gettime(clock);
        now.tv_sec * 1_000_000_000 + now.tv_nsec
    };
    at(ClockId::Boottime) - at(ClockId::Monotonic)
}
