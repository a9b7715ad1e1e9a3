//! The real `rekindle mcp` and `rekindle prompt` against a supervisor on the fake engine: what a model is told, what its
//! calls do, and that nothing of a session is left behind.

mod calls;
mod conformance;
mod http;
#[path = "../../../tests/e2e/src/node.rs"]
#[expect(dead_code, reason = "not all of it is used here")]
mod node;
#[path = "../../../tests/e2e/src/packages.rs"]
mod packages;
mod place;
mod prompt;
mod published;
#[path = "../../../tests/e2e/src/python.rs"]
#[expect(dead_code, reason = "not all of it is used here")]
mod python;
mod session;
