//! What the kernel does with packets that leave the guest, as nftables rules:
//!
//! ```text
//! table inet rekindle {
//!   chain redirect {
//!     type nat hook output priority dstnat;
//!     oif lo accept
//!     udp dport 53 redirect to :RESOLVER_PORT
//!     meta l4proto tcp redirect to :CAPTURE_PORTS
//!   }
//!   chain refuse {
//!     type filter hook output priority filter;
//!     oif lo accept
//!     ip daddr 127.0.0.0/8 accept
//!     ip6 daddr ::1 accept
//!     reject with icmpx admin-prohibited
//!   }
//! }
//! ```
//!
//! Written as netlink messages, because images need not have `nft`. In the second chain a redirected packet still names
//! its old device, so it is told by its new address.

use std::io;
use std::net::Ipv6Addr;
use std::ops::RangeInclusive;

use nix::sys::socket::SockProtocol;

use super::message::Messages;
use super::netlink::Netlink;
use super::{CAPTURE_PORTS, LOOPBACK, RESOLVER_PORT};

const TABLE: &str = "rekindle";
const REDIRECT: &str = "redirect";
const REFUSE: &str = "refuse";

/// Both families in one table.
const INET: u8 = 1;
const SUBSYSTEM: u16 = 10;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
const NEW_RULE: u16 = SUBSYSTEM << 8 | 6;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const CREATE: u16 = (libc::NLM_F_CREATE | libc::NLM_F_ACK) as u16;
const APPEND: u16 = CREATE | libc::NLM_F_APPEND as u16;

/// Packets that programs of this guest send.
const HOOK_OUTPUT: u32 = 3;
/// Before anything else looks at where a packet goes.
const PRIORITY_DSTNAT: i32 = -100;
const PRIORITY_FILTER: i32 = 0;
const ACCEPT: u32 = 1;
/// The register that everything here is compared in; 0 is the verdict's.
const REGISTER: u32 = 1;
/// The register for the end of a range.
const LAST_PORT: u32 = 2;
const VERDICT: u32 = 0;

const META_OIF: u32 = 5;
const META_NFPROTO: u32 = 15;
const META_L4PROTO: u32 = 16;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;
const ICMPX_UNREACHABLE: u32 = 2;
const ADMIN_PROHIBITED: u8 = 3;

/// Puts all rules in place, or none.
///
/// # Errors
/// When the kernel refuses one; it may have no nftables.
pub fn set_up() -> io::Result<()> {
    let mut batch = Batch::default();
    batch.begin();
    batch.chain(REDIRECT, "nat", PRIORITY_DSTNAT);
    batch.rule(
        REDIRECT,
        &[Expression::Meta(META_OIF), Expression::Equal(LOOPBACK.to_ne_bytes().to_vec()), Expression::Accept],
    );
    batch.rule(
        REDIRECT,
        &[
            Expression::Meta(META_L4PROTO),
            Expression::Equal(vec![libc::IPPROTO_UDP as u8]),
            Expression::Payload { base: TRANSPORT_HEADER, offset: 2, length: 2 },
            Expression::Equal(53u16.to_be_bytes().to_vec()),
            Expression::Redirect(RESOLVER_PORT..=RESOLVER_PORT),
        ],
    );
    batch.rule(
        REDIRECT,
        &[
            Expression::Meta(META_L4PROTO),
            Expression::Equal(vec![libc::IPPROTO_TCP as u8]),
            Expression::Redirect(CAPTURE_PORTS),
        ],
    );
    batch.chain(REFUSE, "filter", PRIORITY_FILTER);
    batch.rule(
        REFUSE,
        &[Expression::Meta(META_OIF), Expression::Equal(LOOPBACK.to_ne_bytes().to_vec()), Expression::Accept],
    );
    batch.rule(
        REFUSE,
        &[
            Expression::Meta(META_NFPROTO),
            Expression::Equal(vec![libc::NFPROTO_IPV4 as u8]),
            Expression::Payload { base: NETWORK_HEADER, offset: 16, length: 1 },
            Expression::Equal(vec![127]),
            Expression::Accept,
        ],
    );
    batch.rule(
        REFUSE,
        &[
            Expression::Meta(META_NFPROTO),
            Expression::Equal(vec![libc::NFPROTO_IPV6 as u8]),
            Expression::Payload { base: NETWORK_HEADER, offset: 24, length: 16 },
            Expression::Equal(Ipv6Addr::LOCALHOST.octets().to_vec()),
            Expression::Accept,
        ],
    );
    batch.rule(REFUSE, &[Expression::Reject]);
    let (messages, acknowledged) = batch.end();
    Netlink::open(SockProtocol::NetlinkNetFilter)?.carry_out(&messages, acknowledged)
}

/// One step of a rule.
enum Expression {
    /// Loads a fact about the packet.
    Meta(u32),
    /// Loads bytes of the packet.
    Payload {
        base: u32,
        offset: u32,
        length: u32,
    },
    /// Ends the rule unless what was loaded is this.
    Equal(Vec<u8>),
    Accept,
    /// Sends the packet to this guest, to one of these ports that its connection has for itself.
    Redirect(RangeInclusive<u16>),
    Reject,
}

/// Messages that the kernel carries out together.
#[derive(Default)]
struct Batch {
    messages: Messages,
    acknowledged: usize,
}

impl Batch {
    fn begin(&mut self) {
        self.messages.begin(BATCH_BEGIN, 0, &subsystem());
        self.messages.begin(NEW_TABLE, CREATE, &family()).text(1, TABLE).number(2, 0);
        self.acknowledged += 1;
    }

    fn chain(&mut self, name: &str, kind: &str, priority: i32) {
        self.messages
            .begin(NEW_CHAIN, CREATE, &family())
            .text(1, TABLE)
            .text(3, name)
            .nested(4, |hook| {
                hook.number(1, HOOK_OUTPUT).bytes(2, &priority.to_be_bytes());
            })
            .number(5, ACCEPT)
            .text(7, kind);
        self.acknowledged += 1;
    }

    fn rule(&mut self, chain: &str, expressions: &[Expression]) {
        self.messages.begin(NEW_RULE, APPEND, &family()).text(1, TABLE).text(2, chain).nested(4, |list| {
            for expression in expressions {
                expression.write(list);
            }
        });
        self.acknowledged += 1;
    }

    fn end(mut self) -> (Vec<u8>, usize) {
        self.messages.begin(BATCH_END, 0, &subsystem());
        (self.messages.into_bytes(), self.acknowledged)
    }
}

impl Expression {
    fn write(&self, list: &mut Messages) {
        let mut named = |name: &str, data: &dyn Fn(&mut Messages)| {
            list.nested(1, |element| {
                element.text(1, name).nested(2, |inside| data(inside));
            });
        };
        match self {
            Self::Meta(key) => named("meta", &|data| {
                data.number(1, REGISTER).number(2, *key);
            }),
            Self::Payload { base, offset, length } => named("payload", &|data| {
                data.number(1, REGISTER).number(2, *base).number(3, *offset).number(4, *length);
            }),
            Self::Equal(value) => named("cmp", &|data| {
                data.number(1, REGISTER).number(2, 0).nested(3, |data| {
                    data.bytes(1, value);
                });
            }),
            Self::Accept => named("immediate", &|data| {
                data.number(1, VERDICT).nested(2, |data| {
                    data.nested(2, |verdict| {
                        verdict.number(1, ACCEPT);
                    });
                });
            }),
            Self::Redirect(ports) => {
                for (register, port) in [(REGISTER, ports.start()), (LAST_PORT, ports.end())] {
                    named("immediate", &|data| {
                        data.number(1, register).nested(2, |data| {
                            data.bytes(1, &port.to_be_bytes());
                        });
                    });
                }
                named("redir", &|data| {
                    data.number(1, REGISTER).number(2, LAST_PORT);
                });
            }
            Self::Reject => named("reject", &|data| {
                data.number(1, ICMPX_UNREACHABLE).bytes(2, &[ADMIN_PROHIBITED]);
            }),
        }
    }
}

/// `struct nfgenmsg` of a message about our table.
fn family() -> [u8; 4] {
    [INET, 0, 0, 0]
}

/// `struct nfgenmsg` of what is around a batch.
fn subsystem() -> [u8; 4] {
    let [high, low] = SUBSYSTEM.to_be_bytes();
    [0, 0, high, low]
}
