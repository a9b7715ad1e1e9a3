//! Whether a warm interpreter can serve an execution without the caller noticing.
//!
//! An interpreter reads some variables once, when it starts. A caller who sets one of those gets an
//! interpreter that is started for it.

use rekindle_protocol::wire::Language;

use crate::agent::Agent;
use crate::exec::environment::Environment;
use crate::exec::spec::Spec;

/// Variables that must be as every execution has them: they choose the interpreter and how it talks.
const FIXED: [&[u8]; 3] = [b"PATH", b"LANG", b"PYTHONUNBUFFERED"];
/// Beginnings of names that interpreters, or the libraries they have loaded, read when they start.
const READ_AT_START: [&[u8]; 20] = [
    b"PYTHON",
    b"NODE_",
    b"LC_",
    b"LANGUAGE",
    b"LD_",
    b"GLIBC_",
    b"MALLOC_",
    b"UV_",
    b"OPENSSL_",
    b"SSL_",
    b"SSLKEYLOG",
    b"ICU_",
    b"OPENBLAS_",
    b"GOTO_",
    b"OMP_",
    b"MKL_",
    b"NPY_",
    b"NUMPY_",
    b"PANDAS_",
    b"V8_",
];

/// The language, if a warm interpreter of it may be used.
pub fn fits(agent: &Agent, spec: &Spec) -> Option<Language> {
    let language = spec.language.filter(|language| matches!(language, Language::Python | Language::Node))?;
    // Where processes are limited by user, the limit is set between start and program.
    let limited = spec.pids > 0 && !agent.cgroups.controllers().pids;
    if spec.plain || !spec.usual_user || limited {
        return None;
    }
    let expected = Environment::build(&spec.account, false, []);
    if spec.environment == expected && spec.cwd.to_str().is_some() {
        // As most are: there is nothing to look at.
        return Some(language);
    }
    let fixed = FIXED.iter().all(|name| {
        std::str::from_utf8(name).is_ok_and(|name| spec.environment.get(name) == expected.get(name))
    });
    let read =
        |name: &[u8]| READ_AT_START.iter().any(|start| name.starts_with(start)) && !FIXED.contains(&name);
    if !fixed || spec.environment.iter().any(|(name, _)| read(name)) {
        return None;
    }
    // Node holds text, where other programs hold bytes.
    let text = spec.cwd.to_str().is_some()
        && spec.environment.iter().all(|(name, value)| {
            [name, value].iter().all(|part| part.is_ascii() || std::str::from_utf8(part).is_ok())
        });
    (text || language == Language::Python).then_some(language)
}
