//! The service over its real server and a real client, on the fake engine: what callers see, what reaches the
//! guest, and that nobody's misbehaviour reaches anyone else.

mod auth;
mod call_rate;
mod describe;
mod detached;
mod detached_life;
mod disk;
mod errors;
mod execute;
mod files;
mod gateway;
mod hostile;
mod idempotency;
mod interpreter;
mod lifecycle;
mod live;
mod network;
mod on_timeout;
mod place;
mod queue;
mod raw;
mod root;
mod sandboxes;
mod shutdown;
mod strangers;
mod tokens;
mod trace;
mod turns;
mod unread;
mod watch;
mod without_memory;
