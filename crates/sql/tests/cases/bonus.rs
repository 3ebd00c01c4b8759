#[path = "../../examples/bonus/main.rs"]
mod example;

use std::sync::{Mutex, PoisonError};

use super::child::{Example, run_as_child};
use crate::on::admin;

/// Another test starts this one as a process of its own; here it has nothing to do.
#[test]
fn a_process_that_claims() {
    run_as_child(example::main);
}

/// A thousand claims from four processes at once on a bonus of which a hundred are left.
/// Tells how many have won, and how many are left.
fn sell(way: &str) -> (usize, String) {
    // The example has one table.
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    admin("drop table if exists t_bonus");
    admin("create table t_bonus (id int primary key, left_count int not null, version bigint not null)");
    admin("insert into t_bonus values (1, 100, 0)");
    let environment = [("WAY", way), ("CLAIMS", "250")];
    let mut processes: Vec<_> =
        (0..4).map(|_| Example::start("cases::bonus::a_process_that_claims", &environment)).collect();
    processes.iter_mut().for_each(|process| drop(process.says("ready")));
    processes.iter_mut().for_each(Example::go);
    let winners =
        processes.iter_mut().map(|process| process.says("winners:").parse::<usize>().unwrap()).sum();
    processes.iter_mut().for_each(Example::end);
    (winners, admin("select left_count from t_bonus"))
}

#[test]
fn optimistically_a_hundred_win_and_none_is_left() {
    assert_eq!(sell("optimistic"), (100, "0".to_owned()));
}

#[test]
fn pessimistically_a_hundred_win_and_none_is_left() {
    assert_eq!(sell("pessimistic"), (100, "0".to_owned()));
}

#[test]
fn the_naive_way_sells_more_than_there_are() {
    for _ in 0..3 {
        let (winners, left) = sell("naive");
        assert!(winners > 100, "{winners} winners, {left} left");
    }
}
