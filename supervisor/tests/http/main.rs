//! The HTTP front over its real server and a plain HTTP client, on the fake engine: what the SDKs of E2B are
//! answered, and that nobody gets in who must not.

mod admission;
mod api;
mod api_hostile;
mod control;
mod crowd;
mod data_plane;
mod files;
mod interpreter;
mod lifetimes;
#[path = "../../../tests/e2e/src/node.rs"]
#[expect(dead_code, reason = "not all of it is used here")]
mod node;
#[path = "../../../tests/e2e/src/packages.rs"]
mod packages;
mod place;
mod ports;
mod process;
mod protocols;
#[path = "../../../tests/e2e/src/python.rs"]
#[expect(dead_code, reason = "not all of it is used here")]
mod python;
mod sdk;
mod trace;
mod watch;
