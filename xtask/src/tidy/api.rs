//! The API of a release is kept: what `api/released` describes is still there, with the same numbers, names and types.
//! More may be added. A release copies `api/proto` to `api/released`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result};
use prost_types::{DescriptorProto, FileDescriptorProto, field_descriptor_proto::Label};

const FILE: &str = "rekindle/v1/rekindle.proto";
const CURRENT: &str = "api/proto";
const RELEASED: &str = "api/released";

/// What a client of the last release would miss.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let read = |folder: &str| {
        let set = protox::compile([FILE], [root.join(folder)])
            .with_context(|| format!("{folder}/{FILE} cannot be read"))?;
        set.file.into_iter().find(|file| file.name() == FILE).with_context(|| format!("no {FILE}"))
    };
    Ok(broken(&read(RELEASED)?, &read(CURRENT)?))
}

fn broken(released: &FileDescriptorProto, current: &FileDescriptorProto) -> Vec<String> {
    let current = parts(current);
    let complaint = |(part, was): (String, String)| match current.get(&part) {
        Some(is) if *is == was => None,
        Some(is) => Some(format!("{CURRENT}/{FILE}: {part} was `{was}` in the last release and is `{is}`")),
        None => Some(format!("{CURRENT}/{FILE}: {part}, `{was}` in the last release, is gone")),
    };
    parts(released).into_iter().filter_map(complaint).collect()
}

/// Everything that clients depend on, by a name that never changes: numbers on the wire, names in code and JSON.
fn parts(file: &FileDescriptorProto) -> BTreeMap<String, String> {
    let mut parts = BTreeMap::new();
    for message in &file.message_type {
        of_message(message, message.name(), &mut parts);
    }
    for choice in &file.enum_type {
        for value in &choice.value {
            parts.insert(format!("value {} of {}", value.number(), choice.name()), value.name().to_owned());
        }
    }
    for service in &file.service {
        for method in &service.method {
            let stream = |streams: bool| if streams { "stream " } else { "" };
            let what = format!(
                "{}{} -> {}{}",
                stream(method.client_streaming()),
                method.input_type(),
                stream(method.server_streaming()),
                method.output_type()
            );
            parts.insert(format!("method {}.{}", service.name(), method.name()), what);
        }
    }
    parts
}

fn of_message(message: &DescriptorProto, name: &str, parts: &mut BTreeMap<String, String>) {
    for field in &message.field {
        let mut what = format!("{} {:?} {}", field.name(), field.r#type(), field.type_name());
        if field.label() == Label::Repeated {
            what.push_str(" repeated");
        }
        let one_of = field.oneof_index.and_then(|at| message.oneof_decl.get(usize::try_from(at).ok()?));
        if let Some(one_of) = one_of {
            what.push_str(&format!(" in {}", one_of.name()));
        }
        parts.insert(format!("field {} of {name}", field.number()), what);
    }
    for nested in &message.nested_type {
        of_message(nested, &format!("{name}.{}", nested.name()), parts);
    }
}

#[cfg(test)]
mod tests {
    //! What breaks a client, and what does not.

    use super::*;

    fn api() -> FileDescriptorProto {
        let set = protox::compile([FILE], [crate::repo::root().join(CURRENT)]).expect("it compiles");
        set.file.into_iter().find(|file| file.name() == FILE).expect("it is there")
    }

    #[track_caller]
    fn refused(word: &str, change: impl FnOnce(&mut FileDescriptorProto)) {
        let (released, mut current) = (api(), api());
        change(&mut current);
        let complaints = broken(&released, &current);
        assert!(complaints.iter().any(|complaint| complaint.contains(word)), "{complaints:?}");
    }

    fn message<'a>(file: &'a mut FileDescriptorProto, name: &str) -> &'a mut DescriptorProto {
        file.message_type.iter_mut().find(|message| message.name() == name).expect("it is there")
    }

    #[test]
    fn what_is_the_same_or_more_is_taken() {
        let (released, mut current) = (api(), api());
        assert_eq!(broken(&released, &current), [""; 0]);
        let mut field = message(&mut current, "Limits").field[0].clone();
        field.name = Some("more".into());
        field.number = Some(4000);
        message(&mut current, "Limits").field.push(field);
        assert_eq!(broken(&released, &current), [""; 0]);
    }

    #[test]
    fn a_name_a_number_a_type_and_a_stream_are_kept() {
        refused("milli_cpus", |file| message(file, "Limits").field[0].name = Some("cpus".into()));
        refused("field 1 of Limits", |file| message(file, "Limits").field[0].number = Some(99));
        refused("field 2 of Limits", |file| {
            message(file, "Limits").field[1].set_type(prost_types::field_descriptor_proto::Type::Int64);
        });
        refused("in outcome", |file| message(file, "ExecutionOutcome").field[0].oneof_index = None);
        refused("is gone", |file| {
            file.message_type.retain(|message| message.name() != "SandboxEvent");
        });
        refused("method Sandboxes.Watch", |file| {
            let service = file.service.iter_mut().find(|service| service.name() == "Sandboxes");
            let methods = &mut service.expect("it is there").method;
            methods
                .iter_mut()
                .find(|method| method.name() == "Watch")
                .expect("it is there")
                .server_streaming = Some(false);
        });
        refused("value 1 of", |file| file.enum_type[0].value[1].name = Some("X".into()));
    }
}
