//! The API of a Rekindle supervisor, made from `proto/rekindle/v1/rekindle.proto`: messages, the traits a server
//! implements, and clients. Used by the supervisor's `grpc` layer and by its command line.

#![forbid(unsafe_code)]

pub mod client;
mod detail;
mod outcome;
pub mod time;

pub use detail::{DOMAIN, detail, status};
pub use prost_types::{Duration, Timestamp};
pub use tonic::{Code, Request, Status, Streaming};

/// Version 1 of the API. Its words are documented in the `.proto` file.
#[allow(
    clippy::all,
    clippy::pedantic,
    missing_docs,
    reason = "made from the .proto file, which documents it"
)]
pub mod v1 {
    tonic::include_proto!("rekindle.v1");
}

/// The API's descriptors, as reflection hands them out: an encoded `google.protobuf.FileDescriptorSet`.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
