//! Lists the programs that run.

use super::messages::{ListResponse, Nothing, ProcessConfig, ProcessInfo};
use crate::agent::{Language, Program};
use crate::http::envd::rpc::Asked;
use crate::http::envd::trouble::Trouble;
use crate::service::{ExecuteSpec, JobState};

pub(super) async fn list(asked: Asked<'_>, _request: Nothing) -> Result<ListResponse, Trouble> {
    let jobs = asked.service.detached(asked.caller, asked.sandbox)?;
    let running = jobs.into_iter().filter(|job| job.state == JobState::Running);
    let info =
        |job: crate::service::JobView| ProcessInfo { config: config(&job.spec), pid: job.pid, tag: job.tag };
    Ok(ListResponse { processes: running.map(info).collect() })
}

fn config(spec: &ExecuteSpec) -> ProcessConfig {
    let text = |word: &bytes::Bytes| String::from_utf8_lossy(word).into_owned();
    let mut argv = match &spec.program {
        Program::Command(command) => command.argv.iter().map(text).collect::<Vec<_>>().into_iter(),
        Program::Shell(line) => vec!["/bin/sh".to_owned(), "-c".to_owned(), line.clone()].into_iter(),
        Program::Code(code) => {
            let program = match code.language() {
                Language::Python => "python3",
                Language::Node => "node",
                Language::Bash | Language::Unspecified => "bash",
            };
            vec![program.to_owned(), "-c".to_owned(), code.source.clone()].into_iter()
        }
    };
    ProcessConfig {
        cmd: argv.next().unwrap_or_default(),
        args: argv.collect(),
        envs: spec.env.clone(),
        cwd: Some(spec.cwd.clone()).filter(|cwd| !cwd.is_empty()),
    }
}
