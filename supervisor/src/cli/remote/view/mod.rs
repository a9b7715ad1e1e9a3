//! The API's messages as `--json` prints them: the field names of the `.proto` file, enums as lower-case words,
//! times and durations as protobuf's JSON has them, what does not apply left out. Guests' paths are text, with their exact bytes beside them where they are none.

mod code;
mod connection;
mod file;
mod host;
mod job;
mod sandbox;
mod time;
mod timeline;
mod word;

pub use self::code::{CodeContext, CodeError, CodeResult};
pub use self::connection::{Connection, Denial, connection_state};
pub use self::file::{File, FileEvent};
pub use self::host::{Status, Template, TenantUsage};
pub use self::job::Job;
pub use self::sandbox::{Event, Sandbox};
pub use self::time::{measured, moment, seconds};
pub use self::timeline::Timeline;
pub use self::word::{
    code_language, end_reason, event, file_event, job_state, on_timeout, outcome, start, state,
};
