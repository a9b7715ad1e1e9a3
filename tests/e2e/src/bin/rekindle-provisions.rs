//! Fetches what tests in the lab cannot fetch there, and prints the folders of the cache that it is in, one a line. What
//! cannot be had is missing from them; why goes to standard error. `cargo xtask lab test` calls it.

#![forbid(unsafe_code)]

use rekindle_e2e::provisions;

#[tokio::main]
async fn main() {
    for provision in provisions::all().await {
        match provision {
            Ok(dir) => println!("{}", dir.display()),
            Err(reason) => eprintln!("{reason}"),
        }
    }
}
