//! What it calls is there in the process that loads it, whatever libraries the machine has that builds it.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-nostdlib");
    println!("cargo::rerun-if-changed=build.rs");
}
