//! A free port.

use std::{
    fs::{self, File},
    hash::{BuildHasher, RandomState},
    net::{Ipv4Addr, TcpListener},
};

use crate::target;

/// Below what systems give to outgoing connections, so that none of those takes the port of a server that restarts.
const FIRST: u16 = 11_000;
const COUNT: u16 = 21_000;
const TRIES: u32 = 1_000;

/// A port of 127.0.0.1 that nobody else here is given until this is dropped, whether a server listens on it or not.
#[derive(Debug)]
pub(crate) struct Port {
    number: u16,
    _claim: File,
}

impl Port {
    pub(crate) fn free() -> Result<Self, String> {
        let folder = target::directory().join("servers/ports");
        fs::create_dir_all(&folder).map_err(|why| format!("cannot make {}: {why}", folder.display()))?;
        for n in 0..TRIES {
            let [low, high, ..] = RandomState::new().hash_one(n).to_le_bytes();
            let number = FIRST + u16::from_le_bytes([low, high]) % COUNT;
            let Ok(claim) = File::create(folder.join(number.to_string())) else { continue };
            if claim.try_lock().is_ok() && TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Self { number, _claim: claim });
            }
        }
        Err(format!("no free port: {TRIES} from {FIRST} on were tried"))
    }

    pub(crate) fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice() {
        let ports: Vec<Port> = (0..200).map(|_| Port::free().unwrap()).collect();
        let mut numbers: Vec<u16> = ports.iter().map(Port::number).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), ports.len());
    }
}
