//! What users with rights out of a page of the docs can do.

use std::time::Duration;

use bramah::{Error, ErrorKind, Release, Result, Scope};

const WITHIN: Duration = Duration::from_secs(30);

/// The statements of a page below this line.
pub(crate) fn block(page: &'static str, line: &str) -> Vec<&'static str> {
    let start = format!("```sql\n-- {line}\n");
    let (_, rest) = page.split_once(&start).expect("the page has such a block");
    let block = rest.split("```").next().unwrap_or_default();
    block.lines().filter(|line| !line.starts_with("--")).collect()
}

/// What takes the right of this statement away.
pub(crate) fn revoke(grant: &str) -> String {
    grant.replacen("GRANT", "REVOKE", 1).replace(" TO ", " FROM ")
}

/// Everything that is done with locks, by the user in the URL.
pub(crate) async fn lock(url: &str) -> Result<()> {
    let (here, there) = (bramah::connect(url).await?, bramah::connect(url).await?);
    // What a user that lacks a right cannot release is in nobody's way.
    let name = format!("rights/{}", here.id());
    let (mine, theirs) = (here.mutex(name.as_str())?, there.mutex(name.as_str())?);
    let guard = mine.lock_within(WITHIN).await?;
    assert!(theirs.try_lock().await?.is_none(), "it was given twice");
    let waiter = tokio::spawn(async move { theirs.lock_within(WITHIN).await });
    while there.claims() == 0 {
        tokio::task::yield_now().await;
    }
    guard.confirm().await?;
    let release = guard.release().await;
    if release != Release::Released {
        return Err(Error::new(ErrorKind::Unavailable, format!("{name}: {release:?}")));
    }
    let next = waiter.await.expect("a waiter has failed")?;
    assert!(here.survey(&Scope::All).await?.iter().any(|line| line.name.as_str() == name));
    assert!(here.break_hold(&next.name(), next.tag(), "a test").await?, "it was not broken");
    for session in [here, there] {
        assert_eq!(session.close(WITHIN).await.left, []);
    }
    Ok(())
}

/// The doctor, by the user in the URL: nothing keeps it from locking.
pub(crate) async fn examine(url: &str) -> std::result::Result<(), String> {
    let checkup = bramah::doctor::examine(url).await.map_err(|error| error.to_string())?;
    match checkup.is_healthy() && checkup.times.is_some() {
        true => Ok(()),
        false => Err(format!("{:#?}", checkup.findings)),
    }
}
