//! Counting, and judging the count.

use std::{
    collections::HashSet,
    fs,
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
/// Longer than a failover takes. etcd and ZooKeeper give all sessions their whole time again when another member leads: what a run
/// could not release in an outage would stay for ever if that happened more often than it takes to run out.
const TTL: &str = "5s";
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
    let counters = Counters::new(url);
    let (began, mut done) = (Instant::now(), Vec::new());
    let disturb = || {
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
    };
    counters.work_while(|_| "count/er".to_owned(), disturb);
    assert!(!done.is_empty(), "{topology}: nothing was done to the servers");
    println!("{topology}, under {} faults ({}):", done.len(), done.join(", "));
    counters.judge(promise, began).unwrap_or_else(|why| panic!("{topology}: {why}"));
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
    stop: AtomicBool,
    runs: Mutex<Vec<Run>>,
}

impl Counters {
    fn new(url: &str) -> Self {
        let lab = Lab::new();
        fs::write(lab.dir.join("step"), STEP).unwrap();
        Self { lab, url: url.to_owned(), stop: AtomicBool::new(false), runs: Mutex::default() }
    }

    /// Counts under the lock that each process is given, until `disturb` is over and every run has ended.
    fn work_while(&self, lock: impl Fn(usize) -> String, disturb: impl FnOnce()) {
        thread::scope(|scope| {
            let stop = Stop(&self.stop);
            for process in 0..PROCESSES {
                let lock = lock(process);
                scope.spawn(move || self.work(&lock));
            }
            until("the first of the runs", || (self.served() >= PROCESSES).then_some(()));
            disturb();
            drop(stop);
        });
    }

    /// The recipe of the README for a migration, again and again.
    fn work(&self, lock: &str) {
        while !self.stop.load(Ordering::Relaxed) {
            let mut command = bramah(&["run", lock, "-w", "10m", "--ttl", TTL, "--", "sh", "./step"]);
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
        let text = fs::read_to_string(self.lab.dir.join(file)).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// What was counted, and with which fences, in the order of the writes.
    fn counted(&self) -> Vec<(u64, u64)> {
        let pair = |line: &String| {
            let (number, fence) = line.split_once(' ').unwrap();
            (number.parse().unwrap(), fence.parse().unwrap())
        };
        self.lines("count").iter().map(pair).collect()
    }

    /// The longest time in which no run ended well.
    fn longest_gap(&self, began: Instant) -> Duration {
        let (mut last, mut gap) = (began, Duration::ZERO);
        for run in self.runs.lock().unwrap().iter().filter(|run| run.code == Some(0)) {
            gap = gap.max(run.ended.saturating_duration_since(last));
            last = last.max(run.ended);
        }
        gap
    }

    fn judge(&self, promise: Promise, began: Instant) -> Result<(), String> {
        let (gap, served) = (self.longest_gap(began), self.served());
        let (counted, refused) = (self.counted(), self.lines("refused").len());
        let numbers: HashSet<u64> = counted.iter().map(|(number, _)| *number).collect();
        let doubles = counted.len() - numbers.len();
        let runs = self.runs.lock().unwrap();
        let lost = runs.iter().filter(|run| run.code == Some(79)).count();
        let unconfirmed = runs.iter().filter(|run| run.said.contains("did not confirm the release")).count();
        println!(
            "    {} counted in {:.1?}, {lost} lost, {unconfirmed} releases not confirmed, {doubles} double holds, \
             {refused} refused by the register, the longest gap without a grant {gap:.1?}",
            counted.len(),
            began.elapsed(),
        );
        let is_allowed = |run: &Run| match run.code {
            Some(0 | 79) => true,
            Some(3) => promise == Promise::Fenced,
            _ => false,
        };
        if let Some(run) = runs.iter().find(|run| !is_allowed(run)) {
            return Err(format!("a run ended with {:?}: {}", run.code, run.said));
        }
        let accepted = self.judge_register()?;
        if !(served..=served + lost).contains(&accepted) {
            return Err(format!("{accepted} writes were accepted of {served} runs"));
        }
        if promise == Promise::Kept {
            if doubles > 0 || !(1..).zip(&counted).all(|(n, (number, _))| n == *number) {
                return Err("the count is wrong".to_owned());
            }
            if refused > 0 || !counted.windows(2).all(|pair| pair[0].1 < pair[1].1) {
                return Err("a fence went back".to_owned());
            }
        }
        Ok(())
    }

    /// Whatever the lock did: every write that was accepted is one more than what was there. How many there were.
    fn judge_register(&self) -> Result<usize, String> {
        let (mut value, mut writes) = (0, 0);
        for line in self.lines("register") {
            let words: Vec<&str> = line.split(' ').collect();
            let told: u64 = words[2].parse().unwrap();
            if words[0] == "write" {
                if told != value + 1 {
                    return Err(format!("the register lost a write: {told} after {value}"));
                }
                writes += 1;
            }
            value = told;
        }
        Ok(writes)
    }
}

/// The negative control of the count: with a lock for each, they hold at the same time.
#[test]
fn without_a_lock_in_common_the_count_is_wrong() {
    let store = Lab::new();
    let counters = Counters::new(&store.url());
    let enough = || until("many runs", || (counters.runs.lock().unwrap().len() > 40).then_some(()));
    counters.work_while(|process| format!("count/{process}"), enough);
    let why = counters.judge(Promise::Kept, Instant::now()).unwrap_err();
    assert!(why.starts_with("a run ended with Some(3)") || why == "the count is wrong", "{why}");
    assert!(counters.judge_register().is_ok(), "fences of one store protect a register all the same");
}

/// The negative control of the register: it is told fences that say nothing.
#[test]
fn without_fences_the_register_is_wrong() {
    let store = Lab::new();
    let counters = Counters::new(&store.url());
    let step = format!("BRAMAH_FENCE=1\n{STEP}");
    fs::write(counters.lab.dir.join("step"), step).unwrap();
    let enough = || until("many runs", || (counters.runs.lock().unwrap().len() > 40).then_some(()));
    counters.work_while(|process| format!("count/{process}"), enough);
    let why = counters.judge(Promise::Fenced, Instant::now()).unwrap_err();
    assert!(why.starts_with("the register lost a write"), "{why}");
}
