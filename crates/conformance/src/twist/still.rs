//! Wakes without the timer behind them, and timers without the wake.

use std::{sync::Arc, time::Duration};

use bramah_core::{Claim, Engine, Reply, Standing, Wake};

use super::Twist;

/// The poll net taken away: whoever waits has nothing but its wake.
#[derive(Debug, Default)]
pub struct Still;

impl Twist for Still {
    fn claim(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>) -> Reply<Standing> {
        requeued(inner.claim(claim), |wake, _| (wake, Duration::from_secs(24 * 3600)))
    }
}

/// The wake taken away: whoever waits has nothing but its timer.
#[derive(Debug, Default)]
pub struct Deaf;

impl Twist for Deaf {
    fn claim(&self, inner: &Arc<dyn Engine>, claim: Arc<Claim>) -> Reply<Standing> {
        requeued(inner.claim(claim), |_, sleep| (Wake::never(), sleep))
    }
}

fn requeued(
    reply: Reply<Standing>,
    change: impl FnOnce(Wake, Duration) -> (Wake, Duration) + Send + 'static,
) -> Reply<Standing> {
    Reply::later(async move {
        Ok(match reply.await? {
            Standing::Queued { ahead, wake, sleep } => {
                let (wake, sleep) = change(wake, sleep);
                Standing::Queued { ahead, wake, sleep }
            }
            other => other,
        })
    })
}
