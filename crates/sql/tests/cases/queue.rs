#[path = "../../examples/queue/main.rs"]
mod example;

use std::time::Duration;

use bramah_lab::until;

use super::child::{Example, run_as_child};
use crate::on::admin;

const JOBS: usize = 200;

/// Another test starts this one as a process of its own; here it has nothing to do.
#[test]
fn a_process_that_works() {
    run_as_child(example::main);
}

fn worker(name: &str, work_ms: &str) -> Example {
    Example::start("cases::queue::a_process_that_works", &[("WORKER", name), ("WORK_MS", work_ms)])
}

#[test]
fn each_job_is_done_once_and_a_worker_that_is_killed_loses_none() {
    admin("create table t_job (id int primary key, done_by varchar(20))");
    admin("create table t_result (job int not null, worker varchar(20) not null)");
    // It is at its first job for ever, and the others do the rest meanwhile.
    admin("insert into t_job (id) values (1)");
    let mut victim = worker("victim", "3600000");
    assert_eq!(victim.says("took job "), "1");
    let mut others: Vec<_> = ["ann", "ben", "cid"].map(|name| worker(name, "5")).into();
    others.iter_mut().for_each(|other| drop(other.says("is ready")));
    let jobs: Vec<_> = (2..=JOBS).map(|job| format!("({job})")).collect();
    admin(&format!("insert into t_job (id) values {}", jobs.join(", ")));
    until("all jobs but one", Duration::from_secs(60), || {
        match admin("select count(*) from t_job where done_by is null").as_str() {
            "1" => Ok(()),
            left => Err(format!("{left} left")),
        }
    })
    .unwrap();
    assert_eq!(admin("select id from t_job where done_by is null"), "1");
    victim.kill();
    others.iter_mut().for_each(Example::end);

    assert_eq!(admin("select count(*) from t_result"), JOBS.to_string());
    assert_eq!(admin("select count(distinct job) from t_result"), JOBS.to_string());
    assert_eq!(admin("select count(*) from t_result where worker = 'victim'"), "0");
    assert_eq!(admin("select count(*) from t_job where done_by is null"), "0");
    let workers = admin("select count(distinct worker) from t_result");
    assert!(workers.parse::<usize>().unwrap() > 1, "one worker did it all");
}
