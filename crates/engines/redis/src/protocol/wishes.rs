//! Holders that are asked to let go. See decision 0015.

use std::{future::Future, sync::Arc, time::Duration};

use bramah_core::{Claim, ClaimId, Result, SessionId};
use redis::Value;

use super::Protocol;
use crate::{config::Layout, driver::Driver, text};

/// How long the answer to a renewal waits for the wishes, which were asked for at the same time: it tells of them the next time as well.
const GRACE: Duration = Duration::from_millis(100);

impl<D: Driver> Protocol<D> {
    /// Notes a wish for a claim, then tells its session. The note counts: who does not listen reads it with a renewal.
    pub(crate) async fn wish(&self, claim: &Claim) -> Result<()> {
        match self.terms.layout {
            Layout::Native => {}
            // What is not ours has this number.
            Layout::Plain if claim.id.seq == 0 => {
                return Err(claim.unaskable("its holder on Redis is another program, which hears no wishes"));
            }
            Layout::Plain => {}
            Layout::Redisson => {
                return Err(claim.unaskable("Redisson's layout on Redis has no message for a wish"));
            }
        }
        let patience = self.terms.timeout;
        self.driver.send(self.scheme.wish(claim, patience)).await?;
        if let Err(error) = self.driver.send(self.scheme.tell_of_wish(claim, patience)).await {
            tracing::debug!(%error, "a holder is told of a wish by its renewal alone");
        }
        Ok(())
    }

    /// The claims of a session that somebody asks for, beside a renewal: the answer is there when that is, or soon after, or is none.
    /// What fails is no wish.
    pub(super) fn wishes(
        self: &Arc<Self>,
        session: SessionId,
    ) -> impl Future<Output = Vec<ClaimId>> + use<D> {
        let protocol = self.clone();
        let asked = (self.terms.layout != Layout::Redisson).then(|| {
            tokio::spawn(async move {
                let patience = protocol.terms.timeout;
                protocol.driver.send(protocol.scheme.wishes(session, patience)).await
            })
        });
        async move {
            let Some(asked) = asked else { return Vec::new() };
            match tokio::time::timeout(GRACE, asked).await {
                Ok(Ok(Ok(Value::BulkString(numbers)))) => read(session, &numbers),
                _ => Vec::new(),
            }
        }
    }
}

/// What a session's wishes say. What is no number is not ours.
fn read(session: SessionId, numbers: &[u8]) -> Vec<ClaimId> {
    let number =
        |digits: &[u8]| text::read_identity(&format!("{session}{}", std::str::from_utf8(digits).ok()?));
    numbers.chunks(12).filter_map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_what_is_none_is_left_out() {
        let session = SessionId::from_bits(7);
        let ids = |seqs: &[u64]| seqs.iter().map(|&seq| ClaimId { session, seq }).collect::<Vec<_>>();
        assert_eq!(read(session, b"00000000000a0000000000ff"), ids(&[10, 255]));
        assert_eq!(read(session, b""), ids(&[]));
        assert_eq!(read(session, b"00000000000a+00000000001\xff\xfe"), ids(&[10]));
    }
}
