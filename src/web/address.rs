//! Which addresses and names belong to the public internet. Owns the ranges (IANA's special-purpose registries,
//! RFC 6890) and the forms in which an IPv4 address hides in an IPv6 one. IPv6 is judged the other way round:
//! what is not known to be public is not.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// First address and prefix length of IPv4 ranges that are not public.
const NOT_PUBLIC: [([u8; 4], u32); 15] = [
    ([0, 0, 0, 0], 8),
    ([10, 0, 0, 0], 8),
    ([100, 64, 0, 0], 10),
    ([127, 0, 0, 0], 8),
    ([169, 254, 0, 0], 16),
    ([172, 16, 0, 0], 12),
    ([192, 0, 0, 0], 24),
    ([192, 0, 2, 0], 24),
    ([192, 88, 99, 0], 24),
    ([192, 168, 0, 0], 16),
    ([198, 18, 0, 0], 15),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

/// Names, and the ends of names, that mean this machine or this network.
const LOCAL_NAMES: [&str; 5] = ["localhost", "local", "internal", "localdomain", "home.arpa"];

/// Whether the address can be reached over the public internet.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// Whether a name means this machine or network whatever it resolves to.
pub(super) fn is_local_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    LOCAL_NAMES.iter().any(|local| {
        name.strip_suffix(local).is_some_and(|before| before.is_empty() || before.ends_with('.'))
    })
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    !NOT_PUBLIC.iter().any(|&(first, length)| (bits ^ u32::from_be_bytes(first)) >> (32 - length) == 0)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let s = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match s {
        // IPv4-mapped, and NAT64 (RFC 6052): the packet goes to the IPv4 address.
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            is_public_v4(v4(high, low))
        }
        // 6to4 (RFC 3056).
        [0x2002, high, low, ..] => is_public_v4(v4(high, low)),
        // Protocol assignments, Teredo and ORCHID among them; documentation.
        [0x2001, second, ..] if second < 0x200 || second == 0xdb8 => false,
        [0x3fff, second, ..] if second < 0x1000 => false,
        // All else that is handed out as global unicast lies in 2000::/3.
        [first, ..] => first & 0xe000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use url::{Host, Url};

    use super::*;

    /// An address inside one of the refused ranges.
    fn refused() -> impl Strategy<Value = Ipv4Addr> {
        (0..NOT_PUBLIC.len(), any::<u32>()).prop_map(|(at, noise)| {
            let (first, length) = NOT_PUBLIC[at];
            Ipv4Addr::from_bits(u32::from_be_bytes(first) | noise & (u32::MAX >> length))
        })
    }

    fn host_is_public(text: &str) -> bool {
        match Url::parse(&format!("http://{text}/")).unwrap().host().unwrap() {
            Host::Ipv4(v4) => is_public(v4.into()),
            Host::Ipv6(v6) => is_public(v6.into()),
            Host::Domain(name) => !is_local_name(name),
        }
    }

    proptest! {
        #[test]
        fn a_refused_address_is_refused_in_every_disguise(v4 in refused()) {
            let [a, b, c, d] = v4.octets();
            let bits = v4.to_bits();
            for text in [
                v4.to_string(),
                format!("{v4}."),
                bits.to_string(),
                format!("0x{bits:x}"),
                format!("0{bits:o}"),
                format!("0x{a:x}.0{b:o}.{}", u32::from(c) << 8 | u32::from(d)),
                format!("{a}.{}", bits & 0x00ff_ffff),
                format!("%{:02x}{}", v4.to_string().as_bytes()[0], &v4.to_string()[1..]),
                v4.to_string().replace('.', "。"),
                format!("[::ffff:{v4}]"),
                format!("[0:0:0:0:0:ffff:{:x}:{:x}]", bits >> 16, bits & 0xffff),
                format!("[::{v4}]"),
                format!("[64:ff9b::{v4}]"),
                format!("[64:ff9b:1::{v4}]"),
                format!("[2002:{:x}:{:x}::1]", bits >> 16, bits & 0xffff),
                format!("[2001:0:{:x}:{:x}::1]", bits >> 16, bits & 0xffff),
            ] {
                prop_assert!(!host_is_public(&text), "{text}");
            }
        }

        #[test]
        fn what_the_standard_library_calls_private_is_not_public(bits: u32) {
            let v4 = Ipv4Addr::from_bits(bits);
            let private = v4.is_private() || v4.is_loopback() || v4.is_link_local() || v4.is_multicast()
                || v4.is_broadcast() || v4.is_documentation() || v4.is_unspecified();
            prop_assert!(!(private && is_public(v4.into())));
        }

        #[test]
        fn only_global_unicast_is_public_in_ipv6(bits: u128) {
            let v6 = Ipv6Addr::from_bits(bits);
            let not = v6.is_loopback() || v6.is_multicast() || v6.is_unique_local() || v6.is_unicast_link_local();
            prop_assert!(!(not && is_public(v6.into())));
        }
    }

    #[test]
    fn known_addresses_and_names() {
        for public in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.1",
            "172.32.0.1",
            "100.128.0.1",
            "223.255.255.255",
            "[2606:4700::1111]",
            "[::ffff:8.8.8.8]",
            "[64:ff9b::808:808]",
            "[2002:808:808::1]",
            "example.com",
            "notlocalhost",
            "internal.example.com",
        ] {
            assert!(host_is_public(public), "{public}");
        }
        for private in [
            "[::]",
            "[::1]",
            "[fc00::1]",
            "[fd12::1]",
            "[fe80::1]",
            "[fec0::1]",
            "[ff02::1]",
            "[100::1]",
            "[2001:db8::1]",
            "[3fff::1]",
            "[4000::1]",
            "localhost",
            "LOCALHOST.",
            "a.localhost",
            "printer.local",
            "metadata.google.internal",
            "169.254.169.254",
            "255.255.255.255",
        ] {
            assert!(!host_is_public(private), "{private}");
        }
    }
}
