//! The recipes of the README.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use rustix::process::Signal;

use crate::support::{Lab, Running, path, text, until};

/// A line of shell in which `bramah` is the command under test.
fn shell(lab: &Lab, line: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", line]).env("PATH", path()).env("BRAMAH_ENGINE", lab.url()).current_dir(&lab.dir);
    shell
}

fn count(lab: &Lab, file: &str) -> usize {
    std::fs::read_to_string(lab.dir.join(file)).unwrap_or_default().lines().count()
}

#[test]
fn a_cron_job_runs_once_however_many_machines_start_it() {
    let lab = Lab::new();
    // Three machines whose clocks differ by less than the least time of holding.
    let job = "bramah run cron/mail -n -E 0 --min-hold 2s --max-run 10m -- sh -c 'echo sent >> mails'";
    let start = Instant::now();
    let first = Running::of(shell(&lab, job));
    until("the first mail", || (count(&lab, "mails") == 1).then_some(()));
    for _ in 0..2 {
        let skipped = shell(&lab, job).output().unwrap();
        if start.elapsed() < Duration::from_secs(2) {
            assert_eq!((skipped.status.code(), text(&skipped.stderr)), (Some(0), String::new()));
            assert_eq!(count(&lab, "mails"), 1);
        }
    }
    assert_eq!(first.end(), (0, String::new(), String::new()));
    // The next minute is another turn.
    let before = count(&lab, "mails");
    assert_eq!(shell(&lab, job).status().unwrap().code(), Some(0));
    assert_eq!(count(&lab, "mails"), before + 1);
}

#[test]
fn a_migration_is_done_by_one_replica_and_the_others_find_nothing_to_do() {
    let lab = Lab::new();
    let migrate =
        "if [ -e done ]; then echo nothing to do; else touch busy; rm busy; echo up >> steps; touch done; fi";
    std::fs::write(lab.dir.join("migrate"), format!("[ -e busy ] && echo overlap >> steps; {migrate}"))
        .unwrap();
    let line =
        "bramah run migrate/shop -w 10m --ttl 60s --reason \"replica $REPLICA rev 42\" -- sh ./migrate up";
    let replicas: Vec<_> = (0..4)
        .map(|number| {
            let mut replica = shell(&lab, line);
            replica.env("REPLICA", number.to_string());
            Running::of(replica)
        })
        .collect();
    let said: Vec<(i32, String, String)> = replicas.into_iter().map(Running::end).collect();
    assert!(said.iter().all(|(code, ..)| *code == 0), "{said:?}");
    assert_eq!(said.iter().filter(|(_, out, _)| out == "nothing to do\n").count(), 3, "{said:?}");
    assert_eq!(std::fs::read_to_string(lab.dir.join("steps")).unwrap(), "up\n");
}

#[test]
fn a_deploy_lock_says_who_and_why_and_a_person_can_freeze_it() {
    let lab = Lab::new();
    let deploy = |sha: &str, command: &str| {
        let line =
            format!("GIT_SHA={sha}; bramah run deploy/prod -w 0 --reason \"deploy $GIT_SHA\" -- {command}");
        shell(&lab, &line)
    };
    let mut first = Running::of(deploy("4f2a", "sh -c 'echo in; cat'"));
    assert_eq!(first.line(), "in");
    let busy = deploy("77b1", "touch never").output().unwrap();
    assert_eq!(busy.status.code(), Some(75));
    assert!(text(&busy.stderr).contains("(\"deploy 4f2a\")"), "{}", text(&busy.stderr));
    first.let_go();
    assert_eq!(first.code(), 0);
    let freeze = "bramah lock deploy/prod --ttl 4h --reason 'freeze: DB failover, ask ana'";
    let handle = text(&shell(&lab, freeze).output().unwrap().stdout).trim().to_owned();
    let frozen = deploy("77b1", "touch never").output().unwrap();
    assert_eq!(frozen.status.code(), Some(75));
    assert!(text(&frozen.stderr).contains("freeze: DB failover, ask ana"), "{}", text(&frozen.stderr));
    let thaw = shell(&lab, &format!("bramah unlock deploy/prod --handle {handle}")).output().unwrap();
    assert_eq!(thaw.status.code(), Some(0), "{}", text(&thaw.stderr));
    assert_eq!(deploy("77b1", "true").status().unwrap().code(), Some(0));
    assert!(!lab.dir.join("never").exists());
}

#[test]
fn an_elected_worker_is_followed_by_another_when_it_is_killed() {
    let lab = Lab::new();
    let line = "exec bramah elect worker/billing --ttl 15s -- sh -c 'echo work $BRAMAH_FENCE; cat'";
    let fence = |line: String| line.strip_prefix("work ").unwrap().parse::<u64>().unwrap();
    let mut one = Running::of(shell(&lab, line));
    let first = fence(one.line());
    let mut two = Running::of(shell(&lab, line));
    until("the second replica", || (lab.waiters("worker/billing") == [two.pid()]).then_some(()));
    one.signal(Signal::KILL);
    let second = fence(two.line());
    assert!(second > first);
    two.let_go();
    assert_eq!((one.code(), two.code()), (-9, 0));
}

#[test]
fn at_most_three_heavy_jobs_run_at_a_time() {
    let lab = Lab::new();
    let script = "mkdir run.$0; ls -d run.* | wc -l >> seen; rmdir run.$0";
    let jobs: Vec<_> = (0..12)
        .map(|id| {
            Running::of(shell(
                &lab,
                &format!("bramah run report/pdf --slots 3 -w 30m -- sh -c '{script}' {id}"),
            ))
        })
        .collect();
    assert!(jobs.into_iter().all(|job| job.end().0 == 0));
    let seen = std::fs::read_to_string(lab.dir.join("seen")).unwrap();
    let most = seen.lines().map(|line| line.trim().parse::<u32>().unwrap()).max().unwrap();
    assert_eq!(seen.lines().count(), 12);
    assert!((1..=3).contains(&most), "{seen}");
}
