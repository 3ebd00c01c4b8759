//! A wake that fires when any key under a prefix changes.

use std::{
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bramah_core::{Bell, Error, ErrorKind, Result, Wake, Woken};
use redis::{PushInfo, PushKind, Value};

use super::within::within;
use super::{dial::Line, link::Hub, route::Site};
use crate::error;

/// Rung once, by the first who has something to tell. A connection's end of it tells when it is dropped.
struct Rope(Arc<Mutex<Option<Bell>>>);

impl Rope {
    fn hear(&self, push: &PushInfo) {
        if matches!(push.kind, PushKind::Invalidate | PushKind::Disconnection) {
            self.ring();
        }
    }

    fn ring(&self) {
        let bell = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(bell) = bell {
            bell.ring(Woken::Ask);
        }
    }
}

impl Drop for Rope {
    fn drop(&mut self) {
        self.ring();
    }
}

/// Watches every node, over connections that live as long as the wake.
pub(super) async fn over(
    hub: &Arc<Hub>,
    sites: &[Arc<Site>],
    prefix: &[u8],
    patience: Duration,
) -> Result<Wake> {
    let (bell, wake) = Wake::pair();
    let bell = Arc::new(Mutex::new(Some(bell)));
    let all = async {
        let mut lines = Vec::with_capacity(sites.len());
        for site in sites {
            lines.push(one(hub, site, prefix, Rope(Arc::clone(&bell))).await?);
        }
        Ok::<Vec<Line>, Error>(lines)
    };
    let lines: Vec<Line> = within(patience, pin!(all)).await.map_err(|_| {
        Error::new(
            ErrorKind::Unavailable,
            format!("redis did not let us watch within {patience:?}; is it up?"),
        )
    })??;
    Ok(Wake::from_future(async move {
        let woken = wake.await;
        drop(lines);
        woken
    }))
}

async fn one(hub: &Hub, site: &Site, prefix: &[u8], rope: Rope) -> Result<Line> {
    let address = site.place().address().await?;
    let mut line = hub.dialer.open(&address, move |push| rope.hear(&push), Arc::default()).await?;
    let mut cmd = redis::cmd("CLIENT");
    cmd.arg("TRACKING").arg("ON").arg("BCAST");
    if !prefix.is_empty() {
        cmd.arg("PREFIX").arg(prefix);
    }
    let address = address.to_string();
    match line.connection.send_packed_command(&cmd).await {
        Ok(Value::ServerError(error)) => Err(error::from_server(&error, &address)),
        Ok(_) => Ok(line),
        Err(error) => Err(error::from_break(&error, &address)),
    }
}
