//! An address of this machine that is not the loopback's.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};

/// An address of this machine as another machine would use it, for servers that treat loopback connections differently.
///
/// # Errors
///
/// When the machine has a loopback interface only.
pub fn own_address() -> Result<IpAddr, String> {
    // Connecting a datagram socket sends nothing; the system picks the address that it would send from.
    let elsewhere = (Ipv4Addr::new(203, 0, 113, 1), 9);
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
    let address = socket.and_then(|socket| {
        socket.connect(elsewhere)?;
        socket.local_addr()
    });
    match address {
        Ok(address) if !address.ip().is_loopback() => Ok(address.ip()),
        Ok(_) => Err("this machine has no address but the loopback's; connect it to a network".to_owned()),
        Err(why) => Err(format!("this machine has no route to a network ({why}); connect it to one")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_ours_and_not_the_loopback() {
        let Ok(address) = own_address() else { return };
        assert!(!address.is_loopback());
        UdpSocket::bind((address, 0)).unwrap();
    }
}
