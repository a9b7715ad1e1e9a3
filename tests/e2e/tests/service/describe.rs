//! Data in a real guest that is described by its Python, and loaded by the program that is written for it.

use std::fs;

use rekindle_e2e::cli::{Ended, command, ended};
use rekindle_e2e::leftovers;
use rekindle_e2e::server::Server;

/// Makes data in the guest: a table, records that refer to it, and what is no data.
const DATA: &str = r#"
import json, os
os.makedirs("data")
with open("data/orders.jsonl", "w") as file:
    for n in range(20_000):
        file.write(json.dumps({"customer_id": n * 7919 % 500, "price": n / 4, "tags": ["a", "b"][:n % 3]}) + "\n")
with open("data/customers.csv", "w") as file:
    file.write("id,city\n" + "".join(f"{n},{'Oslo' if n % 2 else 'Rome'}\n" for n in range(500)))
with open("broken.json", "w") as file:
    file.write('[{"a": 1}, {"a": ')
os.mkfifo("pipe")
os.symlink("loop", "loop")
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn data_is_described_in_the_guest_and_loaded_by_what_is_written_for_it() {
    let lab = lab!();
    let _turn = lab.turn().await;
    let data = lab.copy();
    let server = Server::start(data.path(), &[]).await;
    let address = server.address();
    let run = async |words: &[&str]| -> Ended {
        ended(command(data.path(), words).env("REKINDLE_SERVER", &address).env("NO_COLOR", "1")).await
    };
    let text = async |words: &[&str]| -> String {
        let ended = run(words).await;
        assert_eq!(ended.code, Some(0), "{words:?}: {ended:?}");
        ended.stdout
    };
    let created = text(&["create", "--ttl", "20m"]).await;
    let id = created.trim_end();
    let dir = tempfile::tempdir().expect("a directory");
    let script = dir.path().join("data.py");
    fs::write(&script, DATA).expect("written");
    text(&["put", id, &script.display().to_string(), "data.py"]).await;
    text(&["exec", id, "--sh", "python3 data.py"]).await;

    let said = text(&["describe", id, "data", "--load-data", "load_data.py"]).await;
    for words in [
        "data | directory | 2 files",
        "customers.csv | CSV | 500 records",
        "city: string, 2 distinct: \"Oslo\", \"Rome\"",
        "orders.jsonl | JSON Lines | 20,000 records",
        "tags: array[0..2] of string, 2 distinct: \"a\", \"b\"",
        "data/customers.csv:id = data/orders.jsonl:customer_id",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let loaded = text(&[
        "exec",
        id,
        "--sh",
        "python3 -c 'from load_data import customers, orders; print(len(customers), orders[1])'",
    ])
    .await;
    assert!(loaded.contains("500 {'customer_id': 419, 'price': 0.25, 'tags': ['a']}"), "{loaded}");

    let short = text(&["describe", id, "data", "--max-chars", "200"]).await;
    assert!(short.trim_end().chars().count() <= 200, "{short}");
    let told = run(&["describe", id, "data/orders.jsonl", "--json"]).await.json();
    assert_eq!(told["files"][0]["values"]["fields"]["price"]["max"], 4999.75, "{told}");
    let broken = text(&["describe", id, "broken.json", "pipe", "/dev/zero"]).await;
    for words in ["is broken at character 17", "is a pipe", "is a device"] {
        assert!(broken.contains(words), "{words}: {broken}");
    }
    for path in ["missing", "loop"] {
        let refused = run(&["describe", id, path]).await;
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(125), ""), "{refused:?}");
    }
    text(&["rm", id]).await;
    server.stop(&leftovers::machines(data.path())).await;
}
