//! What `run` and `exec` have in common: how an execution ended, its exit code, its JSON, what is printed of it, and
//! standard input.

mod end;
mod machine;
mod show;
mod stdin;
mod view;

pub use self::end::End;
pub use self::machine::Machine;
pub use self::show::{show, tell_notes};
pub use self::stdin::{is_for_the_program, pieces};
pub use self::view::{Diagnosis, Execution};
