//! A real browser without a screen, which looks at a page as a person would get it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::process::Command;
use tokio::time::timeout;

/// Programs that will do, the smallest first.
const PROGRAMS: [&str; 2] = ["chromium-headless-shell", "chromium"];
const PATIENCE: Duration = Duration::from_secs(120);
/// Frames the page, looks into the frame, and writes what it found below. A policy of the page's own does not count here.
const CHECK: &str = include_str!("browser/check.html");
/// Before what it found.
const FOUND: &str = "FOUND";

/// A browser that is installed.
#[derive(Debug, Clone)]
pub struct Browser(PathBuf);

/// What it saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The first heading.
    pub heading: String,
    /// Of each image, whether it was loaded and takes room.
    pub images: Vec<bool>,
    /// Addresses that the page asked for, apart from data in the page itself.
    pub asked: Vec<String>,
    /// What was written to the console.
    pub console: Vec<String>,
}

impl Browser {
    /// The one that `REKINDLE_BROWSER` names, or one on the path.
    ///
    /// # Errors
    /// Says how to get one.
    pub fn find() -> Result<Self, String> {
        let named = std::env::var_os("REKINDLE_BROWSER").map(PathBuf::from);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let on_path = || {
            let dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
            PROGRAMS.iter().find_map(|name| dirs.iter().map(|dir| dir.join(name)).find(|file| file.is_file()))
        };
        let found = named.or_else(on_path);
        found.map(Self).ok_or_else(|| format!("no browser: apt-get install {}", PROGRAMS[0]))
    }

    /// Opens a page of this machine. No name leads anywhere: what it asks for it does not get.
    ///
    /// # Panics
    /// When it cannot be opened.
    pub async fn open(&self, page: &Path) -> Seen {
        let dir = tempfile::tempdir().expect("a directory");
        fs::copy(page, dir.path().join("page.html")).expect("copied");
        let check = dir.path().join("check.html");
        fs::write(&check, CHECK).expect("written");
        let mut command = Command::new(&self.0);
        command
            // The page is the test's own, and root has no sandbox.
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files"])
            .args([
                "--enable-logging=stderr",
                "--virtual-time-budget=10000",
                "--host-resolver-rules=MAP * ~NOTFOUND",
            ])
            .arg(format!("--user-data-dir={}", dir.path().join("profile").display()))
            .arg("--dump-dom")
            .arg(format!("file://{}", check.display()))
            .kill_on_drop(true);
        let ended = timeout(PATIENCE, command.output()).await.expect("in time").expect("started");
        let (said, log) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
        let found = said.split_once(FOUND).and_then(|(_, rest)| rest.split_once("</pre>"));
        let found = found.unwrap_or_else(|| panic!("{said}\n{log}")).0;
        // As a document has it.
        let found = found.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
        let found: serde_json::Value =
            serde_json::from_str(&found).unwrap_or_else(|error| panic!("{error}: {found}"));
        let list = |name: &str| found[name].as_array().cloned().unwrap_or_default();
        Seen {
            heading: found["heading"].as_str().unwrap_or_default().to_owned(),
            images: list("images").iter().map(|image| image == true).collect(),
            asked: list("asked").iter().filter_map(|name| name.as_str().map(str::to_owned)).collect(),
            console: log.lines().filter(|line| line.contains(":CONSOLE")).map(str::to_owned).collect(),
        }
    }
}
