//! Processes that count in a file under a lock.

use std::{
    fs::{self, OpenOptions},
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use bramah_core::{ErrorKind, Moment};

use crate::{TTL, rig::*, stage::*};

const URL: &str = "BRAMAH_COUNT_AT";
const FOLDER: &str = "BRAMAH_COUNT_IN";

/// The processes, and the folder with their count and their log. They end when it is dropped.
pub(crate) struct Counters {
    processes: Vec<Child>,
    folder: PathBuf,
}

impl Counters {
    /// Lets this test program count as so many processes of its own.
    pub(crate) fn start(url: &str, number: usize) -> Self {
        let folder = std::env::temp_dir().join(format!("bramah-counting-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("count"), "0").unwrap();
        let processes = (0..number).map(|_| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "counting::a_process_that_counts", "--nocapture"])
                .env(URL, url)
                .env(FOLDER, &folder)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        });
        Self { processes: processes.collect(), folder }
    }

    pub(crate) fn log(&self) -> Log {
        Log::read(&self.folder)
    }

    pub(crate) fn count(&self) -> usize {
        read_count(&self.folder)
    }

    pub(crate) fn assert_alive(&mut self) {
        for process in &mut self.processes {
            let status = process.try_wait().unwrap();
            assert!(status.is_none(), "a process that counts has ended: {status:?}");
        }
    }

    /// They end with their input, and tell by their status whether all went well.
    pub(crate) fn stop(&mut self) {
        self.processes.iter_mut().for_each(|process| drop(process.stdin.take()));
        for process in &mut self.processes {
            assert!(process.wait().unwrap().success(), "a process that counts has failed");
        }
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // It may have ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// One turn in the critical section.
struct Entry {
    process: u32,
    fence: u64,
    at: Moment,
}

/// What the processes wrote down, in the order of their critical sections.
pub(crate) struct Log(Vec<Entry>);

impl Log {
    fn read(folder: &Path) -> Self {
        let text = fs::read_to_string(folder.join("log")).unwrap_or_default();
        // The last line may be on its way.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let entry = |line: &str| -> Option<Entry> {
            let mut words = line.split(' ').map(|word| word.parse::<u64>().ok());
            let process = u32::try_from(words.next()??).ok()?;
            Some(Entry { process, fence: words.next()??, at: Moment::from_ns(words.next()??) })
        };
        Self(whole.lines().map(|line| entry(line).unwrap_or_else(|| panic!("{line:?}"))).collect())
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn processes(&self) -> usize {
        let mut known: Vec<u32> = self.0.iter().map(|entry| entry.process).collect();
        known.sort_unstable();
        known.dedup();
        known.len()
    }

    pub(crate) fn between(&self, from: Moment, to: Moment) -> usize {
        self.0.iter().filter(|entry| entry.at >= from && entry.at <= to).count()
    }

    pub(crate) fn first_after(&self, from: Moment) -> Option<Moment> {
        self.0.iter().map(|entry| entry.at).find(|at| *at >= from)
    }

    /// The longest time without a turn.
    pub(crate) fn longest_gap(&self, from: Moment, to: Moment) -> Duration {
        let turns = self.0.iter().map(|entry| entry.at).filter(|at| *at >= from && *at <= to);
        let marks: Vec<Moment> = [from].into_iter().chain(turns).chain([to]).collect();
        marks.windows(2).map(|two| two[1].since(two[0])).max().unwrap_or_default()
    }

    pub(crate) fn assert_fences_rise(&self) {
        for two in self.0.windows(2) {
            assert!(two[0].fence < two[1].fence, "{} came after {}", two[1].fence, two[0].fence);
        }
    }
}

fn read_count(folder: &Path) -> usize {
    fs::read_to_string(folder.join("count")).unwrap().parse().unwrap()
}

/// Another test starts this one as a process of its own; here it has nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_counts() {
    static OVER: AtomicBool = AtomicBool::new(false);
    let (Ok(url), Ok(folder)) = (std::env::var(URL), std::env::var(FOLDER)) else { return };
    let folder = PathBuf::from(folder);
    std::thread::spawn(|| {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        OVER.store(true, Ordering::Relaxed);
    });
    let session = join(&url, TTL).await;
    let lock = mutex(&session, "counted");
    while !OVER.load(Ordering::Relaxed) {
        let guard = match lock.lock_within(ms(2000)).await {
            Ok(guard) => guard,
            Err(why) if matches!(why.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) => continue,
            Err(why) => panic!("{why}"),
        };
        let count = read_count(&folder);
        nap(ms(fastrand::u64(..5))).await;
        if !guard.is_held() {
            continue;
        }
        // Both in the critical section: what is counted is in the log, and the other way round.
        let line = format!("{} {} {}\n", std::process::id(), guard.fence().unwrap().get(), now().ns());
        fs::write(folder.join("new"), (count + 1).to_string()).unwrap();
        fs::rename(folder.join("new"), folder.join("count")).unwrap();
        let mut log = OpenOptions::new().create(true).append(true).open(folder.join("log")).unwrap();
        log.write_all(line.as_bytes()).unwrap();
        guard.release().await;
    }
    let closed = session.close(PATIENCE).await;
    assert!(closed.left.is_empty(), "{closed:?}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(entries: &[(u64, u64)]) -> Log {
        let entry = |&(fence, at)| Entry { process: 1, fence, at: Moment::from_ns(at) };
        Log(entries.iter().map(entry).collect())
    }

    /// The checks have to be able to fail.
    #[test]
    fn a_log_notices_a_fence_that_falls_and_a_gap() {
        let turns = log(&[(1, 10), (2, 20), (3, 50)]);
        turns.assert_fences_rise();
        let at = Moment::from_ns;
        assert_eq!(turns.longest_gap(at(0), at(60)), Duration::from_nanos(30));
        assert_eq!(turns.longest_gap(at(0), at(100)), Duration::from_nanos(50));
        assert_eq!((turns.between(at(15), at(50)), turns.first_after(at(11))), (2, Some(at(20))));
        for falling in [log(&[(2, 10), (1, 20)]), log(&[(2, 10), (2, 20)])] {
            assert!(std::panic::catch_unwind(|| falling.assert_fences_rise()).is_err());
        }
    }
}
