//! What is asked of etcd, and how its answers are read.

use std::time::Duration;

use tonic::Response;

use crate::{
    error::Trouble,
    layout::Span,
    net::{LARGEST, Net},
    proto::{
        etcdserverpb::{
            Compare, DeleteRangeRequest, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest,
            LeaseTimeToLiveRequest, LeaseTimeToLiveResponse, PutRequest, RangeRequest, RangeResponse,
            RequestOp, ResponseHeader, ResponseOp, TxnRequest, TxnResponse,
            compare::{CompareResult, CompareTarget, TargetUnion},
            kv_client::KvClient,
            lease_client::LeaseClient,
            range_request::{SortOrder, SortTarget},
            request_op::Request,
            response_op,
        },
        mvccpb::KeyValue,
    },
};

/// How many keys a survey reads at a time.
const PAGE: i64 = 1000;

/// How many reads are put into one transaction. etcd takes 128 if it is not told otherwise.
const READS: usize = 32;

pub(crate) fn read(span: &Span) -> RequestOp {
    let (key, range_end) = (span.from.clone(), span.to.clone());
    RequestOp {
        request: Some(Request::RequestRange(RangeRequest { key, range_end, ..RangeRequest::default() })),
    }
}

/// The first so many keys of a span, and whether there are more.
pub(crate) fn some(span: &Span, limit: i64) -> RequestOp {
    let (key, range_end) = (span.from.clone(), span.to.clone());
    let range = RangeRequest { key, range_end, limit, ..RangeRequest::default() };
    RequestOp { request: Some(Request::RequestRange(range)) }
}

/// The two that were created last in a span, at this revision at the latest: one and the one before it.
pub(crate) fn last_two(span: &Span, by: Option<i64>) -> RequestOp {
    let (key, range_end) = (span.from.clone(), span.to.clone());
    let range = RangeRequest {
        key,
        range_end,
        limit: 2,
        sort_order: SortOrder::Descend.into(),
        sort_target: SortTarget::Create.into(),
        max_create_revision: by.unwrap_or_default(),
        ..RangeRequest::default()
    };
    RequestOp { request: Some(Request::RequestRange(range)) }
}

pub(crate) fn put(key: &[u8], value: Vec<u8>, lease: i64) -> RequestOp {
    let put = PutRequest { key: key.to_vec(), value, lease, ..PutRequest::default() };
    RequestOp { request: Some(Request::RequestPut(put)) }
}

pub(crate) fn delete(key: &[u8]) -> RequestOp {
    let delete = DeleteRangeRequest { key: key.to_vec(), ..DeleteRangeRequest::default() };
    RequestOp { request: Some(Request::RequestDeleteRange(delete)) }
}

pub(crate) fn nested(txn: TxnRequest) -> RequestOp {
    RequestOp { request: Some(Request::RequestTxn(txn)) }
}

/// That the key has been there since this revision and without a break; 0 if it is not there, or nothing in the span is.
pub(crate) fn created(span: &Span, revision: i64) -> Compare {
    Compare {
        key: span.from.clone(),
        range_end: span.to.clone(),
        target: CompareTarget::Create.into(),
        result: CompareResult::Equal.into(),
        target_union: Some(TargetUnion::CreateRevision(revision)),
    }
}

/// That nothing in the span is older than what was created at this revision.
pub(crate) fn none_before(span: &Span, revision: i64) -> Compare {
    Compare {
        key: span.from.clone(),
        range_end: span.to.clone(),
        target: CompareTarget::Create.into(),
        result: CompareResult::Greater.into(),
        target_union: Some(TargetUnion::CreateRevision(revision.saturating_sub(1))),
    }
}

/// That the key was last written at this revision.
pub(crate) fn written(key: &[u8], revision: i64) -> Compare {
    Compare {
        key: key.to_vec(),
        target: CompareTarget::Mod.into(),
        result: CompareResult::Equal.into(),
        target_union: Some(TargetUnion::ModRevision(revision)),
        ..Compare::default()
    }
}

/// That nothing in the span was written after this revision. What was deleted does not count.
pub(crate) fn unwritten_since(span: &Span, revision: i64) -> Compare {
    Compare {
        key: span.from.clone(),
        range_end: span.to.clone(),
        target: CompareTarget::Mod.into(),
        result: CompareResult::Less.into(),
        target_union: Some(TargetUnion::ModRevision(revision.saturating_add(1))),
    }
}

/// A transaction's answer, taken apart.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) succeeded: bool,
    /// The store's revision: its own if it wrote.
    pub(crate) revision: i64,
    /// What its reads gave, in their order, those of nested transactions left out.
    pub(crate) reads: Vec<Vec<KeyValue>>,
    /// Whether the first of them is not all there is.
    pub(crate) is_cut: bool,
}

impl Done {
    fn of(answer: TxnResponse) -> Result<Self, Trouble> {
        let revision = revision(answer.header)?;
        let read = |op: ResponseOp| match op.response {
            Some(response_op::Response::ResponseRange(range)) => Some(range),
            _ => None,
        };
        let ranges: Vec<RangeResponse> = answer.responses.into_iter().filter_map(read).collect();
        let is_cut = ranges.first().is_some_and(|range| range.more);
        let reads = ranges.into_iter().map(|range| range.kvs).collect();
        Ok(Self { succeeded: answer.succeeded, revision, reads, is_cut })
    }

    /// The read at this place; empty if there is none.
    pub(crate) fn take(&mut self, at: usize) -> Vec<KeyValue> {
        self.reads.get_mut(at).map(std::mem::take).unwrap_or_default()
    }
}

fn revision(header: Option<ResponseHeader>) -> Result<i64, Trouble> {
    header.map(|header| header.revision).ok_or(Trouble::Odd("an answer without a header"))
}

impl Net {
    pub(crate) async fn txn(&self, txn: TxnRequest, patience: Duration) -> Result<Done, Trouble> {
        let ask = |way: crate::net::Way| {
            let request = way.request(txn.clone());
            async move { KvClient::new(way.channel).max_decoding_message_size(LARGEST).txn(request).await }
        };
        Done::of(self.call(patience, ask).await?)
    }

    /// Reads at one moment, as everybody agrees on it.
    pub(crate) async fn reads(&self, spans: &[Span], patience: Duration) -> Result<Done, Trouble> {
        let success = spans.iter().map(read).collect();
        self.txn(TxnRequest { success, ..TxnRequest::default() }, patience).await
    }

    /// Reads single keys, many at a time. The revision is the first one's.
    pub(crate) async fn read_keys(&self, keys: &[Vec<u8>], patience: Duration) -> Result<Done, Trouble> {
        let spans: Vec<Span> = keys.iter().map(|key| Span::one(key)).collect();
        self.read_spans(&spans, patience).await
    }

    /// The same for ranges of few keys each.
    pub(crate) async fn read_spans(&self, spans: &[Span], patience: Duration) -> Result<Done, Trouble> {
        let reads = Vec::with_capacity(spans.len());
        let mut all = Done { succeeded: true, revision: i64::MAX, reads, is_cut: false };
        for some in spans.chunks(READS) {
            let done = self.reads(some, patience).await?;
            all.revision = all.revision.min(done.revision);
            all.reads.extend(done.reads);
        }
        Ok(all)
    }

    /// Reads everything in a span, page by page, as it was at one revision.
    pub(crate) async fn pages(
        &self,
        span: &Span,
        patience: Duration,
    ) -> Result<(Vec<KeyValue>, i64), Trouble> {
        let (mut found, mut at, mut from) = (Vec::new(), 0, span.from.clone());
        loop {
            let range = RangeRequest {
                key: from.clone(),
                range_end: span.to.clone(),
                limit: PAGE,
                revision: at,
                ..RangeRequest::default()
            };
            let ask = |way: crate::net::Way| {
                let request = way.request(range.clone());
                async move { KvClient::new(way.channel).max_decoding_message_size(LARGEST).range(request).await }
            };
            let page: RangeResponse = match self.call(patience, ask).await {
                Err(trouble) if trouble.is_compacted() && at != 0 => {
                    (found, at, from) = (Vec::new(), 0, span.from.clone());
                    continue;
                }
                page => page?,
            };
            if at == 0 {
                at = revision(page.header)?;
            }
            let more = page.more;
            found.extend(page.kvs);
            match found.last() {
                Some(last) if more => {
                    from = last.key.clone();
                    from.push(0);
                }
                _ => return Ok((found, at)),
            }
        }
    }

    /// Asks for a lease of so many seconds. The seconds that it has.
    pub(crate) async fn grant(&self, id: i64, ttl: i64, patience: Duration) -> Result<i64, Trouble> {
        let ask = |way: crate::net::Way| {
            let request = way.request(LeaseGrantRequest { ttl, id });
            async move { LeaseClient::new(way.channel).lease_grant(request).await }
        };
        Ok(self.call(patience, ask).await?.ttl)
    }

    /// Has a lease live for its ttl from now on. Whether it is there.
    pub(crate) async fn keep_alive(&self, id: i64, patience: Duration) -> Result<bool, Trouble> {
        let ask = |way: crate::net::Way| {
            // The question is in the stream before the call is made, for the call is answered with the answer to it.
            let request = way.request(tokio_stream::once(LeaseKeepAliveRequest { id }));
            async move {
                let mut told = LeaseClient::new(way.channel).lease_keep_alive(request).await?.into_inner();
                match told.message().await? {
                    Some(answer) => Ok(Response::new(answer)),
                    None => Err(tonic::Status::unavailable("a stream of keep-alives ended")),
                }
            }
        };
        match self.call(patience, ask).await {
            Ok(answer) => Ok(answer.ttl > 0),
            Err(trouble) if trouble.is_lease_gone() => Ok(false),
            Err(trouble) => Err(trouble),
        }
    }

    /// What a lease has, and for how long.
    pub(crate) async fn lease(
        &self,
        id: i64,
        keys: bool,
        patience: Duration,
    ) -> Result<Option<LeaseTimeToLiveResponse>, Trouble> {
        let ask = |way: crate::net::Way| {
            let request = way.request(LeaseTimeToLiveRequest { id, keys });
            async move { LeaseClient::new(way.channel).lease_time_to_live(request).await }
        };
        match self.call(patience, ask).await {
            Ok(told) => Ok(Some(told).filter(|told| told.ttl >= 0)),
            Err(trouble) if trouble.is_lease_gone() => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }

    /// Ends a lease. One that is not there has ended.
    pub(crate) async fn revoke(&self, id: i64, patience: Duration) -> Result<(), Trouble> {
        let ask = |way: crate::net::Way| {
            let request = way.request(LeaseRevokeRequest { id });
            async move { LeaseClient::new(way.channel).lease_revoke(request).await }
        };
        match self.call(patience, ask).await {
            Err(trouble) if !trouble.is_lease_gone() => Err(trouble),
            _ => Ok(()),
        }
    }
}
