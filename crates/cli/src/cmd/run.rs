//! `bramah run` and `bramah elect`: hold a lock while a command runs.

mod course;
mod grant;
mod loss;

use crate::{
    exit::{Exit, Failure},
    plan::Run,
    signals::Signals,
    store::Store,
};
use course::Course;
use grant::Grant;

/// Takes the lock, runs the command, releases the lock.
pub(crate) async fn run(plan: &Run, store: &Store) -> Result<Exit, Failure> {
    let mut signals = Signals::heed()?;
    let mut course = Course::new(plan);
    let exit = turn(&mut course, store, &mut signals).await;
    course.report(exit);
    Ok(exit)
}

/// The same again and again, for as long as the leadership is only lost.
pub(crate) async fn elect(plan: &Run, store: &Store) -> Result<Exit, Failure> {
    let mut signals = Signals::heed()?;
    loop {
        let mut course = Course::new(plan);
        let exit = turn(&mut course, store, &mut signals).await;
        course.report(exit);
        if exit != Exit::Lost {
            return Ok(exit);
        }
    }
}

async fn turn(course: &mut Course<'_>, store: &Store, signals: &mut Signals) -> Exit {
    let done = async {
        match Grant::get(course.plan, store, signals).await? {
            Some(grant) => course.follow(grant, store, signals).await,
            None => Ok(Exit::Busy(course.plan.busy_code)),
        }
    };
    done.await.unwrap_or_else(Failure::tell)
}
