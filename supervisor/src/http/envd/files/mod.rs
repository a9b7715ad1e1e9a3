//! `/files`: one file out, one or several in. Nothing is ever held whole: what comes goes on at once. A body that breaks
//! off leaves no new file behind; a file that was there is written in place, as E2B does, and then has what had come.

mod body;
mod multipart;
mod query;
mod read;
mod write;

pub(super) use read::read;
pub(super) use write::write;
