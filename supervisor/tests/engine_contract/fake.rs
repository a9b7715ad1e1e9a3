//! The fake engine, whose guests echo.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use rekindle::engine::fake::{FakeEngine, Fault};
use rekindle::engine::{BoxFuture, ByteStream, Engine, EngineError, Operation};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::bench::Bench;
use super::contract;

fn echo(mut stream: Box<dyn ByteStream>) -> BoxFuture<'static, Result<(), String>> {
    Box::pin(async move {
        let mut answer = [0_u8; 4];
        stream.write_all(b"ping").await.map_err(|error| error.to_string())?;
        stream.read_exact(&mut answer).await.map_err(|error| error.to_string())?;
        if &answer == b"ping" { Ok(()) } else { Err(format!("{answer:?}")) }
    })
}

fn bench() -> (FakeEngine, Bench) {
    let engine = FakeEngine::new(|stream| {
        tokio::spawn(async move {
            let (mut read, mut write) = tokio::io::split(stream);
            let _ = tokio::io::copy(&mut read, &mut write).await;
        });
    });
    let mut bench = Bench::new(Arc::new(engine.clone()), "".into(), "".into(), 16, echo);
    bench.kernel = bench.dir.path().join("kernel");
    bench.image = bench.dir.path().join("image");
    fs::write(&bench.kernel, "").and_then(|()| fs::write(&bench.image, "")).expect("written");
    (engine, bench)
}

#[tokio::test]
async fn the_fake_engine_keeps_the_contract() {
    rekindle_test_support::ran_on!("fake");
    let (_engine, bench) = bench();
    contract::holds(&bench).await;
}

#[tokio::test]
async fn ordered_faults_happen_once_and_at_their_operation() {
    let (engine, bench) = bench();
    let files = bench.snapshot("template").await;
    engine.inject(Operation::Load, Fault::Fail("no luck".into()));
    engine.inject(Operation::Load, Fault::Die);
    let error = engine.restore(bench.restore_spec(&files)).await.map(|_| ()).expect_err("ordered");
    assert!(matches!(error, EngineError::Control { operation: Operation::Load, .. }), "{error:?}");
    let error = engine.restore(bench.restore_spec(&files)).await.map(|_| ()).expect_err("ordered");
    assert!(matches!(error, EngineError::Exited { operation: Operation::Load, .. }), "{error:?}");
    let machine = engine.restore(bench.restore_spec(&files)).await.expect("the third is fine").machine;
    engine.inject(Operation::Dial, Fault::Delay(Duration::from_millis(10)));
    bench.answers(&*machine).await.expect("late, but it answers");
    engine.inject(Operation::Pause, Fault::Hang);
    tokio::time::timeout(Duration::from_millis(20), machine.pause()).await.expect_err("it hangs");
}

#[tokio::test]
async fn a_crash_ends_the_machine_and_its_connections() {
    let (engine, bench) = bench();
    let files = bench.snapshot("template").await;
    let machine = engine.restore(bench.restore_spec(&files)).await.expect("restored").machine;
    let mut stream = machine.dial().await.expect("dialled");
    let control = engine.machines().last().cloned().expect("one machine");
    assert!(control.is_alive());
    control.crash();
    machine.wait().await;
    let mut rest = Vec::new();
    tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut rest))
        .await
        .expect("the stream ends")
        .expect("at its end");
    assert!(!control.is_alive());
}
