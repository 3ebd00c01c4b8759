//! Holders that are asked to let go.

use bramah_core::{Asking, ErrorKind, Release, Tag};

use crate::{
    bench::Bench,
    case::{Outcome, cases, ensure, ensure_eq},
};

cases! { "asking":
    a_wish_is_passed_on_or_refused,
    nobody_else_is_asked [Shared, Asking],
    who_does_not_hold_it_is_not_asked,
}

async fn a_wish_is_passed_on_or_refused(bench: Bench) -> Outcome {
    let (a, b, c) = (bench.session().await?, bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lock().await?;
    ensure!(!guard.is_asked(), "asked before anybody did");
    let asked = c.ask(&name, guard.tag()).await;
    match bench.profile().asking {
        Asking::Passed => {
            ensure!(asked?, "the holder was not found");
            bench.soon("the wish", guard.asked()).await?;
            ensure!(guard.is_asked(), "told, and not asked");
        }
        Asking::Never => {
            let kind = asked.err().map(|error| error.kind());
            ensure_eq!(kind, Some(ErrorKind::Unsupported), "a wish that nobody passes on");
        }
    }
    // A wish and no more.
    ensure!(guard.confirm().await?, "what was asked for is not held");
    ensure!(b.mutex(&name)?.try_lock().await?.is_none(), "somebody was let in by a wish");
    ensure_eq!(guard.release().await, Release::Released, "the release");
    let guard = b.mutex(&name)?.lock().await?;
    ensure!(!guard.is_asked(), "the wish was meant for the one before");
    Ok(())
}

async fn nobody_else_is_asked(bench: Bench) -> Outcome {
    let (a, b, c) = (bench.session().await?, bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let (one, two) = (a.rwlock(&name)?.read().lock().await?, b.rwlock(&name)?.read().lock().await?);
    let later = bench.name("y");
    let marker = b.mutex(&later)?.lock().await?;
    ensure!(c.ask(&name, one.tag()).await?, "the holder was not found");
    bench.soon("the wish", one.asked()).await?;
    // A session hears of wishes in their order: once the second one has arrived, a stray first one would have, too.
    ensure!(c.ask(&later, marker.tag()).await?, "the holder of the other lock was not found");
    bench.soon("the wish for the other lock", marker.asked()).await?;
    ensure!(!two.is_asked(), "asked in the place of another");
    ensure!(c.ask(&name, two.tag()).await?, "the other holder was not found");
    bench.soon("the other's wish", two.asked()).await
}

async fn who_does_not_hold_it_is_not_asked(bench: Bench) -> Outcome {
    let (a, b) = (bench.session().await?, bench.session().await?);
    let name = bench.name("x");
    let guard = a.mutex(&name)?.lock().await?;
    let tag = guard.tag();
    let other: Tag = bench.session().await?.mutex(bench.name("y"))?.lock().await?.tag();
    ensure!(!b.ask(&name, other).await?, "a hold of another lock was found");
    ensure_eq!(guard.release().await, Release::Released, "the release");
    bench.emptied(&name).await?;
    ensure!(!b.ask(&name, tag).await?, "a hold was found that was released");
    Ok(())
}
