//! `/files`: one file out, one or several in. Nothing is ever held whole: what comes goes on at once, and a body that
//! breaks off leaves no file behind.

mod body;
mod multipart;
mod query;
mod read;
mod write;

pub(super) use read::read;
pub(super) use write::write;
