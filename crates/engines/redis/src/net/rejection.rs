//! Why a server closed a new connection before it answered anything.
//!
//! A server in protected mode, or without a free connection, writes one error line as soon as it accepts, and closes. A client
//! that has written by then gets a reset, and the line is lost. So after such an end the server is asked once more by
//! a connection that writes nothing and only reads.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::{Poll, ready},
    time::Duration,
};

use bramah_core::Error;
use redis::Value;
use tokio::io::{AsyncRead, ReadBuf};

use super::within::within;
use crate::error;

/// How long the line may take. A server that rejects us writes it at once; one that is back and well says nothing, and is not to be
/// kept waiting for.
pub(super) const LIMIT: Duration = Duration::from_millis(200);

/// The longest line that is read; Redis' own is about 1,000 bytes long.
const LONGEST: usize = 4096;

/// The reason on a connection that nothing was written to, if the server gives one that is known.
pub(super) async fn read(mut stream: impl AsyncRead + Unpin, address: &str) -> Option<Error> {
    let mut line = vec![0; LONGEST];
    let mut line = ReadBuf::new(&mut line);
    let to_its_end = poll_fn(|cx| {
        loop {
            let before = line.filled().len();
            let read = ready!(Pin::new(&mut stream).poll_read(cx, &mut line));
            let is_over = read.is_err() || line.filled().len() == before || line.filled().contains(&b'\n');
            if is_over {
                return Poll::Ready(());
            }
        }
    });
    within(LIMIT, pin!(to_its_end)).await.ok()?;
    reason(line.filled(), address)
}

/// Nothing but an error that Redis writes unasked: anything else may come from anything.
fn reason(line: &[u8], address: &str) -> Option<Error> {
    let end = line.iter().position(|byte| *byte == b'\n')?;
    let Ok(Value::ServerError(said)) = redis::parse_redis_value(line.get(..=end)?) else { return None };
    let is_full = said.code() == "ERR"
        && said.details().is_some_and(|details| details.starts_with("max number of clients"));
    (said.code() == "DENIED" || is_full).then(|| error::from_server(&said, address))
}

#[cfg(test)]
mod tests {
    use bramah_core::ErrorKind;

    use super::*;

    #[test]
    fn only_what_redis_writes_unasked_is_a_reason() {
        let kind = |line: &str| reason(line.as_bytes(), "h:1").map(|error| error.kind());
        assert_eq!(kind("-DENIED Redis is running in protected mode\r\n"), Some(ErrorKind::Denied));
        assert_eq!(kind("-ERR max number of clients reached\r\n"), Some(ErrorKind::Unavailable));
        let in_a_cluster = "-ERR max number of clients + cluster connections reached\r\nmore";
        assert_eq!(kind(in_a_cluster), Some(ErrorKind::Unavailable));
        for other in
            ["", "\n", "-DENIED", "-ERR unknown command\r\n", "-\r\n", "+OK\r\n", "SSH-2.0-x\r\n", "$9\r\n"]
        {
            assert_eq!(kind(other), None, "{other:?}");
        }
    }
}
