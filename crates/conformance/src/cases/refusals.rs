//! What is not promised is refused by name; several names, and one seat.

use std::{sync::Arc, time::Duration};

use bramah_core::{Claim, ErrorKind, Modes, Order, Session, all};

use crate::{
    bench::{Bench, LONG, SLOW, SOON, got},
    case::{Outcome, cases, ensure, ensure_eq, wait_until},
    history::History,
    twist::{Narrow, OneSeat},
};

cases! { "refusals":
    what_the_profile_does_not_promise_is_refused_by_name,
    an_unordered_store_still_excludes_and_serves_everybody,
    a_closed_session_refuses,
    a_closed_session_ends_its_waiters,
    what_is_out_of_range_is_invalid,
    several_names_are_taken_in_one_order_whatever_order_they_are_given_in,
    several_names_given_in_opposite_orders_do_not_deadlock,
    several_names_are_all_or_none,
    several_names_share_one_deadline,
    the_same_name_twice_is_refused,
    one_seat_is_never_taken_twice,
    one_seat_is_passed_on_by_those_who_give_up,
}

async fn what_the_profile_does_not_promise_is_refused_by_name(bench: Bench) -> Outcome {
    let order = bench.profile().order;
    let exclusive = Arc::new(Narrow { modes: Modes::Exclusive, order });
    let session = bench.session_on(bench.twisted(&exclusive).await?, LONG).await?;
    let name = bench.name("x");
    for error in [session.rwlock(&name).err(), session.semaphore(&name, 3).err()] {
        let Some(error) = error else {
            ensure!(false, "a face that the profile does not promise was built");
            continue;
        };
        ensure_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        ensure!(error.to_string().contains(name.as_str()), "it does not say which: {error}");
        ensure!(error.to_string().contains("exclusive"), "it does not say what there is: {error}");
    }
    got(session.mutex(&name)?.try_lock().await)?.release().await;
    got(session.semaphore(&name, 1)?.permits(1).try_lock().await)?.release().await;
    if bench.profile().modes < Modes::Permits {
        let kind = bench.session().await?.semaphore(&name, 3).err().map(|error| error.kind());
        ensure_eq!(kind, Some(ErrorKind::Unsupported), "a semaphore on this engine");
    }
    Ok(())
}

async fn an_unordered_store_still_excludes_and_serves_everybody(bench: Bench) -> Outcome {
    let twist = Arc::new(Narrow { modes: Modes::Exclusive, order: Order::Unordered });
    let (name, history) = (bench.name("x"), Arc::new(History::default()));
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let session = bench.session_on(bench.twisted(&twist).await?, LONG).await?;
        for _ in 0..2 {
            tasks.push(tokio::spawn(take_turns(session.clone(), bench.clone(), history.clone(), 8)));
        }
    }
    for task in tasks {
        bench.within(SLOW, "a task's last turn", task).await???;
    }
    ensure_eq!(history.count(), 48, "turns");
    history.check_exclusive()?;
    bench.emptied(&name).await
}

async fn take_turns(session: Session, bench: Bench, history: Arc<History>, turns: usize) -> Outcome {
    let mutex = session.mutex(bench.name("x"))?;
    for _ in 0..turns {
        let guard = mutex.lock().await?;
        let inside = history.enter(&guard, 1);
        tokio::task::yield_now().await;
        drop(inside);
        guard.release().await;
    }
    Ok(())
}

async fn a_closed_session_refuses(bench: Bench) -> Outcome {
    let short = bench.short();
    let session = bench.session().await?;
    let mutex = session.mutex(bench.name("x"))?;
    ensure_eq!(session.close(SOON).await.left, [], "what a closed session left");
    let errors = [
        mutex.lock().await.err(),
        mutex.try_lock().await.err(),
        mutex.lock_within(short).await.err(),
        all([mutex.clone()]).lock().await.err(),
    ];
    for error in errors {
        ensure_eq!(error.map(|error| error.kind()), Some(ErrorKind::Lost), "a claim of a closed session");
    }
    ensure_eq!(session.close(SOON).await.left, [], "what was left by closing it twice");
    bench.emptied(&bench.name("x")).await
}

async fn a_closed_session_ends_its_waiters(bench: Bench) -> Outcome {
    let short = bench.short();
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lock().await?;
    let mutex = b.mutex(&name)?;
    let waiter = tokio::spawn(async move { mutex.lock().await });
    wait_until!(bench, SOON, b.claims() == 1, "the waiter's claim");
    bench.pass(short / 20).await;
    ensure_eq!(b.close(SOON).await.left, [], "what a closed session left");
    let kind = bench.soon("the end of the wait", waiter).await??.err().map(|error| error.kind());
    ensure_eq!(kind, Some(ErrorKind::Lost), "a wait in a session that was closed");
    ensure_eq!(bench.standing(&name).await?, (1, 0), "holders and waiters");
    drop(guard);
    Ok(())
}

async fn what_is_out_of_range_is_invalid(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let mutex = session.mutex(bench.name("x"))?;
    let ms = Duration::from_millis;
    let long = "x".repeat(Claim::MAX_NOTE_BYTES + 1);
    let wrong =
        [mutex.lease(ms(1)), mutex.lease(Duration::MAX), mutex.max_hold(Duration::ZERO), mutex.reason(&long)];
    for lock in wrong {
        let kind = lock.try_lock().await.err().map(|error| error.kind());
        ensure_eq!(kind, Some(ErrorKind::Invalid), "{lock:?}");
    }
    for ttl in [ms(1), Session::MAX_TTL * 2] {
        let kind = bench.session_of(ttl).await.err().map(|error| error.kind());
        ensure_eq!(kind, Some(ErrorKind::Invalid), "a ttl of {ttl:?}");
    }
    let reason = "x".repeat(Claim::MAX_NOTE_BYTES);
    drop(got(mutex.reason(reason).try_lock().await)?);
    Ok(())
}

async fn several_names_are_taken_in_one_order_whatever_order_they_are_given_in(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let (one, two, three) = (bench.name("1"), bench.name("2"), bench.name("3"));
    let locks = [session.mutex(&three)?, session.mutex(&one)?, session.mutex(&two)?];
    let guards = all(locks).lock().await?;
    let names: Vec<_> = guards.iter().map(bramah_core::Guard::name).collect();
    ensure_eq!(names, [one, two, three], "the order of the guards");
    ensure!(guards.is_held(), "not all are held");
    ensure_eq!(guards.release().await, [bramah_core::Release::Released; 3], "the releases");
    Ok(())
}

async fn several_names_given_in_opposite_orders_do_not_deadlock(bench: Bench) -> Outcome {
    let (one, two) = (bench.name("1"), bench.name("2"));
    let history = Arc::new(History::default());
    let mut tasks = Vec::new();
    for (index, session) in bench.sessions(4).await?.into_iter().enumerate() {
        let mut locks = [session.mutex(&one)?, session.mutex(&two)?];
        if index % 2 == 0 {
            locks.reverse();
        }
        let (all, history) = (all(locks), history.clone());
        tasks.push(tokio::spawn(async move {
            for _ in 0..15 {
                let guards = all.lock().await?;
                let inside = guards.iter().next().map(|guard| history.enter(guard, 1));
                tokio::task::yield_now().await;
                drop(inside);
                guards.release().await;
            }
            Outcome::Ok(())
        }));
    }
    for task in tasks {
        bench.within(SLOW, "a task's last turn", task).await???;
    }
    history.check_exclusive()
}

async fn several_names_are_all_or_none(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let (one, two) = (bench.name("1"), bench.name("2"));
    let guard = a.mutex(&two)?.lock().await?;
    let both = all([b.mutex(&one)?, b.mutex(&two)?]);
    ensure!(both.try_lock().await?.is_none(), "it took a lock that is held");
    bench.emptied(&one).await?;
    guard.release().await;
    let guards = both.try_lock().await?;
    ensure!(guards.is_some_and(|guards| guards.is_held()), "both are free, and it did not get them");
    bench.emptied(&one).await?;
    bench.emptied(&two).await
}

async fn several_names_share_one_deadline(bench: Bench) -> Outcome {
    let short = bench.short();
    let (a, b) = (bench.session().await?, bench.session().await?);
    let (one, two) = (bench.name("1"), bench.name("2"));
    let guard = a.mutex(&two)?.lock().await?;
    let both = all([b.mutex(&one)?, b.mutex(&two)?]);
    let started = bench.clock().now();
    let kind = both.lock_within(short / 4).await.err().map(|error| error.kind());
    let took = bench.clock().now().since(started);
    ensure_eq!(kind, Some(ErrorKind::Timeout), "a wait for one of two");
    ensure!(took >= short / 4 && took < short / 4 + SOON, "it took {took:?}");
    bench.emptied(&one).await?;
    drop(guard);
    Ok(())
}

async fn the_same_name_twice_is_refused(bench: Bench) -> Outcome {
    let session = bench.session().await?;
    let name = bench.name("x");
    let twice = all([session.mutex(&name)?, session.mutex(&name)?]).lock().await;
    ensure_eq!(twice.err().map(|error| error.kind()), Some(ErrorKind::Invalid), "one name twice");
    let none = all(Vec::<bramah_core::Mutex>::new()).lock().await;
    ensure_eq!(none.err().map(|error| error.kind()), Some(ErrorKind::Invalid), "no name at all");
    bench.emptied(&name).await
}

async fn one_seat_is_never_taken_twice(bench: Bench) -> Outcome {
    let (history, twist) = (Arc::new(History::default()), Arc::new(OneSeat::default()));
    let mut tasks = Vec::new();
    for _ in 0..2 {
        let session = bench.session_on(bench.twisted(&twist).await?, LONG).await?;
        for _ in 0..5 {
            tasks.push(tokio::spawn(take_turns(session.clone(), bench.clone(), history.clone(), 8)));
        }
    }
    for task in tasks {
        bench.within(SLOW, "a task's last turn", task).await???;
    }
    ensure!(!twist.was_crowded(), "a session had two claims on one name at once");
    ensure_eq!(history.count(), 80, "turns");
    history.check_exclusive()
}

async fn one_seat_is_passed_on_by_those_who_give_up(bench: Bench) -> Outcome {
    let twist = Arc::new(OneSeat::default());
    let session = bench.session_on(bench.twisted(&twist).await?, LONG).await?;
    let other = bench.session().await?;
    let name = bench.name("x");
    let first = other.mutex(&name)?.lock().await?;
    let mutex = session.mutex(&name)?;
    let gives_up = tokio::spawn({
        let mutex = mutex.clone();
        async move { mutex.lock().await }
    });
    if bench.profile().order == Order::Fifo {
        wait_until!(bench, SOON, twist.taken() == 1, "the seat");
    }
    ensure!(mutex.try_lock().await?.is_none(), "two hold it");
    let kind = mutex.lock_within(Duration::from_millis(40)).await.err().map(|error| error.kind());
    ensure_eq!(kind, Some(ErrorKind::Timeout), "a wait for the seat");
    let stays = tokio::spawn(async move { mutex.lock().await });
    gives_up.abort();
    first.release().await;
    // The lock may have come first: its guard is in the task's result.
    drop(gives_up.await);
    let guard = bench.soon("the turn of who stayed", stays).await???;
    ensure!(!twist.was_crowded(), "a session had two claims on one name at once");
    guard.release().await;
    bench.emptied(&name).await
}
