//! `cargo xtask docs`: writes the pages that are made from something else.
//!
//! docs/api.md comes from the comments of the API's `.proto` file, docs/configuration.md from
//! `rekindle config reference`. `tidy` asks [`stale`] whether the first is up to date; a test of the
//! supervisor compares the second. Nothing here looks at the code of the service.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto, ServiceDescriptorProto,
    field_descriptor_proto::{Label, Type},
};

use crate::hint::Hint;
use crate::repo;

/// The API, below the folder its imports begin in.
const PROTO: (&str, &str) = ("api/proto", "rekindle/v1/rekindle.proto");
const API: &str = "docs/api.md";
const CONFIGURATION: &str = "docs/configuration.md";

// Numbers of the parts in `descriptor.proto`, by which comments are found.
const SYNTAX: i32 = 12;
const MESSAGES: i32 = 4;
const ENUMS: i32 = 5;
const SERVICES: i32 = 6;
/// Fields of a message, values of an enum, methods of a service.
const PARTS: i32 = 2;

/// Writes both pages.
pub fn run() -> Result<()> {
    let root = repo::root();
    write(&root.join(API), &api(&root)?)?;
    write(&root.join(CONFIGURATION), &configuration(&root)?)
}

/// What is wrong with docs/api.md, if anything.
pub fn stale(root: &Path) -> Result<Option<String>> {
    let current = fs::read_to_string(root.join(API)).unwrap_or_default();
    let renew = || format!("{API}: is not what the .proto file says; renew it with `cargo xtask docs`");
    Ok((current != api(root)?).then(renew))
}

fn write(path: &Path, page: &str) -> Result<()> {
    if fs::read_to_string(path).is_ok_and(|current| current == page) {
        return Ok(());
    }
    eprintln!("docs: {} is renewed", path.display());
    fs::write(path, page).with_context(|| format!("cannot write {}", path.display()))
}

/// The page the program itself prints.
fn configuration(root: &Path) -> Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).args(["run", "--quiet", "-p", "rekindle", "--", "config", "reference"]);
    command.stderr(std::process::Stdio::inherit());
    let output = command.output().context("cannot start cargo")?;
    if !output.status.success() {
        return Err::<String, _>(anyhow::anyhow!("`rekindle config reference` failed"))
            .hint("make `cargo build -p rekindle` work first");
    }
    String::from_utf8(output.stdout).context("the reference page is not text")
}

fn api(root: &Path) -> Result<String> {
    let (folder, file) = PROTO;
    let folder: PathBuf = root.join(folder);
    let set = protox::compile([file], [&folder])
        .map_err(|error| anyhow::anyhow!("{error}"))
        .with_context(|| format!("cannot read {file}"))?;
    match set.file.iter().find(|one| one.name() == file) {
        Some(file) => Ok(page(file)),
        None => bail!("{file} is not among what was read"),
    }
}

/// The whole page.
fn page(file: &FileDescriptorProto) -> String {
    let comments = Comments { file };
    let mut page = format!(
        "# API reference\n\n<!-- Written by `cargo xtask docs` from {}/{}; change the comments there instead. \
         -->\n\nThe package `{}`. Beside it every server has `grpc.health.v1.Health` and reflection \
         (`grpc.reflection.v1`), and [every call in JSON](guides/json.md). How things hang together is in [getting started](getting-started.md) and in \
         the concepts: [lifecycle](concepts/lifecycle.md), [pool](concepts/pool.md), \
         [limits](concepts/limits.md), [security](concepts/security.md).\n\n{}\n",
        PROTO.0,
        PROTO.1,
        file.package(),
        comments.paragraphs(&[SYNTAX]),
    );
    for (at, service) in (0..).zip(&file.service) {
        describe_service(&mut page, &comments, at, service);
    }
    page.push_str("\n## Messages and enums\n");
    // In the order of the file, where an enum follows the message that uses it.
    let messages = (0..).zip(&file.message_type).map(|(at, one)| ([MESSAGES, at], Item::Message(one)));
    let enums = (0..).zip(&file.enum_type).map(|(at, one)| ([ENUMS, at], Item::Enum(one)));
    let mut items: Vec<_> = messages.chain(enums).collect();
    items.sort_by_key(|(path, _)| comments.line(path));
    for (path, item) in items {
        match item {
            Item::Message(message) => describe_message(&mut page, &comments, path, message),
            Item::Enum(one) => describe_enum(&mut page, &comments, path, one),
        }
    }
    page
}

enum Item<'a> {
    Message(&'a DescriptorProto),
    Enum(&'a EnumDescriptorProto),
}

fn describe_service(page: &mut String, comments: &Comments<'_>, at: i32, service: &ServiceDescriptorProto) {
    let about = comments.paragraphs(&[SERVICES, at]);
    let _ = write!(page, "\n## Service `{}`\n\n{about}\n\n", service.name());
    page.push_str("| call | takes | returns | what it does |\n|---|---|---|---|\n");
    for (number, method) in (0..).zip(&service.method) {
        let stream =
            |streams: bool, name: &str| format!("{}{}", if streams { "stream of " } else { "" }, link(name));
        let cells = [
            format!("`{}`", method.name()),
            stream(method.client_streaming(), method.input_type()),
            stream(method.server_streaming(), method.output_type()),
            comments.line_of(&[SERVICES, at, PARTS, number]),
        ];
        row(page, &cells);
    }
}

fn describe_message(page: &mut String, comments: &Comments<'_>, path: [i32; 2], message: &DescriptorProto) {
    let _ = write!(page, "\n### {}\n\n{}\n", message.name(), comments.paragraphs(&path));
    if message.field.is_empty() {
        return;
    }
    page.push_str("\n| field | number | type | meaning |\n|---|---|---|---|\n");
    for (number, field) in (0..).zip(&message.field) {
        let mut meaning = comments.line_of(&[path[0], path[1], PARTS, number]);
        // The compiler puts a proto3 `optional` into a oneof of its own, which nobody wrote.
        let group = field.oneof_index.filter(|_| !field.proto3_optional());
        if let Some(group) = group.and_then(|at| message.oneof_decl.get(usize::try_from(at).ok()?)) {
            let _ = write!(meaning, " One of `{}`.", group.name());
        }
        let cells =
            [format!("`{}`", field.name()), field.number().to_string(), kind(message, field), meaning];
        row(page, &cells);
    }
}

fn describe_enum(page: &mut String, comments: &Comments<'_>, path: [i32; 2], one: &EnumDescriptorProto) {
    let _ = write!(page, "\n### {}\n\n{}\n", one.name(), comments.paragraphs(&path));
    page.push_str("\n| value | number | meaning |\n|---|---|---|\n");
    for (number, value) in (0..).zip(&one.value) {
        let meaning = comments.line_of(&[path[0], path[1], PARTS, number]);
        row(page, &[format!("`{}`", value.name()), value.number().to_string(), meaning]);
    }
}

/// The type of a field as one writes it in a `.proto` file.
fn kind(message: &DescriptorProto, field: &FieldDescriptorProto) -> String {
    let plain = || match field.r#type() {
        Type::Message | Type::Enum => link(field.type_name()),
        other => format!("`{}`", other.as_str_name().trim_start_matches("TYPE_").to_lowercase()),
    };
    // A map is a repeated message that the compiler has made up.
    let entry = message.nested_type.iter().find(|nested| {
        let map = nested.options.as_ref().is_some_and(prost_types::MessageOptions::map_entry);
        map && field.type_name().ends_with(&format!(".{}.{}", message.name(), nested.name()))
    });
    match entry {
        Some(entry) => {
            let parts: Vec<String> = entry.field.iter().map(|part| kind(entry, part)).collect();
            format!("map of {}", parts.join(" to "))
        }
        None if field.label() == Label::Repeated => format!("repeated {}", plain()),
        None => plain(),
    }
}

/// A message or enum of this page, by its full name.
fn link(name: &str) -> String {
    let short = name.rsplit('.').next().unwrap_or(name);
    if name.starts_with(".google.protobuf.") {
        return format!(
            "[{short}](https://protobuf.dev/reference/protobuf/google.protobuf/#{})",
            short.to_lowercase()
        );
    }
    format!("[{short}](#{})", short.to_lowercase())
}

fn row(page: &mut String, cells: &[String]) {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

/// The comments of a file, found by the path of what they stand above.
struct Comments<'a> {
    file: &'a FileDescriptorProto,
}

impl Comments<'_> {
    fn text(&self, path: &[i32]) -> &str {
        let places = self.file.source_code_info.iter().flat_map(|info| &info.location);
        places
            .filter(|place| place.path == path)
            .find_map(|place| place.leading_comments.as_deref())
            .unwrap_or("")
    }

    /// Lines put together; an empty one begins a new paragraph.
    fn paragraphs(&self, path: &[i32]) -> String {
        let joined = |part: &str| part.lines().map(str::trim).collect::<Vec<_>>().join(" ");
        let text: Vec<&str> = self.text(path).lines().map(str::trim).collect();
        text.join("\n").split("\n\n").map(|part| joined(part.trim())).collect::<Vec<_>>().join("\n\n")
    }

    /// All of it on one line, for a table.
    fn line_of(&self, path: &[i32]) -> String {
        self.text(path).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Where in the file it is.
    fn line(&self, path: &[i32]) -> i32 {
        let places = self.file.source_code_info.iter().flat_map(|info| &info.location);
        places.filter(|place| place.path == path).find_map(|place| place.span.first().copied()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    //! From a small file to its page.

    use super::*;

    const SMALL: &str = "\
// What it is.
//
// More of it.
syntax = \"proto3\";
package small.v1;
// Does things.
service Things {
  // Makes | one.
  rpc Make(Wish) returns (stream Thing);
}
// What to
// make.
message Wish {
  // Words.
  map<string, string> words = 3;
  oneof shape {
    // How often.
    uint32 times = 4;
    // Its colour.
    Colour colour = 5;
  }
}
// A colour.
enum Colour {
  // None.
  COLOUR_UNSPECIFIED = 0;
}
// A thing.
message Thing {
  // Its parts.
  repeated Thing parts = 1;
}
";

    fn small() -> String {
        let dir = tempfile::tempdir().expect("a directory");
        fs::write(dir.path().join("small.proto"), SMALL).expect("written");
        let set = protox::compile(["small.proto"], [dir.path()]).expect("it is a proto file");
        page(&set.file[0])
    }

    #[test]
    fn every_part_of_a_file_is_on_its_page() {
        let page = small();
        for part in [
            "What it is.\n\nMore of it.\n",
            "## Service `Things`\n\nDoes things.\n",
            "| `Make` | [Wish](#wish) | stream of [Thing](#thing) | Makes \\| one. |\n",
            "### Wish\n\nWhat to make.\n",
            "| `words` | 3 | map of `string` to `string` | Words. |\n",
            "| `times` | 4 | `uint32` | How often. One of `shape`. |\n",
            "| `colour` | 5 | [Colour](#colour) | Its colour. One of `shape`. |\n",
            "| `COLOUR_UNSPECIFIED` | 0 | None. |\n",
            "| `parts` | 1 | repeated [Thing](#thing) | Its parts. |\n",
        ] {
            assert!(page.contains(part), "{part:?} is missing in\n{page}");
        }
    }

    #[test]
    fn messages_and_enums_stand_in_the_order_of_the_file() {
        let page = small();
        let places = ["### Wish", "### Colour", "### Thing"].map(|heading| page.find(heading));
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{page}");
    }

    #[test]
    fn a_page_that_is_not_there_is_stale_and_says_how_to_renew_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join(PROTO.0).join(PROTO.1);
        fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        fs::create_dir_all(dir.path().join("docs")).expect("made");
        fs::write(&file, SMALL).expect("written");
        let complaint = stale(dir.path()).expect("read").expect("stale");
        assert!(complaint.contains("cargo xtask docs"), "{complaint}");
        fs::write(dir.path().join(API), api(dir.path()).expect("a page")).expect("written");
        assert_eq!(stale(dir.path()).expect("read"), None);
    }
}
