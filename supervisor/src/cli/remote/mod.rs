//! The commands that talk to a server over its API, one file each: `create`, `exec`, `put` and so on. Called by
//! the command line. They know the API and nothing of what is behind it, and never print a guest's bytes to a
//! terminal unescaped, a program's own output excepted.

mod attach;
mod code;
mod connection;
mod context;
mod create;
mod describe;
mod egress;
pub(super) mod escape;
mod exec;
mod get;
mod inspect;
mod jobs;
mod kill;
mod ls;
mod mcp;
mod mkdir;
mod mv;
mod network;
mod origin;
mod pause;
mod port;
pub(super) mod print;
mod prompt;
mod ps;
mod put;
pub(super) mod quantity;
mod refusal;
mod requests;
mod resolve;
mod resume;
mod rm;
mod status;
mod table;
pub(super) mod template_ls;
mod terminal;
mod timeline;
mod timeout;
mod top;
mod transfer;
mod usage;
pub(super) mod view;
mod watch;
mod watch_files;

pub(super) use self::connection::connect;
use super::args::RemoteCommand;

/// Runs one of the commands.
pub async fn remote(command: RemoteCommand) -> anyhow::Result<u8> {
    match command {
        RemoteCommand::Create(on) => create::create(connect(&on.server).await?, on.options).await,
        RemoteCommand::Exec(on) => exec::exec(connect(&on.server).await?, on.options).await,
        RemoteCommand::Attach(on) => attach::attach(connect(&on.server).await?, on.options).await,
        RemoteCommand::Jobs(on) => jobs::jobs(connect(&on.server).await?, on.options).await,
        RemoteCommand::Kill(on) => kill::kill(connect(&on.server).await?, on.options).await,
        RemoteCommand::Code(on) => code::code(connect(&on.server).await?, on.options).await,
        RemoteCommand::Context(command) => context::context(command).await,
        RemoteCommand::Put(on) => put::put(connect(&on.server).await?, on.options).await,
        RemoteCommand::Get(on) => get::get(connect(&on.server).await?, on.options).await,
        RemoteCommand::Ls(on) => ls::ls(connect(&on.server).await?, on.options).await,
        RemoteCommand::Mkdir(on) => mkdir::mkdir(connect(&on.server).await?, on.options).await,
        RemoteCommand::Mv(on) => mv::mv(connect(&on.server).await?, on.options).await,
        RemoteCommand::Describe(on) => describe::describe(connect(&on.server).await?, on.options).await,
        RemoteCommand::Ps(on) => ps::ps(connect(&on.server).await?, on.options).await,
        RemoteCommand::Inspect(on) => inspect::inspect(connect(&on.server).await?, on.options).await,
        RemoteCommand::Timeline(on) => {
            let trace = on.server.origin.trace.as_deref().map(origin::trace_id).transpose()?;
            timeline::timeline(connect(&on.server).await?, trace, on.options).await
        }
        RemoteCommand::Egress(on) => egress::egress(connect(&on.server).await?, on.options).await,
        RemoteCommand::Network(on) => network::network(connect(&on.server).await?, on.options).await,
        RemoteCommand::Port(on) => port::port(connect(&on.server).await?, on.options).await,
        RemoteCommand::Pause(on) => pause::pause(connect(&on.server).await?, on.options).await,
        RemoteCommand::Resume(on) => resume::resume(connect(&on.server).await?, on.options).await,
        RemoteCommand::Timeout(on) => timeout::timeout(connect(&on.server).await?, on.options).await,
        RemoteCommand::Rm(on) => rm::rm(connect(&on.server).await?, on.options).await,
        RemoteCommand::Watch(on) => watch::watch(connect(&on.server).await?, on.options).await,
        RemoteCommand::Top(on) => top::top(connect(&on.server).await?, &on.options).await,
        RemoteCommand::Status(on) => status::status(connect(&on.server).await?, &on.options).await,
        RemoteCommand::Usage(on) => usage::usage(connect(&on.server).await?, on.options).await,
        RemoteCommand::Mcp(on) => mcp::mcp(connection::open(&on.server).await?, on.options).await,
        RemoteCommand::Prompt(on) => prompt::prompt(connect(&on.server).await?, &on.options).await,
    }
}

#[cfg(test)]
mod tests;
