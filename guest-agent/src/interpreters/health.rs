//! Tells programs in the sandbox that its code interpreter is there, at the address at which programs written for E2B ask
//! for it: `http://localhost:49999/health`. Contexts themselves are the host's affair, so whoever the agent answers has
//! an interpreter.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// The port where the agent is init.
pub const PORT: u16 = 49999;
/// Most bytes of a request that are read.
const MAX_REQUEST: usize = 4096;
/// How long a program has for its request: those behind it wait.
const PATIENCE: Duration = Duration::from_secs(2);

/// Answers from now on, one program after the other.
///
/// # Errors
/// When the port cannot be had.
pub async fn serve(port: u16) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    tokio::spawn(async move {
        loop {
            match listener.accept().await {
                // A program that breaks off, or asks for nothing in its time, has itself to blame.
                Ok((program, _)) => drop(tokio::time::timeout(PATIENCE, answer(program)).await),
                // No descriptors, at most: programs of the sandbox can bring that about.
                Err(_) => tokio::time::sleep(PATIENCE).await,
            }
        }
    });
    Ok(())
}

async fn answer(mut program: TcpStream) -> io::Result<()> {
    let mut request = Vec::with_capacity(256);
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        if request.len() >= MAX_REQUEST || program.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    }
    program.write_all(response(&request).as_bytes()).await?;
    program.shutdown().await
}

fn response(request: &[u8]) -> String {
    let (status, body) = if request.starts_with(b"GET /health HTTP/1.") {
        ("200 OK", "\"OK\"")
    } else {
        ("404 Not Found", "there is only GET /health here\n")
    };
    let length = body.len();
    format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}
