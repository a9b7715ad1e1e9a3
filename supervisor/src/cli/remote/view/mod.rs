//! The API's messages as `--json` prints them: the field names of the `.proto` file, enums as lower-case words,
//! what does not apply left out. Guests' paths are text, with their exact bytes beside them where they are none.

mod execution;
mod file;
mod host;
mod sandbox;
mod word;

pub use self::execution::Execution;
pub use self::file::File;
pub use self::host::{Status, Template, TenantUsage, Timeline};
pub use self::sandbox::{Event, Sandbox};
pub use self::word::{end_reason, event, start, state};
