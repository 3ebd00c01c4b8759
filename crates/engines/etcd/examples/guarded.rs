//! A counter in etcd that is written under a lock, or not at all.
//!
//! A process can be paused between its last look at the lock and its write, for longer than its ttl. So the write says itself what it
//! hangs from: among the comparisons of the transaction is that our claim is there still, and etcd refuses what comes too late.
//!
//! ```sh
//! cargo run -p bramah-etcd --example guarded -- 127.0.0.1:2379
//! cargo run -p bramah-etcd --example guarded -- 127.0.0.1:2379 late
//! ```

use std::error::Error;

use bramah_core::Session;
use bramah_etcd::{
    Etcd,
    proto::etcdserverpb::{
        PutRequest, RangeRequest, RequestOp, TxnRequest, kv_client::KvClient, request_op::Request,
    },
};
use tonic::transport::Channel;

const KEY: &[u8] = b"example/counter";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let address = words.next().ok_or("name a member of etcd, such as 127.0.0.1:2379")?;
    let late = words.next().is_some_and(|word| word == "late");
    match count(&address, late).await? {
        Some(count) => println!("counted to {count}"),
        None => println!("too late: the lock was lost, and nothing was written"),
    }
    Ok(())
}

/// Counts one on. `None` if the lock was lost before the write arrived, which `late` brings about: somebody breaks the hold, and this
/// process does not know yet.
pub(crate) async fn count(address: &str, late: bool) -> Result<Option<u64>, Box<dyn Error>> {
    let etcd = Etcd::from_url(&format!("etcd://{address}"))?;
    let mut kv = KvClient::new(Channel::from_shared(format!("http://{address}"))?.connect().await?);
    let session = Session::open(etcd.clone()).await?;
    let guard = session.mutex("example/lock")?.lock().await?;
    let condition = etcd.guard_condition(&guard).ok_or("the lock is lost already")?;

    let range = RangeRequest { key: KEY.into(), ..RangeRequest::default() };
    let found = kv.range(range).await?.into_inner().kvs.pop();
    let count = match found {
        Some(found) => String::from_utf8(found.value)?.parse::<u64>()? + 1,
        None => 1,
    };
    if late {
        let other = Session::open(etcd).await?;
        other.break_hold(&guard.name(), guard.tag(), "an example of a late write").await?;
    }

    let put = PutRequest { key: KEY.into(), value: count.to_string().into(), ..PutRequest::default() };
    let write = TxnRequest {
        compare: vec![condition.compare()],
        success: vec![RequestOp { request: Some(Request::RequestPut(put)) }],
        failure: Vec::new(),
    };
    let done = kv.txn(write).await?.into_inner().succeeded;
    guard.release().await;
    Ok(done.then_some(count))
}
