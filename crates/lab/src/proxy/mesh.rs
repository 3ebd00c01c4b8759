//! The network between the members of an ensemble. Each member has a door of its own, a small SOCKS server through which
//! it makes all its connections: so it is known who connects, and to whom.

use std::{
    io::{Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use super::{Fault, link::Link, weather::Weather};

/// How long a member may take to say where it wants to.
const GREETING: Duration = Duration::from_secs(10);

/// Where one member listens for the others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    /// The member.
    pub(crate) member: usize,
    /// Where the others believe it to be.
    pub(crate) named: SocketAddr,
    /// Where it is.
    pub(crate) real: SocketAddr,
}

/// The connections from each member to each other one.
pub(crate) struct Mesh {
    doors: Vec<Door>,
}

/// The way out of one member.
struct Door {
    address: SocketAddr,
    /// What happens on the way to each member.
    ways: Arc<Vec<Arc<Weather>>>,
    closing: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

impl Mesh {
    /// A door for each of so many members, who are at these places.
    pub(crate) fn new(members: usize, places: &[Place]) -> Result<Self, String> {
        let doors = (0..members).map(|_| Door::open(members, places)).collect::<Result<_, _>>()?;
        Ok(Self { doors })
    }

    /// Where a member has to connect: `127.0.0.1:port`.
    pub(crate) fn door(&self, member: usize) -> Result<SocketAddr, String> {
        let door = self.doors.get(member).ok_or_else(|| format!("no member {member}"))?;
        Ok(door.address)
    }

    /// Nothing arrives between the two any more, in either direction, and no connection is made. Neither is told.
    pub(crate) fn cut(&self, one: usize, other: usize) {
        for way in self.between(one, other) {
            way.change(|sky| {
                sky.refuse = true;
                sky.requests = Fault::Hold;
                sky.replies = Fault::Hold;
            });
        }
    }

    /// Connections can be made again, if they could not. Those from before end with a reset, as they do after a long silence.
    pub(crate) fn mend(&self, one: usize, other: usize) {
        let cut = |way: &&Arc<Weather>| way.door().1;
        for way in self.between(one, other).filter(cut) {
            way.sever();
            way.change(|sky| {
                sky.refuse = false;
                sky.requests = Fault::Pass;
                sky.replies = Fault::Pass;
            });
        }
    }

    /// The bytes that have arrived from one at the other, in answers too.
    pub(crate) fn carried(&self, one: usize, other: usize) -> u64 {
        let way = |from: usize, to: usize| Some(self.doors.get(from)?.ways.get(to)?.counts());
        way(one, other).unwrap_or_default().requested + way(other, one).unwrap_or_default().replied
    }

    fn between(&self, one: usize, other: usize) -> impl Iterator<Item = &Arc<Weather>> {
        let way = |from: usize, to: usize| self.doors.get(from).and_then(|door| door.ways.get(to));
        [way(one, other), way(other, one)].into_iter().flatten()
    }
}

impl std::fmt::Debug for Mesh {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.doors.iter().map(|door| door.address)).finish()
    }
}

impl Door {
    fn open(members: usize, places: &[Place]) -> Result<Self, String> {
        let failed = |why| format!("no door for a member: {why}");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let ways: Arc<Vec<_>> = Arc::new((0..members).map(|_| Arc::default()).collect());
        let closing = Arc::new(AtomicBool::new(false));
        let (ours, close, places) = (Arc::clone(&ways), Arc::clone(&closing), places.to_vec());
        let acceptor = thread::spawn(move || {
            for client in listener.incoming() {
                if close.load(Ordering::Acquire) {
                    return;
                }
                let Ok(client) = client else { continue };
                let (ways, places) = (Arc::clone(&ours), places.clone());
                // Beside the others, for it may be slow to say where it wants to. If it cannot get there, it is told.
                thread::spawn(move || pass(client, &ways, &places));
            }
        });
        Ok(Self { address, ways, closing, acceptor: Some(acceptor) })
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.closing.store(true, Ordering::Release);
        for way in self.ways.iter() {
            way.change(|sky| sky.closing = true);
        }
        // The acceptor only looks up when somebody comes.
        let woken = TcpStream::connect(self.address).is_ok();
        if let Some(acceptor) = self.acceptor.take().filter(|_| woken) {
            let _ = acceptor.join();
        }
        self.ways.iter().for_each(|way| way.sever());
    }
}

/// Lets one connection through to where it wants.
fn pass(mut client: TcpStream, ways: &[Arc<Weather>], places: &[Place]) -> Option<()> {
    client.set_read_timeout(Some(GREETING)).ok()?;
    let wanted = destination(&mut client).ok()?;
    let place = places.iter().find(|place| place.named == wanted)?;
    let way = ways.get(place.member)?;
    let (closing, refuse) = way.door();
    let there = if closing || refuse { None } else { TcpStream::connect(place.real).ok() };
    let Some(there) = there else {
        way.change(|sky| sky.counts.refused += 1);
        let _ = client.write_all(&answer(REFUSED));
        return None;
    };
    client.set_read_timeout(None).ok()?;
    client.write_all(&answer(GRANTED)).ok()?;
    Link::start(client, there, way);
    if way.door().0 {
        // The mesh has gone meanwhile, and did not see it.
        way.sever();
    }
    Some(())
}

const VERSION: u8 = 5;
const GRANTED: u8 = 0;
const REFUSED: u8 = 5;

/// What is told about a request. The address in it means nothing.
fn answer(word: u8) -> [u8; 10] {
    [VERSION, word, 0, 1, 0, 0, 0, 0, 0, 0]
}

/// Where a client wants to, in the words of SOCKS 5 (RFC 1928).
fn destination(client: &mut (impl Read + Write)) -> std::io::Result<SocketAddr> {
    let strange = || std::io::Error::from(std::io::ErrorKind::InvalidData);
    let [version, methods] = read(client)?;
    if version != VERSION {
        return Err(strange());
    }
    // We want to know nobody's name.
    std::io::copy(&mut client.take(methods.into()), &mut std::io::sink())?;
    client.write_all(&[VERSION, 0])?;
    let [VERSION, 1, _, kind] = read(client)? else { return Err(strange()) };
    let address = match kind {
        1 => IpAddr::from(read::<4>(client)?),
        4 => IpAddr::from(read::<16>(client)?),
        3 => {
            let [length] = read(client)?;
            let mut name = String::new();
            client.take(length.into()).read_to_string(&mut name)?;
            name.parse().map_err(|_| strange())?
        }
        _ => return Err(strange()),
    };
    Ok(SocketAddr::new(address.to_canonical(), u16::from_be_bytes(read(client)?)))
}

fn read<const N: usize>(from: &mut impl Read) -> std::io::Result<[u8; N]> {
    let mut bytes = [0; N];
    from.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(mesh: &Mesh, from: usize, to: SocketAddr) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(mesh.door(from).unwrap())?;
        stream.write_all(&[5, 1, 0])?;
        assert_eq!(read(&mut stream)?, [5, 0]);
        let SocketAddr::V4(to) = to else { panic!("{to}") };
        let [high, low] = to.port().to_be_bytes();
        stream.write_all(&[&[5, 1, 0, 1][..], &to.ip().octets(), &[high, low]].concat())?;
        match read::<10>(&mut stream)?[1] {
            GRANTED => Ok(stream),
            _ => Err(std::io::ErrorKind::ConnectionRefused.into()),
        }
    }

    #[test]
    fn members_that_are_cut_apart_hear_nothing_and_cannot_connect_until_that_is_mended() {
        let listeners = [(); 3].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
        let place = |(member, listener): (usize, &TcpListener)| {
            let octet = u8::try_from(member).unwrap() + 1;
            let named = SocketAddr::from((Ipv4Addr::new(192, 0, 2, octet), 1));
            Place { member, named, real: listener.local_addr().unwrap() }
        };
        let places: Vec<_> = listeners.iter().enumerate().map(place).collect();
        let mesh = Mesh::new(3, &places).unwrap();
        let link = |from: usize, to: usize| {
            let near = connect(&mesh, from, places[to].named).unwrap();
            (near, listeners[to].accept().unwrap().0)
        };
        let (mut near, mut far) = link(0, 1);
        let (mut other, mut end) = link(0, 2);
        near.write_all(b"a").unwrap();
        assert_eq!(read(&mut far).unwrap(), *b"a");
        mesh.cut(1, 0);
        near.write_all(b"b").unwrap();
        far.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        assert!(read::<1>(&mut far).is_err_and(|why| why.kind() == std::io::ErrorKind::WouldBlock));
        for (from, to) in [(0, 1), (1, 0)] {
            assert!(connect(&mesh, from, places[to].named).is_err());
        }
        // The third is seen by both.
        other.write_all(b"c").unwrap();
        assert_eq!(read(&mut end).unwrap(), *b"c");
        link(1, 2);
        mesh.mend(0, 1);
        assert!(read::<1>(&mut near).is_err() && read::<1>(&mut far).is_err(), "a connection from before");
        let (mut near, mut far) = link(1, 0);
        far.write_all(b"d").unwrap();
        assert_eq!(read(&mut near).unwrap(), *b"d");
        // They are counted behind their delivery.
        crate::until("the count", GREETING, || {
            let counts = (mesh.carried(0, 1), mesh.carried(0, 2), mesh.carried(2, 1));
            if counts == (2, 1, 0) { Ok(()) } else { Err(format!("{counts:?}")) }
        })
        .unwrap();
        drop(mesh);
        assert!(read::<1>(&mut near).is_err());
        assert!(TcpStream::connect(places[0].real).is_ok(), "only the mesh has gone");
    }

    #[test]
    fn what_is_not_a_member_is_not_reached() {
        let stranger = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let mesh = Mesh::new(1, &[]).unwrap();
        assert!(connect(&mesh, 0, stranger.local_addr().unwrap()).is_err());
    }
}
