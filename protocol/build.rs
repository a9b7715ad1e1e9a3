//! Turns the agent's `.proto` file into Rust with `protox`, so that no `protoc` is needed to build.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile(["rekindle/agent/v1/agent.proto"], ["proto"])?;
    prost_build::Config::new().bytes(["."]).compile_fds(descriptors)?;
    Ok(())
}
