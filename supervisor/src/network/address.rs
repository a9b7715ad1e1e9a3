//! Which addresses are never dialled for a guest, whatever name led to them. Pure.
//!
//! IPv4 is let through but for what is reserved; of IPv6 only global unicast is. An address that carries an IPv4
//! address inside (mapped, NAT64, ISATAP) is looked at as that one; transition mechanisms whose other end nobody here
//! controls (6to4, Teredo) are refused as a whole.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Why an address is not dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    /// It is not on the public internet.
    #[error("it is private or reserved")]
    Reserved,
    /// It is a cloud provider's own service, which trusts whoever reaches it.
    #[error("it is a service of the host's provider")]
    Provider,
    /// It is one of the host's own.
    #[error("it is the host's own")]
    Own,
}

/// IPv4 networks that are never dialled: IANA's special-purpose registry without what is globally reachable, and
/// everything from multicast on.
const RESERVED_V4: &[(Ipv4Addr, u32)] = &[
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    // Carrier-grade NAT, and one provider's metadata service (100.100.100.200).
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Link-local, and most providers' metadata service (169.254.169.254).
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    (Ipv4Addr::new(224, 0, 0, 0), 3),
];

/// Networks inside global unicast that are never dialled.
const RESERVED_V6: &[(Ipv6Addr, u32)] = &[
    // Protocol assignments: Teredo, benchmarking, ORCHID.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    // 6to4.
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
];

/// Global unicast: all of IPv6 that is reachable from anywhere.
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
/// The well-known prefix of NAT64.
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);
/// A public address behind which one provider's hosts find its agent and metadata.
const PROVIDER_V4: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

/// Whether an address may be dialled. `own` are the host's addresses.
///
/// # Errors
/// Why it may not.
pub fn screen(address: IpAddr, own: &[IpAddr]) -> Result<(), Forbidden> {
    let address = plain(address);
    match address {
        IpAddr::V4(v4) if RESERVED_V4.iter().any(|network| within_v4(v4, *network)) => {
            return Err(Forbidden::Reserved);
        }
        IpAddr::V4(PROVIDER_V4) => return Err(Forbidden::Provider),
        IpAddr::V6(v6)
            if !within_v6(v6, GLOBAL_V6) || RESERVED_V6.iter().any(|network| within_v6(v6, *network)) =>
        {
            return Err(Forbidden::Reserved);
        }
        IpAddr::V4(_) | IpAddr::V6(_) => {}
    }
    if own.iter().any(|own| plain(*own) == address) {
        return Err(Forbidden::Own);
    }
    Ok(())
}

/// The IPv4 address inside an IPv6 one that stands for it, else the address itself.
fn plain(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else { return address };
    let [.., a, b, c, d] = v6.octets();
    let inside = IpAddr::V4(Ipv4Addr::new(a, b, c, d));
    let segments = v6.segments();
    let isatap = segments[4] & !0x0200 == 0 && segments[5] == 0x5efe;
    if v6.to_ipv4_mapped().is_some() || within_v6(v6, NAT64) || isatap { inside } else { address }
}

fn within_v4(address: Ipv4Addr, (network, bits): (Ipv4Addr, u32)) -> bool {
    (address.to_bits() ^ network.to_bits()).leading_zeros() >= bits
}

fn within_v6(address: Ipv6Addr, (network, bits): (Ipv6Addr, u32)) -> bool {
    (address.to_bits() ^ network.to_bits()).leading_zeros() >= bits
}

#[cfg(test)]
mod tests;
