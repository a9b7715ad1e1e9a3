//! What is dialled and what never is.

use proptest::prelude::*;

use super::*;

fn check(text: &str) -> Result<(), Forbidden> {
    screen(text.parse().unwrap(), &[])
}

/// Spellings of an IPv4 address as an IPv6 one that lead, or once led, to it.
fn spellings(v4: Ipv4Addr) -> Vec<IpAddr> {
    let [a, b, c, d] = v4.octets().map(u16::from);
    let (high, low) = (a << 8 | b, c << 8 | d);
    [
        Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, high, low),
        Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low),
        Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
        Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
        Ipv6Addr::new(0x64, 0xff9b, 1, 0, 0, 0, high, low),
        Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
        Ipv6Addr::new(0x2001, 0, high, low, 0, 0, !high, !low),
        Ipv6Addr::new(0x2606, 0, 0, 0, 0, 0x5efe, high, low),
        Ipv6Addr::new(0x2606, 0, 0, 0, 0x200, 0x5efe, high, low),
    ]
    .map(IpAddr::V6)
    .to_vec()
}

#[test]
fn no_private_address_is_dialled_in_any_spelling() {
    for text in [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.100.100.200",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.0.1",
        "169.254.169.254",
        "169.254.170.2",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "192.168.255.255",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.255",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "168.63.129.16",
    ] {
        let v4: Ipv4Addr = text.parse().unwrap();
        assert!(screen(v4.into(), &[]).is_err(), "{text}");
        for spelling in spellings(v4) {
            assert!(screen(spelling, &[]).is_err(), "{text} as {spelling}");
        }
    }
    for text in [
        "::",
        "::1",
        "fe80::1",
        "febf::1",
        "fec0::1",
        "fc00::1",
        "fd00:ec2::254",
        "fd20:ce::254",
        "ff02::1",
        "100::1",
        "5f00::1",
        "2001::1",
        "2001:2::1",
        "2001:20::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "3fff::1",
        "3fff:fff::1",
        "64:ff9b:1::808:808",
        "4000::1",
    ] {
        assert_eq!(check(text), Err(Forbidden::Reserved), "{text}");
    }
}

#[test]
fn public_addresses_are_dialled() {
    for text in [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.1",
        "151.101.0.223",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2606:4700::1111",
        "2001:200::1",
        "2a04:4e42::223",
        "2003::1",
        "::ffff:1.1.1.1",
        "64:ff9b::101:101",
    ] {
        assert_eq!(check(text), Ok(()), "{text}");
    }
}

#[test]
fn the_hosts_own_public_addresses_are_not_dialled_in_any_spelling() {
    let own: Vec<IpAddr> = ["151.101.0.223", "2606:4700::1111"].map(|own| own.parse().unwrap()).to_vec();
    for text in ["151.101.0.223", "::ffff:151.101.0.223", "64:ff9b::9765:df", "2606:4700::1111"] {
        assert_eq!(screen(text.parse().unwrap(), &own), Err(Forbidden::Own), "{text}");
    }
    assert_eq!(screen("151.101.0.224".parse().unwrap(), &own), Ok(()));
}

proptest! {
    /// The standard library's own words, where it has them.
    #[test]
    fn nothing_that_the_standard_library_calls_private_is_dialled(bits: u32) {
        let v4 = Ipv4Addr::from_bits(bits);
        let reserved = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast()
            || v4.is_broadcast() || v4.is_documentation() || v4.is_unspecified();
        if reserved {
            prop_assert!(screen(v4.into(), &[]).is_err());
        }
        // Whatever carries an IPv4 address inside is never more reachable than it.
        if screen(v4.into(), &[]).is_err() {
            for spelling in spellings(v4) {
                prop_assert!(screen(spelling, &[]).is_err(), "{}", spelling);
            }
        }
    }

    #[test]
    fn nothing_outside_of_global_unicast_is_dialled(bits: u128) {
        let v6 = Ipv6Addr::from_bits(bits);
        if v6.is_loopback() || v6.is_unspecified() || v6.is_multicast() || v6.is_unique_local()
            || v6.is_unicast_link_local() || v6.segments()[0] >> 13 != 1
        {
            prop_assert!(plain(v6.into()).is_ipv4() || screen(v6.into(), &[]).is_err());
        }
    }
}
