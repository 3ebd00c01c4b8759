//! Counting, and judging the count.

use std::{
    collections::HashSet,
    fs,
    path::PathBuf,
    process::Output,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::support::{Lab, bramah, text, until};

/// For how many seconds servers are disturbed.
const SECONDS: &str = "BRAMAH_TEST_SECONDS";
const PROCESSES: usize = 4;
/// A fault and the time until the next.
const PERIOD: Duration = Duration::from_secs(10);

/// What a run does. `count` believes the lock: it is a read, a pause and a write. `register` checks fences, at the read and at
/// the write. A line is one write, so a run that is killed leaves nothing half done.
const STEP: &str = r#"
count=$(tail -n 1 count | cut -d ' ' -f 1)
exec 9>>register
flock 9
set -- $(tail -n 1 register)
[ "$BRAMAH_FENCE" -ge "${2:-0}" ] || { echo "$BRAMAH_FENCE" >> refused; exit 3; }
value=${3:-0}
echo "read $BRAMAH_FENCE $value" >&9
flock -u 9
sleep 0.03
echo "$((count + 1)) $BRAMAH_FENCE" >> count
flock 9
set -- $(tail -n 1 register)
[ "$BRAMAH_FENCE" -ge "$2" ] || { echo "$BRAMAH_FENCE" >> refused; exit 3; }
echo "write $BRAMAH_FENCE $((value + 1))" >&9
"#;

/// What a store promises over the faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    /// No grant is forgotten.
    Kept,
    /// Grants can be forgotten, and fences rise all the same.
    Fenced,
}

/// Something that is done to the servers, and is over when this returns: they serve, or are about to.
pub(crate) type Fault<'a> = (&'static str, Box<dyn FnMut() -> Result<(), String> + 'a>);

/// Counts on `url` while the faults come one after another, and judges.
pub(crate) fn count(topology: &str, url: &str, promise: Promise, mut faults: Vec<Fault<'_>>) {
    let seconds: Option<u64> = std::env::var(SECONDS).ok().map(|seconds| seconds.parse().unwrap());
    let span = Duration::from_secs(seconds.unwrap_or(8));
    let period = PERIOD.min(span / 3);
    // Longer than a failover takes, and in the short form not much longer.
    let ttl = if seconds.is_some() { "15s" } else { "5s" };
    let lab = Lab::new();
    fs::write(lab.dir.join("step"), STEP).unwrap();
    let counters =
        Counters { lab, url: url.to_owned(), ttl, stop: AtomicBool::new(false), runs: Mutex::default() };
    let mut done = Vec::new();
    let began = Instant::now();
    thread::scope(|scope| {
        let stop = Stop(&counters.stop);
        for _ in 0..PROCESSES {
            scope.spawn(|| counters.work());
        }
        until("the first of the runs", || (counters.served() >= PROCESSES).then_some(()));
        let mut next = 0;
        while began.elapsed() < span {
            let fault_began = Instant::now();
            let (name, fault) = &mut faults[next];
            fault().unwrap_or_else(|why| panic!("{topology}: {name}: {why}"));
            done.push(*name);
            next = (next + 1) % faults.len();
            while fault_began.elapsed() < period && began.elapsed() < span {
                thread::sleep(Duration::from_millis(20));
            }
        }
        drop(stop);
    });
    counters.judge(topology, promise, began, &done);
}

/// Ends the counting on every way out, also that of a panic.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Run {
    code: Option<i32>,
    ended: Instant,
    said: String,
}

struct Counters {
    lab: Lab,
    url: String,
    ttl: &'static str,
    stop: AtomicBool,
    runs: Mutex<Vec<Run>>,
}

impl Counters {
    /// The recipe of the README for a migration, again and again.
    fn work(&self) {
        while !self.stop.load(Ordering::Relaxed) {
            let args = ["run", "count/er", "-w", "10m", "--ttl", self.ttl, "--", "sh", "./step"];
            let mut command = bramah(&args);
            let Output { status, stderr, .. } =
                command.env("BRAMAH_ENGINE", &self.url).current_dir(&self.lab.dir).output().unwrap();
            let run = Run { code: status.code(), ended: Instant::now(), said: text(&stderr) };
            self.runs.lock().unwrap().push(run);
        }
    }

    fn served(&self) -> usize {
        self.runs.lock().unwrap().iter().filter(|run| run.code == Some(0)).count()
    }

    fn lines(&self, file: &str) -> Vec<String> {
        let path: PathBuf = self.lab.dir.join(file);
        fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
    }

    fn judge(&self, topology: &str, promise: Promise, began: Instant, faults: &[&str]) {
        let runs = self.runs.lock().unwrap();
        let served: Vec<&Run> = runs.iter().filter(|run| run.code == Some(0)).collect();
        let lost = runs.iter().filter(|run| run.code == Some(79)).count();
        let mut last = began;
        let mut gap = Duration::ZERO;
        for run in &served {
            gap = gap.max(run.ended.saturating_duration_since(last));
            last = last.max(run.ended);
        }
        let counted: Vec<(u64, u64)> = self
            .lines("count")
            .iter()
            .map(|line| {
                let (number, fence) = line.split_once(' ').unwrap();
                (number.parse().unwrap(), fence.parse().unwrap())
            })
            .collect();
        let numbers: HashSet<u64> = counted.iter().map(|(number, _)| *number).collect();
        let doubles = counted.len() - numbers.len();
        let refused = self.lines("refused").len();
        println!(
            "{topology}: {} counted in {:.1?} under {} faults ({}); {lost} lost, {doubles} double holds, \
             {refused} refused by the register; the longest gap without a grant {gap:.1?}",
            counted.len(),
            began.elapsed(),
            faults.len(),
            faults.join(", ")
        );
        for run in runs.iter() {
            let allowed = match run.code {
                Some(0 | 79) => true,
                Some(3) => promise == Promise::Fenced,
                _ => false,
            };
            assert!(allowed, "{topology}: a run ended with {:?}: {}", run.code, run.said);
        }
        let accepted = self.judge_register();
        assert!(
            accepted >= served.len() && accepted <= served.len() + lost,
            "{topology}: {accepted} accepted"
        );
        if promise == Promise::Kept {
            assert!(
                (1..).zip(&counted).all(|(n, (number, _))| n == *number),
                "{topology}: the count is wrong"
            );
            assert!(counted.windows(2).all(|pair| pair[0].1 < pair[1].1), "{topology}: a fence went back");
            assert_eq!((doubles, refused), (0, 0), "{topology}");
        }
        assert!(!faults.is_empty() && !served.is_empty(), "{topology}: nothing happened");
    }

    /// Whatever the lock did: every write that was accepted is one more than what was there. How many there were.
    fn judge_register(&self) -> usize {
        let mut value = 0;
        let mut writes = 0;
        for line in self.lines("register") {
            let words: Vec<&str> = line.split(' ').collect();
            let told: u64 = words[2].parse().unwrap();
            if words[0] == "write" {
                assert_eq!(told, value + 1, "an accepted write was lost");
                writes += 1;
            }
            value = told;
        }
        writes
    }
}
