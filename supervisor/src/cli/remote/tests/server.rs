//! A server in this process that answers as a test needs it: three sandboxes, a program that echoes, files in
//! memory.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::{Stream, StreamExt as _, stream};
use rekindle_api::client::{Client, Target};
use rekindle_api::v1::download_file_response::Part as Down;
use rekindle_api::v1::execute_event::Event as Output;
use rekindle_api::v1::execute_input::Input;
use rekindle_api::v1::executions_server::ExecutionsServer;
use rekindle_api::v1::files_server::{Files, FilesServer};
use rekindle_api::v1::host_server::{Host, HostServer};
use rekindle_api::v1::interpreter_server::InterpreterServer;
use rekindle_api::v1::network_server::NetworkServer;
use rekindle_api::v1::sandboxes_server::{Sandboxes, SandboxesServer};
use rekindle_api::v1::upload_file_request::Part as Up;
use rekindle_api::v1::*;
use rekindle_api::{Code, Request, Status, Streaming};
use sha2::{Digest as _, Sha256};
use tokio::net::UnixListener;
use tonic::Response;

pub(super) type Answer<T> = Result<Response<T>, Status>;
pub(super) type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What the server has.
#[derive(Debug, Default)]
pub struct State {
    /// Files by path.
    pub files: HashMap<Bytes, Bytes>,
    /// Directories that were made, and files that were moved.
    pub made: Vec<MakeDirRequest>,
    pub moved: Vec<MoveFileRequest>,
    /// Directories that were watched.
    pub watched: Vec<WatchFilesRequest>,
    /// How uploads ended: whether each was complete.
    pub uploads: Vec<bool>,
    /// Sandboxes that were destroyed.
    pub destroyed: Vec<String>,
    /// What live executions were started with.
    pub started: Vec<ExecuteStart>,
    /// What detached executions were started with.
    pub detached: Vec<StartExecutionRequest>,
    /// Signals that were sent, and to what.
    pub signals: Vec<(String, u32, bool)>,
    /// What single executions were asked for.
    pub executed: Vec<ExecuteRequest>,
    /// What was to happen at the ends of sandboxes.
    pub on_timeouts: Vec<OnTimeout>,
    /// Code that was to run, and whether within a deadline.
    pub codes: Vec<(RunCodeRequest, bool)>,
    /// What was done with contexts.
    pub contexts: Vec<String>,
    /// Policies that were put in force.
    pub networks: Vec<UpdateNetworkRequest>,
    /// Looks at connections.
    pub looked: Vec<ConnectionsRequest>,
}

/// A server that runs, and a way to it.
pub struct Server {
    /// Its state.
    pub state: Arc<Mutex<State>>,
    dir: tempfile::TempDir,
}

impl Server {
    /// Starts one.
    pub fn start() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let listener = UnixListener::bind(dir.path().join("s")).expect("a socket");
        let state = Arc::new(Mutex::new(State::default()));
        let incoming = stream::unfold(listener, async |listener| {
            Some((listener.accept().await.map(|(connection, _)| connection), listener))
        });
        let sandboxes = SandboxesServer::new(Fake(Arc::clone(&state)));
        let executions = ExecutionsServer::new(Fake(Arc::clone(&state)));
        let interpreter = InterpreterServer::new(Fake(Arc::clone(&state)));
        let files = FilesServer::new(Fake(Arc::clone(&state)));
        let network = NetworkServer::new(Fake(Arc::clone(&state)));
        let host = HostServer::new(Fake(Arc::clone(&state)));
        let server = tonic::transport::Server::builder()
            .add_service(sandboxes)
            .add_service(executions)
            .add_service(interpreter)
            .add_service(files)
            .add_service(network)
            .add_service(host);
        tokio::spawn(server.serve_with_incoming(incoming));
        Self { state, dir }
    }

    /// Connects to it.
    pub async fn client(&self) -> Client {
        Client::connect(&Target::Socket(self.dir.path().join("s")), None).await.expect("it listens")
    }

    /// How to name it on a command line.
    pub fn url(&self) -> String {
        format!("unix:{}", self.dir.path().join("s").display())
    }
}

pub(super) struct Fake(pub(super) Arc<Mutex<State>>);

fn sandboxes() -> Vec<Sandbox> {
    let one = |id: &str| Sandbox { id: id.into(), state: SandboxState::Running.into(), ..Sandbox::default() };
    vec![one("aa11"), one("ab22"), one("ab33")]
}

pub(super) fn refuse<T>(code: Code, reason: ErrorReason, message: &str) -> Result<T, Status> {
    let detail = ErrorDetail { reason: reason.into(), hint: "ask nicely".into(), ..ErrorDetail::default() };
    Err(rekindle_api::status(code, message.into(), &detail))
}

pub(super) fn exited(exit_code: u32) -> ExecuteResponse {
    let outcome = ExecutionOutcome { outcome: Some(execution_outcome::Outcome::ExitCode(exit_code)) };
    ExecuteResponse { outcome: Some(outcome), ..ExecuteResponse::default() }
}

#[tonic::async_trait]
impl Sandboxes for Fake {
    async fn get(&self, request: Request<GetSandboxRequest>) -> Answer<Sandbox> {
        let id = request.into_inner().sandbox;
        match sandboxes().into_iter().find(|sandbox| sandbox.id == id) {
            Some(sandbox) => Ok(Response::new(sandbox)),
            None => refuse(Code::NotFound, ErrorReason::UnknownSandbox, "no such sandbox"),
        }
    }

    /// One sandbox a page, so that pages are followed.
    async fn list(&self, request: Request<ListSandboxesRequest>) -> Answer<ListSandboxesResponse> {
        let at = request.into_inner().page_token.parse().unwrap_or(0);
        let all = sandboxes();
        let next_page_token = if at + 1 < all.len() { (at + 1).to_string() } else { String::new() };
        let sandboxes = all.into_iter().skip(at).take(1).collect();
        Ok(Response::new(ListSandboxesResponse { sandboxes, next_page_token }))
    }

    async fn execute(&self, request: Request<ExecuteRequest>) -> Answer<ExecuteResponse> {
        self.0.lock().expect("state").executed.push(request.into_inner());
        Ok(Response::new(exited(3)))
    }

    type ExecuteStreamStream = Answers<ExecuteEvent>;

    /// `cat`, which ends with 7 at the end of its input, and by a signal when it gets one.
    async fn execute_stream(
        &self,
        request: Request<Streaming<ExecuteInput>>,
    ) -> Answer<Self::ExecuteStreamStream> {
        let mut inputs = request.into_inner();
        let Some(Input::Start(start)) = inputs.message().await?.and_then(|first| first.input) else {
            return refuse(Code::InvalidArgument, ErrorReason::InvalidRequest, "no start");
        };
        let live = start.live_stdin;
        self.0.lock().expect("state").started.push(start);
        if !live {
            let events = [
                Output::Started(ExecuteStarted::default()),
                Output::Stdout(Bytes::from_static(b"out\n")),
                Output::Stderr(Bytes::from_static(b"err\n")),
                Output::Finished(exited(7)),
            ];
            let events = events.map(|event| Ok(ExecuteEvent { event: Some(event) }));
            return Ok(Response::new(stream::iter(events).boxed()));
        }
        let echoed = inputs.filter_map(async |input| match input.ok()?.input? {
            Input::Stdin(data) => Some(Output::Stdout(data)),
            Input::StdinEnd(_) => Some(Output::Finished(exited(7))),
            _ => None,
        });
        Ok(Response::new(echoed.map(|event| Ok(ExecuteEvent { event: Some(event) })).boxed()))
    }

    async fn destroy(&self, request: Request<DestroySandboxRequest>) -> Answer<Sandbox> {
        let id = request.into_inner().sandbox;
        if id == "ab22" {
            return refuse(Code::Internal, ErrorReason::Internal, "it clings to life");
        }
        self.0.lock().expect("state").destroyed.push(id);
        Ok(Response::new(Sandbox::default()))
    }

    async fn create(&self, request: Request<CreateSandboxRequest>) -> Answer<Sandbox> {
        self.0.lock().expect("state").on_timeouts.push(request.into_inner().on_timeout());
        refuse(Code::ResourceExhausted, ErrorReason::HostFull, "no room")
    }

    async fn pause(&self, _: Request<PauseSandboxRequest>) -> Answer<Sandbox> {
        Err(Status::unimplemented(""))
    }

    async fn resume(&self, _: Request<ResumeSandboxRequest>) -> Answer<Sandbox> {
        Err(Status::unimplemented(""))
    }

    async fn set_timeout(&self, request: Request<SetSandboxTimeoutRequest>) -> Answer<Sandbox> {
        self.0.lock().expect("state").on_timeouts.push(request.into_inner().on_timeout());
        Ok(Response::new(Sandbox::default()))
    }

    type WatchStream = Answers<SandboxEvent>;

    async fn watch(&self, _: Request<WatchSandboxesRequest>) -> Answer<Self::WatchStream> {
        Err(Status::unimplemented(""))
    }

    async fn timeline(&self, _: Request<SandboxTimelineRequest>) -> Answer<SandboxTimelineResponse> {
        Err(Status::unimplemented(""))
    }
}

#[tonic::async_trait]
impl Files for Fake {
    async fn upload(&self, request: Request<Streaming<UploadFileRequest>>) -> Answer<FileInfo> {
        let mut parts = request.into_inner();
        let Some(Up::Start(file)) = parts.message().await?.and_then(|first| first.part) else {
            return refuse(Code::InvalidArgument, ErrorReason::InvalidRequest, "no file");
        };
        if &file.path[..] == b"forbidden" {
            return refuse(Code::PermissionDenied, ErrorReason::PermissionDenied, "not there");
        }
        let mut content = Vec::new();
        let complete = loop {
            match parts.message().await {
                Ok(Some(UploadFileRequest { part: Some(Up::Chunk(chunk)) })) => {
                    content.extend_from_slice(&chunk);
                }
                Ok(Some(UploadFileRequest { part: Some(Up::End(_)) })) => break true,
                Ok(Some(_)) => return refuse(Code::InvalidArgument, ErrorReason::InvalidRequest, "twice"),
                Ok(None) | Err(_) => break false,
            }
        };
        let mut state = self.0.lock().expect("state");
        state.uploads.push(complete);
        let sha256 = Bytes::copy_from_slice(&Sha256::digest(&content));
        let info = FileInfo {
            size: content.len() as u64,
            mode: file.mode.unwrap_or(0o644),
            sha256,
            ..FileInfo::default()
        };
        if complete {
            state.files.insert(file.path, content.into());
        }
        Ok(Response::new(info))
    }

    type DownloadStream = Answers<DownloadFileResponse>;
    type WatchStream = Answers<WatchFilesResponse>;

    /// The files; `short` lacks its end, and `changed` its bytes.
    async fn download(&self, request: Request<DownloadFileRequest>) -> Answer<Self::DownloadStream> {
        let path = request.into_inner().path;
        let Some(content) = self.0.lock().expect("state").files.get(&path).cloned() else {
            return refuse(Code::NotFound, ErrorReason::NotFound, "no such file");
        };
        let sha256 = Bytes::copy_from_slice(&Sha256::digest(&content));
        let end = DownloadFileEnd { size: content.len() as u64, sha256, file: None };
        let mut sent = content.to_vec();
        if &path[..] == b"changed" {
            sent[0] ^= 1;
        }
        let mut parts: Vec<Down> =
            sent.chunks(100_000).map(|chunk| Down::Chunk(Bytes::copy_from_slice(chunk))).collect();
        if &path[..] != b"short" {
            parts.push(Down::End(end));
        }
        let parts = parts.into_iter().map(|part| Ok(DownloadFileResponse { part: Some(part) }));
        Ok(Response::new(stream::iter(parts).boxed()))
    }

    async fn list(&self, _: Request<ListFilesRequest>) -> Answer<ListFilesResponse> {
        Err(Status::unimplemented(""))
    }

    async fn stat(&self, _: Request<StatFileRequest>) -> Answer<FileInfo> {
        Err(Status::unimplemented(""))
    }

    async fn remove(&self, _: Request<RemoveFileRequest>) -> Answer<RemoveFileResponse> {
        Err(Status::unimplemented(""))
    }

    async fn make_dir(&self, request: Request<MakeDirRequest>) -> Answer<FileInfo> {
        self.0.lock().expect("state").made.push(request.into_inner());
        Ok(Response::new(FileInfo::default()))
    }

    async fn r#move(&self, request: Request<MoveFileRequest>) -> Answer<FileInfo> {
        self.0.lock().expect("state").moved.push(request.into_inner());
        Ok(Response::new(FileInfo::default()))
    }

    async fn describe(&self, _: Request<DescribeFilesRequest>) -> Answer<DescribeFilesResponse> {
        Err(Status::unimplemented(""))
    }

    /// One change, and the end.
    async fn watch(&self, request: Request<WatchFilesRequest>) -> Answer<Self::WatchStream> {
        self.0.lock().expect("state").watched.push(request.into_inner());
        let event = FileEvent { path: "a".into(), kind: FileEventKind::Created.into(), file: None };
        let told = [Ok(WatchFilesResponse::default()), Ok(WatchFilesResponse { events: vec![event] })];
        Ok(Response::new(stream::iter(told).boxed()))
    }
}

#[tonic::async_trait]
impl Host for Fake {
    async fn list_templates(&self, _: Request<ListTemplatesRequest>) -> Answer<ListTemplatesResponse> {
        Ok(Response::new(ListTemplatesResponse::default()))
    }

    async fn status(&self, _: Request<HostStatusRequest>) -> Answer<HostStatusResponse> {
        refuse(Code::PermissionDenied, ErrorReason::MissingScope, "the scope admin is needed")
    }

    async fn usage(&self, _: Request<HostUsageRequest>) -> Answer<HostUsageResponse> {
        Ok(Response::new(HostUsageResponse::default()))
    }
}
