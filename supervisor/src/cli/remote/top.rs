//! `rekindle top`: sandboxes, the pool and the budget, drawn anew every second. Without a terminal, and with
//! `--once`, one screen is printed.

use std::collections::HashMap;
use std::io::Read as _;
use std::time::{Duration, Instant, SystemTime};

use rekindle_api::Code;
use rekindle_api::client::Client;
use rekindle_api::time::from_duration;
use rekindle_api::v1::{
    HostStatusRequest, HostStatusResponse, ListSandboxesRequest, Sandbox, SandboxState, TerminalSize,
};
use tokio::sync::mpsc;
use tokio::time::MissedTickBehavior;

use super::table::{Side, Table};
use super::terminal::{self, Mode, Terminal};
use super::{print, ps, quantity, refusal, resolve, status};
use crate::cli::args::TopOptions;
use crate::cli::interrupt::{SIGNAL_BASE, interrupted};

/// How often the screen is drawn.
const EVERY: Duration = Duration::from_secs(1);
/// Keys that end it: q, Q and Ctrl-C.
const END_KEYS: [u8; 3] = [b'q', b'Q', 3];

/// What is shown, and when it was asked for.
struct Look {
    /// Missing where the caller may not see it.
    status: Option<HostStatusResponse>,
    sandboxes: Vec<Sandbox>,
    at: Instant,
}

/// Runs the command.
pub async fn top(mut client: Client, options: &TopOptions) -> anyhow::Result<u8> {
    if options.once || !terminal::is_interactive() {
        let look = look(&mut client).await?;
        let lines = lines(&look, None, SystemTime::now());
        print::text(&lines.into_iter().map(|line| line + "\n").collect::<String>())?;
        return Ok(0);
    }
    // Asked once before the screen changes: a refusal is shown where it is seen.
    let first = look(&mut client).await?;
    let screen = Terminal::enter(Mode::Screen)?;
    let ended = tokio::select! {
        ended = redraw(&mut client, first) => ended,
        () = end_key() => Ok(0),
        number = interrupted(true) => Ok(SIGNAL_BASE + number),
    };
    drop(screen);
    ended
}

async fn redraw(client: &mut Client, mut now: Look) -> anyhow::Result<u8> {
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    tick.tick().await;
    let mut before = None;
    loop {
        let lines = lines(&now, before.as_ref(), SystemTime::now());
        print::text(&screen(&lines, terminal::size()))?;
        tick.tick().await;
        before = Some(std::mem::replace(&mut now, look(client).await?));
    }
}

async fn look(client: &mut Client) -> anyhow::Result<Look> {
    let status = match client.host.status(HostStatusRequest {}).await {
        Ok(status) => Some(status.into_inner()),
        Err(status) if status.code() == Code::PermissionDenied => None,
        Err(status) => return Err(refusal::refused(status)),
    };
    let sandboxes = resolve::list(client, ListSandboxesRequest::default()).await?;
    Ok(Look { status, sandboxes, at: Instant::now() })
}

/// Completes when one of the keys that end it is pressed, or nobody can press one any more.
async fn end_key() {
    let (pressed, mut ended) = mpsc::channel::<()>(1);
    // Nobody waits for this thread: a read from a terminal has no end.
    std::thread::spawn(move || {
        let keys = std::io::stdin().lock().bytes();
        let _ = keys.map_while(Result::ok).find(|key| END_KEYS.contains(key));
        drop(pressed);
    });
    ended.recv().await;
}

/// The whole screen, line by line.
fn lines(look: &Look, before: Option<&Look>, now: SystemTime) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(status) = &look.status {
        let mut facts = Table::facts();
        let age = quantity::span(quantity::between(status.started_at, now));
        let ending = if status.draining { ", shutting down" } else { "" };
        facts.fact("rekindle", format!("{} on {}, running for {age}{ending}", status.version, status.engine));
        facts.fact("sandboxes", format!("{}, {} waiting for room", status.sandboxes, status.queued));
        facts.fact("memory", status::memory(status));
        facts.fact("processors", status::processors(status));
        lines.extend(facts.lines());
        lines.push(String::new());
        if !status.pools.is_empty() {
            lines.extend(status::pools(&status.pools).lines());
            lines.push(String::new());
        }
    } else {
        lines.push("how full the host is needs the scope admin".into());
        lines.push(String::new());
    }
    lines.extend(sandboxes(look, before, now).lines());
    lines
}

/// The sandboxes, the busiest first.
fn sandboxes(look: &Look, before: Option<&Look>, now: SystemTime) -> Table {
    let mut table = Table::new(&[
        ("ID", Side::Left),
        ("TENANT", Side::Left),
        ("TEMPLATE", Side::Left),
        ("STATE", Side::Left),
        ("CPU %", Side::Right),
        ("MEMORY", Side::Right),
        ("EXECS", Side::Right),
        ("LEFT", Side::Right),
        ("METADATA", Side::Left),
    ]);
    let last: HashMap<&str, Duration> = before
        .iter()
        .flat_map(|before| &before.sandboxes)
        .map(|sandbox| (sandbox.id.as_str(), used(sandbox)))
        .collect();
    let passed = before.map(|before| look.at - before.at);
    let mut rows: Vec<(f64, &Sandbox)> = look
        .sandboxes
        .iter()
        .filter(|sandbox| sandbox.state() != SandboxState::Ended)
        .map(|sandbox| (busy(sandbox, last.get(sandbox.id.as_str()).copied(), passed), sandbox))
        .collect();
    rows.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    for (busy, sandbox) in rows {
        let usage = sandbox.usage.unwrap_or_default();
        table.row([
            sandbox.id.clone(),
            sandbox.tenant.clone(),
            sandbox.template.clone(),
            ps::state(sandbox),
            format!("{busy:.1}"),
            quantity::known_size(usage.memory_bytes),
            usage.executions.to_string(),
            ps::left(sandbox, now),
            ps::metadata(&sandbox.metadata),
        ]);
    }
    table
}

/// Percent of one processor since the last look, or over its life when there was none.
fn busy(sandbox: &Sandbox, last: Option<Duration>, passed: Option<Duration>) -> f64 {
    let ran = || sandbox.usage.and_then(|usage| usage.running_time).and_then(from_duration);
    let (cpu, passed) = match (last, passed) {
        (Some(last), Some(passed)) => (used(sandbox).saturating_sub(last), passed),
        _ => (used(sandbox), ran().unwrap_or_default()),
    };
    if passed < Duration::from_micros(1) { 0.0 } else { cpu.as_secs_f64() / passed.as_secs_f64() * 100.0 }
}

/// Processor time so far.
fn used(sandbox: &Sandbox) -> Duration {
    sandbox.usage.and_then(|usage| usage.cpu_time).and_then(from_duration).unwrap_or_default()
}

/// What is sent to the terminal: every line cut to its width and cleared to its end, and what was below gone.
fn screen(lines: &[String], size: TerminalSize) -> String {
    use unicode_width::UnicodeWidthChar as _;
    let mut text = String::from("\x1b[H");
    // The last row stays empty, so that nothing scrolls.
    let rows = usize::try_from(size.rows).unwrap_or(usize::MAX).saturating_sub(1);
    for line in lines.iter().take(rows) {
        let mut left = usize::try_from(size.columns).unwrap_or(usize::MAX);
        for c in line.chars() {
            let Some(rest) = left.checked_sub(c.width().unwrap_or(0)) else { break };
            left = rest;
            text.push(c);
        }
        text.push_str("\x1b[K\n");
    }
    text.push_str("\x1b[J");
    text
}

#[cfg(test)]
mod tests {
    //! What is drawn.

    use rekindle_api::v1::{PoolLevel, SandboxUsage};

    use rekindle_api::time::duration;

    use super::*;

    fn now_time() -> SystemTime {
        SystemTime::UNIX_EPOCH
    }

    fn sandbox(id: &str, cpu_seconds: u64) -> Sandbox {
        let usage = SandboxUsage {
            cpu_time: Some(duration(Duration::from_secs(cpu_seconds))),
            running_time: Some(duration(Duration::from_secs(10))),
            ..SandboxUsage::default()
        };
        Sandbox {
            id: id.into(),
            state: SandboxState::Running.into(),
            usage: Some(usage),
            ..Sandbox::default()
        }
    }

    fn first_words(table: &Table) -> Vec<String> {
        let first = |line: &String| line.split_whitespace().next().unwrap_or_default().to_owned();
        table.lines().iter().map(first).collect()
    }

    #[test]
    fn the_busiest_since_the_last_look_comes_first() {
        let at = Instant::now();
        let before = Look { status: None, sandboxes: vec![sandbox("a", 9), sandbox("b", 0)], at };
        let at = at + Duration::from_secs(2);
        let now = Look { status: None, sandboxes: vec![sandbox("a", 9), sandbox("b", 1)], at };
        assert_eq!(first_words(&sandboxes(&now, None, now_time())), ["ID", "a", "b"]);
        assert_eq!(first_words(&sandboxes(&now, Some(&before), now_time())), ["ID", "b", "a"]);
        let share = busy(&now.sandboxes[1], Some(Duration::ZERO), Some(Duration::from_secs(2)));
        assert!((share - 50.0).abs() < 1e-9, "{share}");
        assert!(busy(&Sandbox::default(), None, None).abs() < 1e-9, "nothing is never divided by");
    }

    #[test]
    fn pool_and_budget_are_above_the_sandboxes() {
        let status = HostStatusResponse {
            version: "0.1.0".into(),
            memory_used_bytes: 1 << 30,
            memory_budget_bytes: 2 << 30,
            pools: vec![PoolLevel { template: "minimal".into(), parked: 2, ..PoolLevel::default() }],
            ..HostStatusResponse::default()
        };
        let look = Look { status: Some(status), sandboxes: vec![sandbox("ab", 0)], at: Instant::now() };
        let text = lines(&look, None, now_time()).join("\n");
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("no {word} in {text}"));
        assert!(at("1.0 GiB of 2.0 GiB (50 %)") < at("minimal"));
        assert!(at("minimal") < at("\nab "));
    }

    #[test]
    fn a_screen_fits_the_terminal() {
        let lines: Vec<String> = vec!["abcdef".into(), "日本語".into(), "x".into(), "y".into()];
        let text = screen(&lines, TerminalSize { rows: 4, columns: 5 });
        assert_eq!(text, "\x1b[Habcde\x1b[K\n日本\x1b[K\nx\x1b[K\n\x1b[J");
    }
}
