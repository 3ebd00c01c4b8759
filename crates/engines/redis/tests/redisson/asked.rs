//! Who of us waits, as servers tell it.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    net::TcpStream,
    sync::{Arc, Mutex},
};

use bramah_lab::Redis as Server;

/// By key, how often somebody of ours has asked for a lock and would wait for it.
#[derive(Clone, Default)]
pub(crate) struct Asked(Arc<Mutex<HashMap<String, usize>>>);

impl Asked {
    /// Writes down what a server does, as it tells it.
    pub(crate) fn listen(&self, node: &Server) {
        let mut stream = TcpStream::connect(node.address()).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let asked = self.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                asked.note(&line);
            }
        });
    }

    fn note(&self, line: &str) {
        let words: Vec<_> = line.split("\" \"").map(|word| word.trim_end_matches('"')).collect();
        // A script, its hash, the number of its keys, the lock; and somewhere what to do if it cannot be had.
        let [first, _, _, key, ..] = words.as_slice() else { return };
        if first.ends_with("\"EVALSHA")
            && words.iter().any(|word| ["w", "wo", "ws", "l", "lo"].contains(word))
        {
            *self.0.lock().unwrap().entry((*key).to_owned()).or_default() += 1;
        }
    }

    /// How often somebody of ours has asked for the lock at this key and would wait for it.
    pub(crate) fn count(&self, key: &str) -> usize {
        self.0.lock().unwrap().get(key).copied().unwrap_or(0)
    }
}
