//! The Firecracker tests.
use anyhow::Result;
use crate::cache::Cache;
/// x
pub enum Outcome { Passed, Failed, Skipped { reason: String } }
/// x
pub fn run(_cache: &Cache, _filter: &[String], _line: &mut dyn FnMut(&str)) -> Result<Outcome> { Ok(Outcome::Skipped { reason: String::new() }) }
