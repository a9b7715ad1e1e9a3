//! The clock of an execution in a real guest: its programs have it, and nothing else does.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rekindle_api::client::Client;
use rekindle_api::time::timestamp;
use rekindle_api::v1::execution_outcome::Outcome;
use rekindle_api::v1::program::Program as Kind;
use rekindle_api::v1::{Code, ErrorReason, ExecuteRequest, Language, Program};
use rekindle_e2e::leftovers;
use rekindle_e2e::server::Server;
use rekindle_test_support::wait::PATIENCE;

use crate::calls::{create, destroy, hint, output, python, reason, shell, time};

/// 2024-01-02T03:04:05Z, four in Berlin.
const NOW: u64 = 1_704_164_645;
/// As long as a test may take on a busy host, in seconds.
const LATER: u64 = 3_600;

/// Whether a clock has started there.
fn began(seconds: &str) -> bool {
    let seconds: u64 = seconds.trim().parse().unwrap_or_else(|_| panic!("{seconds:?} is no time"));
    (NOW..NOW + LATER).contains(&seconds)
}

fn node(source: &str) -> Program {
    let language = Language::Node.into();
    Program { program: Some(Kind::Code(Code { language, source: source.into(), plain_interpreter: false })) }
}

fn with_clock(sandbox: &str, program: Program, timezone: &str) -> ExecuteRequest {
    ExecuteRequest {
        sandbox: sandbox.into(),
        program: Some(program),
        timeout: time(PATIENCE),
        now: Some(timestamp(UNIX_EPOCH + Duration::from_secs(NOW))),
        timezone: timezone.into(),
        ..ExecuteRequest::default()
    }
}

/// Runs a program with the clock and returns what it printed.
async fn told(client: &Client, sandbox: &str, program: Program, timezone: &str) -> String {
    let request = with_clock(sandbox, program, timezone);
    let ended = client.sandboxes.clone().execute(request).await.expect("it runs").into_inner();
    assert_eq!(ended.ended(), Some(Outcome::ExitCode(0)), "{ended:?}");
    ended.stdout.unwrap_or_default().text.trim_end().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_of_one_execution_have_a_clock_of_their_own_and_nothing_else_has() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[]).await;
    let client = server.client().await;
    let sandbox = create(&client).await;
    let id = &sandbox.id;

    for program in [
        shell("date +%s"),
        shell("bash -c 'echo $EPOCHSECONDS'"),
        python("import time; print(int(time.time()))"),
        python("import datetime; print(int(datetime.datetime.now(datetime.timezone.utc).timestamp()))"),
        python("import subprocess; print(subprocess.check_output(['date', '+%s'], text=True))"),
        node("console.log(Math.floor(Date.now() / 1000))"),
    ] {
        let said = told(&client, id, program.clone(), "").await;
        assert!(began(&said), "{program:?}: {said}");
    }
    let in_berlin = [
        shell("date +%Y-%m-%dT%H"),
        python("import datetime; print(datetime.datetime.now().isoformat()[:13])"),
        node("const d = new Date(); console.log(`2024-01-0${d.getDate()}T0${d.getHours()}`)"),
    ];
    for program in in_berlin {
        assert_eq!(told(&client, id, program.clone(), "Europe/Berlin").await, "2024-01-02T04", "{program:?}");
    }
    // It runs on, and a wait until a moment of it ends there.
    let waits = "import threading, time\n\
         began = time.time(); threading.Event().wait(0.2); time.sleep(0.1); print(time.time() - began >= 0.3)";
    assert_eq!(told(&client, id, python(waits), "").await, "True");

    // Beside it, at the same time, and in what it leaves behind, the time is the real one.
    let real = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs();
    let near = |said: &str| {
        let seconds: u64 = said.trim().parse().unwrap_or_else(|_| panic!("{said:?} is no time"));
        seconds.abs_diff(real) < LATER
    };
    let (shifted, beside) = tokio::join!(
        told(&client, id, shell("touch made; sleep 1; date +%s"), ""),
        output(&client, id, shell("sleep 0.5; date +%s")),
    );
    assert!(began(&shifted) && near(&beside), "{shifted} {beside}");
    assert!(near(&told(&client, id, shell("stat -c %Y made"), "").await), "times of files are the kernel's");
    assert!(near(&output(&client, id, python("import time; print(int(time.time()))")).await));

    let refusal = client.sandboxes.clone().execute(with_clock(id, shell("date"), "Mars/Base")).await;
    let refusal = refusal.expect_err("there is no such zone");
    assert_eq!(refusal.code(), rekindle_api::Code::InvalidArgument, "{refusal:?}");
    assert_eq!(reason(&refusal), ErrorReason::InvalidRequest);
    assert!(refusal.message().contains("Mars/Base"), "{}", refusal.message());
    let refusal = client.sandboxes.clone().execute(with_clock(id, shell("date"), "Berlin")).await;
    let hint = hint(&refusal.expect_err("there is no such zone"));
    assert!(hint.starts_with("did you mean Europe/Berlin?"), "{hint}");

    destroy(&client, id).await;
    server.stop(&leftovers::machines(data.path())).await;
}
