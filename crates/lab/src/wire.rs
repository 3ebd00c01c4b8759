//! Just enough of the protocol of Redis to ask a server something without starting a program.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A status or a string; bytes that are no text are replaced.
    Text(String),
    /// A number.
    Int(i64),
    /// An error inside of a list. One that stands alone is an `Err`.
    Error(String),
    /// Nothing.
    Nil,
    /// A list.
    Many(Vec<Reply>),
}

impl Reply {
    /// The text, or the number as text; of everything else nothing.
    #[must_use]
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) | Self::Error(text) => text.clone(),
            Self::Int(n) => n.to_string(),
            Self::Nil | Self::Many(_) => String::new(),
        }
    }

    /// The elements of a list; of everything else none.
    #[must_use]
    pub fn many(self) -> Vec<Self> {
        if let Self::Many(all) = self { all } else { Vec::new() }
    }
}

/// A connection to a server.
#[derive(Debug)]
pub struct Wire {
    stream: BufReader<TcpStream>,
}

impl Wire {
    /// Connects to a server without TLS; no answer may take longer than `limit`.
    ///
    /// # Errors
    ///
    /// When nobody listens.
    pub fn connect(address: &str, limit: Duration) -> Result<Self, String> {
        let failed = |why: &dyn std::fmt::Display| format!("{address}: {why}");
        let parsed: SocketAddr = address.parse().map_err(|why| failed(&why))?;
        let stream = TcpStream::connect_timeout(&parsed, limit).map_err(|why| failed(&why))?;
        stream.set_read_timeout(Some(limit)).map_err(|why| failed(&why))?;
        stream.set_nodelay(true).map_err(|why| failed(&why))?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Sends a command and waits for its answer.
    ///
    /// # Errors
    ///
    /// When the connection breaks, or with the server's error.
    pub fn call(&mut self, words: &[&str]) -> Result<Reply, String> {
        let failed = |why: std::io::Error| format!("{}: {why}", words.join(" "));
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            request.push_str(&format!("${}\r\n{word}\r\n", word.len()));
        }
        self.stream.get_mut().write_all(request.as_bytes()).map_err(failed)?;
        match self.reply().map_err(failed)? {
            Reply::Error(why) => Err(format!("{}: {why}", words.join(" "))),
            reply => Ok(reply),
        }
    }

    fn reply(&mut self) -> std::io::Result<Reply> {
        let mut line = String::new();
        if self.stream.read_line(&mut line)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let line = line.trim_end();
        let rest = line.get(1..).unwrap_or_default();
        let number = || rest.parse::<i64>().map_err(std::io::Error::other);
        Ok(match line.bytes().next() {
            Some(b'+') => Reply::Text(rest.into()),
            Some(b'-') => Reply::Error(rest.into()),
            Some(b':') => Reply::Int(number()?),
            Some(b'$') => match usize::try_from(number()?) {
                Err(_) => Reply::Nil,
                Ok(length) => Reply::Text(self.bulk(length)?),
            },
            Some(b'*') => match usize::try_from(number()?) {
                Err(_) => Reply::Nil,
                Ok(count) => Reply::Many((0..count).map(|_| self.reply()).collect::<Result<_, _>>()?),
            },
            _ => return Err(std::io::Error::other(format!("no answer of Redis: {line:?}"))),
        })
    }

    fn bulk(&mut self, length: usize) -> std::io::Result<String> {
        let mut bytes = vec![0; length + 2];
        self.stream.read_exact(&mut bytes)?;
        bytes.truncate(length);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpListener, thread};

    use super::*;

    #[test]
    fn every_kind_of_answer_is_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 14];
            stream.read_exact(&mut request).unwrap();
            stream.write_all(b"*5\r\n+OK\r\n:7\r\n$-1\r\n$4\r\na\r\nb\r\n-ERR x\r\n-ERR y\r\n").unwrap();
            request.to_vec()
        });
        let mut wire = Wire::connect(&address, Duration::from_secs(10)).unwrap();
        let list = [
            Reply::Text("OK".into()),
            Reply::Int(7),
            Reply::Nil,
            Reply::Text("a\r\nb".into()),
            Reply::Error("ERR x".into()),
        ];
        assert_eq!(wire.call(&["PING"]).unwrap().many(), list);
        assert_eq!(server.join().unwrap(), b"*1\r\n$4\r\nPING\r\n");
        assert!(wire.call(&["PING"]).unwrap_err().contains("ERR y"));
        assert!(wire.call(&["PING"]).is_err(), "the server is gone");
    }
}
