//! Cold boot against restore, each from nothing to the agent's first answer.
fn main() {}
