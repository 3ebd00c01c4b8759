//! What a lock is for.

use crate::support::{Lab, text};

const PROCESSES: usize = 8;

#[test]
fn increments_of_eight_processes_add_up_and_fences_rise() {
    let rounds: usize =
        std::env::var("BRAMAH_TEST_ROUNDS").map_or(25, |rounds| rounds.parse().expect("a number of rounds"));
    let lab = Lab::new();
    std::fs::write(lab.dir.join("f"), "0\n").unwrap();
    let step = "n=$(cat f); sleep 0.002; echo $((n+1)) > f; echo $BRAMAH_FENCE >> fences";
    std::thread::scope(|scope| {
        for _ in 0..PROCESSES {
            scope.spawn(|| {
                for _ in 0..rounds {
                    let out = lab.output(&["run", "count/er", "--", "sh", "-c", step]);
                    assert_eq!(out.status.code(), Some(0), "{}", text(&out.stderr));
                }
            });
        }
    });
    let count = std::fs::read_to_string(lab.dir.join("f")).unwrap();
    assert_eq!(count.trim(), (PROCESSES * rounds).to_string());
    let fences = std::fs::read_to_string(lab.dir.join("fences")).unwrap();
    let fences: Vec<u64> = fences.lines().map(|fence| fence.parse().unwrap()).collect();
    assert_eq!(fences.len(), PROCESSES * rounds);
    assert!(fences.windows(2).all(|pair| pair[0] < pair[1]), "{fences:?}");
}

#[test]
fn without_the_lock_they_do_not_add_up() {
    let lab = Lab::new();
    std::fs::write(lab.dir.join("f"), "0\n").unwrap();
    let step = "for i in 1 2 3 4 5; do n=$(cat f); sleep 0.01; echo $((n+1)) > f; done";
    std::thread::scope(|scope| {
        for number in 0..PROCESSES {
            let (lab, name) = (&lab, format!("a-lock-of-its-own/{number}"));
            scope.spawn(move || lab.output(&["run", &name, "--", "sh", "-c", step]));
        }
    });
    let count = std::fs::read_to_string(lab.dir.join("f")).unwrap();
    assert_ne!(count.trim(), (PROCESSES * 5).to_string(), "the test above would notice");
}
