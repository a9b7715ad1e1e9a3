//! The agent of the examples, with a model that is scripted: it makes the usual mistakes and repairs them in its budget.

use std::path::Path;

use rekindle_e2e::browser::{Browser, Seen};
use rekindle_e2e::leftovers;
use rekindle_e2e::python::Packages;
use rekindle_e2e::server::Server;

const REQUIREMENTS: &str = "httpx==0.28.1\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_repairs_its_programs_and_leaves_a_report() {
    let lab = lab!();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let packages = match Packages::fetch_and(REQUIREMENTS, root.join("sdk/python")).await {
        Ok(packages) => packages,
        Err(reason) => rekindle_test_support::skip!("no Python with the SDK: {reason}"),
    };
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[]).await;
    let address = server.address();
    let folder = root.join("examples/agent");
    let file = |name: &str| folder.join(name).display().to_string();
    let (program, script, table) =
        (file("agent.py"), format!("scripted:{}", file("demo.json")), file("sales.csv"));
    let elsewhere = tempfile::tempdir().expect("a directory");
    let run = async |more: &[&str]| {
        let words = [&program, "--model", &script, "--data", &table];
        let words = [&words[..], more, &["Which month sold <best>?"]].concat();
        packages.printed(elsewhere.path(), &[("REKINDLE_SERVER", &address)], &words).await
    };
    let said = run(&[]).await;
    let mut rest = said.as_str();
    for word in [
        "turn 1: missing_module polars: it is not installed",
        "turn 2: syntax_error",
        "turn 3: out_of_memory",
        "use less memory",
        "turn 4: body.html shows images that are not there: months.svg",
        "turn 5: the report is there",
        "report.html: 5 programs were run",
    ] {
        let at = rest.find(word).unwrap_or_else(|| panic!("{word:?} is not said: {said}"));
        rest = &rest[at + word.len()..];
    }
    // Three are not enough, and the server counts them.
    let mut short = packages.command(elsewhere.path(), &[("REKINDLE_SERVER", &address)]);
    short.args([
        &program,
        "--model",
        &script,
        "--data",
        &table,
        "--turns",
        "3",
        "--output",
        "none.html",
        "?",
    ]);
    let short = short.output().await.expect("it runs");
    let why = String::from_utf8_lossy(&short.stderr);
    assert!(why.starts_with("error: no report after 3 programs: out_of_memory"), "{why}");
    assert!(!elsewhere.path().join("none.html").exists());
    let report = std::fs::read_to_string(elsewhere.path().join("report.html")).expect("a report");
    for part in [
        "<h1>Which month sold &lt;best&gt;?</h1>",
        "The best month is 2026-03, with 300 sold.",
        "src=\"data:image/svg+xml;base64,",
        "default-src 'none'",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    assert!(!report.contains("months.svg") && !report.contains("rest.svg"), "it needs no other file");
    server.stop(&leftovers::machines(data.path())).await;

    let browser = match Browser::find() {
        Ok(browser) => browser,
        Err(reason) => rekindle_test_support::skip!("the report was made, but not looked at: {reason}"),
    };
    let seen = browser.open(&elsewhere.path().join("report.html")).await;
    let heading = "Which month sold <best>?".to_owned();
    assert_eq!(seen, Seen { heading, images: vec![true; 2], asked: Vec::new(), console: Vec::new() });
    // The same with a chart that is lost and one that is elsewhere: it would have been seen.
    let lost = report.replacen("data:image/svg+xml;base64,", "data:image/svg+xml;base64,AAAA", 1);
    let lost = lost.replacen("</h1>", "</h1><img src=\"http://charts.invalid/a.png\">", 1);
    let page = elsewhere.path().join("lost.html");
    std::fs::write(&page, lost).expect("written");
    let seen = browser.open(&page).await;
    assert_eq!(seen.images, [false, false, true]);
    assert_eq!(seen.asked, ["http://charts.invalid/a.png"]);
    assert!(seen.console.iter().any(|line| line.contains("Content Security Policy")), "{seen:?}");
}
