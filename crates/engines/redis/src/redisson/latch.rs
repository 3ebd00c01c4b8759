//! `RCountDownLatch`: a count that many wait for to be nothing.

use std::{fmt, time::Duration};

use bramah_core::Result;

use super::Object;

/// A count that goes down to zero, and those who wait for that, an `RCountDownLatch` of Redisson.
///
/// A latch at zero is gone, and can be set anew. Who waits looks at the count as it is: one that was set anew meanwhile is
/// waited for, as in Redisson.
///
/// ```no_run
/// # async fn example() -> bramah_core::Result<()> {
/// let redis = bramah_redis::Redis::from_url("redis://localhost")?;
/// let ready = redis.redisson_latch("workers-ready");
/// ready.try_set_count(3).await?;
/// // Each of the workers, in whatever program:
/// ready.count_down().await?;
/// // Who needs them all:
/// ready.wait().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Latch {
    object: Object,
}

impl Latch {
    pub(super) fn new(object: Object) -> Self {
        Self { object }
    }

    /// Its name, which is its key.
    pub fn name(&self) -> &str {
        self.object.name()
    }

    /// Sets the count. False if there is one already.
    ///
    /// # Errors
    /// `Invalid` for nothing to count or more than `i64::MAX`; otherwise what the server or the way to it has to say.
    pub async fn try_set_count(&self, count: u64) -> Result<bool> {
        let most = i64::MAX;
        let count = i64::try_from(count).ok().filter(|&count| count > 0).ok_or_else(|| {
            self.object.out_of_range(&format!("a count of {count}"), &format!("1 to {most}"))
        })?;
        let script = &self.object.scripts.latch_set;
        let mut cmd = self.object.script(script);
        cmd.arg(&*self.object.channel).arg(count);
        Ok(self.object.number(&self.object.call(script, cmd, false).await?)? == 1)
    }

    /// Counts down by one, and tells what is left. A latch that is gone stays so.
    ///
    /// # Errors
    /// `Corrupt` where the name is something else; otherwise what the server or the way to it has to say. After
    /// `Unavailable` nobody knows whether it counted.
    pub async fn count_down(&self) -> Result<u64> {
        let script = &self.object.scripts.latch_count_down;
        let mut cmd = self.object.script(script);
        cmd.arg(&*self.object.channel);
        let left = self.object.number(&self.object.call(script, cmd, false).await?)?;
        Ok(u64::try_from(left).unwrap_or(0))
    }

    /// What is left to count, nothing if there is no latch.
    ///
    /// # Errors
    /// `Corrupt` where the name is something else; otherwise what the server or the way to it has to say.
    pub async fn count(&self) -> Result<u64> {
        self.look(false).await
    }

    async fn look(&self, track: bool) -> Result<u64> {
        Ok(u64::try_from(self.object.counter(track).await?).unwrap_or(0))
    }

    /// Waits until nothing is left to count. At once if there is no latch.
    ///
    /// # Errors
    /// As [`count`](Self::count).
    ///
    /// # Cancel safety
    /// Nothing is lost when it is dropped.
    pub async fn wait(&self) -> Result<()> {
        self.wait_until(None).await.map(drop)
    }

    /// The same, but no longer than that. False: there is something left to count.
    ///
    /// # Errors
    /// As [`count`](Self::count).
    ///
    /// # Cancel safety
    /// Nothing is lost when it is dropped.
    pub async fn wait_within(&self, wait: Duration) -> Result<bool> {
        self.wait_until(Some(wait)).await
    }

    async fn wait_until(&self, wait: Option<Duration>) -> Result<bool> {
        let deadline = self.object.until(wait);
        let mut seat = self.object.sit(0);
        loop {
            if self.look(true).await? == 0 {
                seat.pass_on_to_all();
                return Ok(true);
            }
            seat.settle();
            if !self.object.wait(&mut seat, None, deadline).await {
                return Ok(false);
            }
        }
    }

    /// Removes it, and those who wait go on. False if there was none.
    ///
    /// # Errors
    /// What the server or the way to it has to say.
    pub async fn delete(&self) -> Result<bool> {
        let script = &self.object.scripts.latch_delete;
        let mut cmd = self.object.script(script);
        cmd.arg(&*self.object.channel);
        Ok(self.object.number(&self.object.call(script, cmd, false).await?)? == 1)
    }
}

impl fmt::Debug for Latch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Latch({:?})", self.name())
    }
}
