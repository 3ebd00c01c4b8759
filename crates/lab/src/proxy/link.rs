//! One connection through the proxy: two sockets and, for each direction, a thread that reads and one that writes.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpStream},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::net::sockopt::{set_socket_linger, set_tcp_cork};

use super::{
    Loss,
    weather::{Direction, Fate, Weather},
};

/// How often a writer whose reader does not read looks whether the connection was severed.
const WRITE_LIMIT: Duration = Duration::from_millis(50);

pub(super) struct Link {
    client: TcpStream,
    server: TcpStream,
    severed: AtomicBool,
    /// Set once an answer is to be lost: no byte goes to the client any more.
    loss: OnceLock<Loss>,
    /// Whether the one answer of `loss` has been counted.
    counted: AtomicBool,
}

/// What was read from a socket.
enum Piece {
    Bytes(Vec<u8>),
    End,
    Broken,
}

impl Link {
    /// Joins two sockets until both directions have ended.
    pub(super) fn start(client: TcpStream, server: TcpStream, weather: &Arc<Weather>) {
        for socket in [&client, &server] {
            // Without these it is slower, or severing is.
            let _ = socket.set_nodelay(true);
            let _ = socket.set_write_timeout(Some(WRITE_LIMIT));
        }
        let link = Arc::new(Self {
            client,
            server,
            severed: AtomicBool::new(false),
            loss: OnceLock::new(),
            counted: AtomicBool::new(false),
        });
        weather.change(|sky| {
            sky.counts.connections += 1;
            sky.links.push(Arc::clone(&link));
        });
        let weather = Arc::clone(weather);
        thread::spawn(move || {
            thread::scope(|scope| {
                for direction in [Direction::Requests, Direction::Replies] {
                    let (to, from) = channel();
                    let (link, weather) = (&link, &weather);
                    scope.spawn(move || link.read(direction, &to));
                    scope.spawn(move || link.write(direction, &from, weather));
                }
            });
            weather.change(|sky| {
                sky.links.retain(|other| !Arc::ptr_eq(other, &link));
                // The last reference: the sockets are closed before anybody is told that they are.
                drop(link);
            });
        });
    }

    pub(super) fn is_severed(&self) -> bool {
        self.severed.load(Ordering::Acquire)
    }

    /// Ends both sides with a reset. The threads notice, and the last of them closes.
    pub(super) fn sever(&self, weather: &Weather) {
        self.severed.store(true, Ordering::Release);
        for socket in [&self.client, &self.server] {
            // To close with no time to linger is to reset. Both fail only on a socket that has ended.
            let _ = set_socket_linger(socket, Some(Duration::ZERO));
            // This wakes the reader and sends nothing.
            let _ = socket.shutdown(Shutdown::Read);
        }
        weather.change(|_| ());
    }

    fn ends(&self, direction: Direction) -> (&TcpStream, &TcpStream) {
        match direction {
            Direction::Requests => (&self.client, &self.server),
            Direction::Replies => (&self.server, &self.client),
        }
    }

    fn read(&self, direction: Direction, to: &Sender<(Instant, Piece)>) {
        let (mut source, _) = self.ends(direction);
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let piece = match source.read(&mut buffer) {
                Ok(0) => Piece::End,
                Ok(n) => Piece::Bytes(buffer[..n].to_vec()),
                Err(why) if why.kind() == ErrorKind::Interrupted => continue,
                Err(_) => Piece::Broken,
            };
            let last = !matches!(piece, Piece::Bytes(_));
            // The writer goes first only when the connection is severed.
            if to.send((Instant::now(), piece)).is_err() || last {
                return;
            }
        }
    }

    fn write(&self, direction: Direction, from: &Receiver<(Instant, Piece)>, weather: &Weather) {
        while let Ok((arrived, piece)) = from.recv() {
            let fate = weather.fate(direction, arrived, self);
            match (fate, piece) {
                (Fate::Severed, _) => return,
                (Fate::Swallow, Piece::Bytes(bytes)) => swallowed(weather, &bytes),
                (Fate::Swallow, _) => {}
                (Fate::Deliver, piece) => match direction {
                    Direction::Requests => self.request(piece, weather),
                    Direction::Replies => self.reply(piece, weather),
                },
            }
        }
    }

    fn request(&self, piece: Piece, weather: &Weather) {
        let Piece::Bytes(bytes) = piece else { return self.end(Direction::Requests, &piece, weather) };
        match self.loss.get() {
            // It has been told that this is the end.
            Some(Loss::Kill | Loss::HangUp) => return swallowed(weather, &bytes),
            Some(Loss::Stall) => {}
            None => {
                if let Some(loss) = weather.loss_of(&bytes) {
                    // Before the server can answer.
                    let _ = self.loss.set(loss);
                }
            }
        }
        if self.deliver(&self.server, &bytes, weather) {
            weather.change(|sky| sky.counts.requested += bytes.len() as u64);
        }
        if self.loss.get() == Some(&Loss::Kill) {
            // The server does everything that it has been sent, and closes: only then the client may notice.
            let _ = self.server.shutdown(Shutdown::Write);
        }
    }

    fn reply(&self, piece: Piece, weather: &Weather) {
        match (self.loss.get(), piece) {
            (None, Piece::Bytes(bytes)) => {
                if self.deliver(&self.client, &bytes, weather) {
                    weather.change(|sky| sky.counts.replied += bytes.len() as u64);
                }
            }
            (None, piece) => self.end(Direction::Replies, &piece, weather),
            (Some(Loss::Stall), Piece::Bytes(bytes)) => {
                swallowed(weather, &bytes);
                self.count_loss(weather);
            }
            (Some(Loss::HangUp), piece) => self.hang_up(piece, weather),
            (Some(Loss::Kill), Piece::Bytes(bytes)) => swallowed(weather, &bytes),
            (Some(Loss::Kill), _) => {
                self.count_loss(weather);
                self.sever(weather);
            }
            (Some(Loss::Stall), _) => {}
        }
    }

    /// Passes on one answer and ends the connection with it. Corked, so that whoever reads the answer sees the end too.
    fn hang_up(&self, piece: Piece, weather: &Weather) {
        if self.counted.load(Ordering::Relaxed) {
            return;
        }
        self.count_loss(weather);
        let _ = set_tcp_cork(&self.client, true);
        if let Piece::Bytes(bytes) = piece {
            self.deliver(&self.client, &bytes, weather);
        }
        // They fail only on a socket that has ended.
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.server.shutdown(Shutdown::Both);
    }

    fn count_loss(&self, weather: &Weather) {
        if !self.counted.swap(true, Ordering::Relaxed) {
            weather.change(|sky| sky.counts.lost += 1);
        }
    }

    /// Passes on that one side has ended: in order, or with a reset.
    fn end(&self, direction: Direction, piece: &Piece, weather: &Weather) {
        if matches!(piece, Piece::Broken) {
            self.sever(weather);
        } else {
            let (_, sink) = self.ends(direction);
            // It may have ended itself.
            let _ = sink.shutdown(Shutdown::Write);
        }
    }

    /// Whether all bytes could be written.
    fn deliver(&self, mut sink: &TcpStream, mut bytes: &[u8], weather: &Weather) -> bool {
        while !bytes.is_empty() && !self.is_severed() {
            match sink.write(bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(why)
                    if matches!(
                        why.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                Err(_) => self.sever(weather),
            }
        }
        bytes.is_empty()
    }
}

fn swallowed(weather: &Weather, bytes: &[u8]) {
    weather.change(|sky| sky.counts.swallowed += bytes.len() as u64);
}
