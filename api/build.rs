//! Turns the API's `.proto` file into Rust with `protox`, so that no `protoc` is needed to build. The descriptors
//! are kept too: the server hands them out by reflection.

use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    // The common details of errors are described too, for whoever turns them into words.
    let files = ["rekindle/v1/rekindle.proto", "google/rpc/status.proto", "google/rpc/error_details.proto"];
    let descriptors = protox::compile(files, ["proto"])?;
    let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("no OUT_DIR")?);
    std::fs::write(out.join("descriptors.bin"), encode(&descriptors))?;
    tonic_prost_build::configure().bytes(".").btree_map(".").compile_fds(descriptors)?;
    Ok(())
}

fn encode(descriptors: &prost_types::FileDescriptorSet) -> Vec<u8> {
    use prost::Message as _;
    descriptors.encode_to_vec()
}
