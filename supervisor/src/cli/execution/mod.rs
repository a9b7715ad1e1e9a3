//! What `run` and `exec` have in common: what is asked for, how it ended, its exit code, its JSON, what is printed of it,
//! and standard input.

mod end;
mod live;
mod machine;
mod request;
mod show;
mod stdin;
mod view;

pub use self::end::End;
pub use self::live::{UNREAD, print_live};
pub use self::machine::Machine;
pub use self::request::{command, request};
pub use self::show::{show_end, tell_notes};
pub use self::stdin::{is_for_the_program, pieces};
pub use self::view::{Diagnosis, Execution};
