//! Files in and out, whole or not at all; links that are signed; directories.

use http::StatusCode;
use serde_json::{Value, json};

use crate::data_plane::{Sandbox, raw};
use crate::place::{Answer, Place, Wishes};

impl Sandbox<'_> {
    async fn write(&self, path: &str, content: impl Into<bytes::Bytes>) -> Answer {
        let headers = self.headers(&[("content-type", "application/octet-stream")]);
        self.place.ask("POST", &format!("/files?path={path}"), &headers, content).await
    }

    /// The content as text in JSON's place, which [`Answer`] has for what is none.
    async fn status_of(&self, path: &str) -> u16 {
        self.place.ask("GET", &format!("/files?path={path}"), &self.headers(&[]), "").await.status.as_u16()
    }

    async fn read(&self, path: &str) -> Value {
        let answer = self.place.ask("GET", &format!("/files?path={path}"), &self.headers(&[]), "").await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        answer.body
    }

    /// A request as bytes, with a body that may break off.
    async fn cut(&self, path: &str, headers: &str, body: &str) -> String {
        let (id, token) = (&self.id, &self.token);
        let head = format!(
            "POST /files?path={path} HTTP/1.1\r\nhost: a\r\ne2b-sandbox-id: {id}\r\nx-access-token: {token}\r\n"
        );
        raw(self.place, format!("{head}{headers}\r\n\r\n{body}").as_bytes(), true).await
    }
}

#[tokio::test]
async fn a_file_goes_in_and_comes_out() {
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    let written = sandbox.write("a/b.json", r#"{"x":1}"#).await;
    let right = json!([{"name": "b.json", "type": "file", "path": "/home/user/a/b.json"}]);
    assert_eq!((written.status, &written.body), (StatusCode::OK, &right));
    assert_eq!(sandbox.read("a/b.json").await, json!({"x": 1}));
    assert_eq!(sandbox.read("/home/user/a/../a//b.json").await, json!({"x": 1}));
    assert_eq!(sandbox.status_of("none").await, 404);
    assert_eq!(sandbox.status_of("a").await, 400);
    assert_eq!(sandbox.status_of("a%00b").await, 400);
    assert!(sandbox.write("a", "x").await.refused(400).contains("is a directory"));
    assert!(sandbox.write("a/b.json/c", "x").await.refused(400).contains("not a directory"));
}

#[tokio::test]
async fn metadata_is_noted_shown_and_gone_with_the_next_content() {
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    let octets = ("content-type", "application/octet-stream");
    let write = async |headers: &[(&str, &str)]| {
        let headers = sandbox.headers(&[&[octets], headers].concat());
        place.ask("POST", "/files?path=d/noted", &headers, "x").await
    };
    let written = write(&[("X-Metadata-Author", "mish"), ("x-metadata-purpose", "a test")]).await;
    let noted = json!({"author": "mish", "purpose": "a test"});
    assert_eq!(written.body[0]["metadata"], noted, "{written:?}");
    let stat = async || {
        sandbox.done("filesystem.Filesystem/Stat", &json!({"path": "d/noted"})).await["entry"].clone()
    };
    assert_eq!(stat().await["metadata"], noted);
    let listed = sandbox.done("filesystem.Filesystem/ListDir", &json!({"path": "d"})).await;
    assert_eq!(listed["entries"][0]["metadata"], noted);
    let moved = json!({"source": "d/noted", "destination": "d/moved"});
    let moved = sandbox.done("filesystem.Filesystem/Move", &moved).await;
    assert_eq!(moved["entry"]["metadata"], noted);
    write(&[("x-metadata-a", "b")]).await;
    assert_eq!(write(&[]).await.body[0].get("metadata"), None);
    assert_eq!(stat().await.get("metadata"), None);
    // Beyond the bounds nothing is written.
    let long = "v".repeat(4000);
    write(&[("x-metadata-a", &long)]).await.refused(400);
    write(&[("x-metadata-", "v")]).await.refused(400);
    let names: Vec<String> = (0..33).map(|n| format!("x-metadata-{n}")).collect();
    let many: Vec<_> = names.iter().map(|name| (name.as_str(), "v")).collect();
    assert!(write(&many).await.refused(400).contains("32"));
}

#[tokio::test]
async fn a_form_brings_several_files() {
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    let part = |name: &str, content: &str| {
        format!(
            "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"{name}\"\r\n\r\n{content}\r\n"
        )
    };
    let headers = sandbox.headers(&[("content-type", "multipart/form-data; boundary=XX")]);
    let body = format!("{}{}--XX--\r\n", part("one.json", "1"), part("/tmp/two.json", "2"));
    let written = place.ask("POST", "/files", &headers, body).await;
    assert_eq!(written.body[1]["path"], "/tmp/two.json", "{written:?}");
    assert_eq!((sandbox.read("one.json").await, sandbox.read("/tmp/two.json").await), (json!(1), json!(2)));
    // With a path the name is the path's, also of a part without one.
    let body = "--XX\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n3\r\n--XX--";
    let written = place.ask("POST", "/files?path=three.json", &headers, body).await;
    assert_eq!((written.status, sandbox.read("three.json").await), (StatusCode::OK, json!(3)));
    for wrong in ["", "--XX--", "--XX\r\nContent-Disposition: form-data; name=\"file\"\r\n\r\n3\r\n--XX--"] {
        place.ask("POST", "/files", &headers, wrong).await.refused(400);
    }
}

#[tokio::test]
async fn an_upload_that_breaks_off_leaves_nothing() {
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    let octets = "content-type: application/octet-stream";
    let form = "content-type: multipart/form-data; boundary=XX";
    let part = "--XX\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\nhalf";
    for (headers, body) in [
        (format!("{octets}\r\ncontent-length: 100"), "half".to_owned()),
        (format!("{octets}\r\ntransfer-encoding: chunked"), "4\r\nhalf\r\n".to_owned()),
        (format!("{octets}\r\ntransfer-encoding: chunked"), "zz\r\nhalf\r\n0\r\n\r\n".to_owned()),
        (format!("{form}\r\ncontent-length: {}", part.len()), part.to_owned()),
        (format!("{form}\r\ncontent-length: {}", part.len() + 6), format!("{part}\r\n--XX")),
        (format!("{form}\r\ncontent-length: 1000"), part.to_owned()),
        (format!("{octets}\r\ncontent-encoding: gzip\r\ncontent-length: 4"), "half".to_owned()),
        (format!("{octets}\r\ncontent-encoding: br\r\ncontent-length: 4"), "half".to_owned()),
    ] {
        let answer = sandbox.cut("cut", &headers, &body).await;
        assert!(!answer.starts_with("HTTP/1.1 200"), "{headers}: {answer}");
        assert_eq!(sandbox.status_of("cut").await, 404, "{headers}");
    }
    // The same request, whole.
    let answer =
        sandbox.cut("cut", &format!("{octets}\r\ncontent-length: 4\r\nconnection: close"), "1234").await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(sandbox.read("cut").await, json!(1234));
}

#[tokio::test]
async fn gzip_goes_both_ways_and_a_packed_file_cut_short_is_none() {
    // `printf '{"x":[1,2,3]}' | gzip -n`
    const PACKED: [u8; 33] = [
        0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 0xab, 0x56, 0xaa, 0x50, 0xb2, 0x8a, 0x36, 0xd4, 0x31, 0xd2, 0x31,
        0x8e, 0xad, 5, 0, 0xdf, 0xe0, 0xaa, 0x52, 0x0d, 0, 0, 0,
    ];
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    let headers =
        sandbox.headers(&[("content-type", "application/octet-stream"), ("content-encoding", "gzip")]);
    let write = async |content: &[u8]| place.ask("POST", "/files?path=x", &headers, content.to_vec()).await;
    for wrong in [&PACKED[..20], &PACKED[..PACKED.len() - 1], &[&PACKED[..], b"more"].concat()] {
        assert_eq!(write(wrong).await.status, StatusCode::BAD_REQUEST);
        assert_eq!(sandbox.status_of("x").await, 404);
    }
    assert_eq!(write(&PACKED).await.status, StatusCode::OK);
    assert_eq!(sandbox.read("x").await, json!({"x": [1, 2, 3]}));
    let get = async |accepted| {
        let headers = sandbox.headers(&[("accept-encoding", accepted)]);
        place.ask("GET", "/files?path=x", &headers, "").await
    };
    assert_eq!(get("gzip").await.header("content-encoding"), Some("gzip"));
    let plain = get("gzip, deflate, br").await;
    assert_eq!((plain.header("content-encoding"), &plain.body), (None, &json!({"x": [1, 2, 3]})));
}

#[tokio::test]
async fn who_has_no_token_of_this_sandbox_gets_nowhere() {
    let place = Place::new().await;
    let (one, two) = (Sandbox::new(&place).await, Sandbox::new(&place).await);
    one.write("a", "1").await;
    let mut wrong = one.token.clone();
    wrong.pop();
    for token in [two.token.as_str(), &wrong, "", "good.", &place.key] {
        let headers = [("e2b-sandbox-id", one.id.as_str()), ("x-access-token", token)];
        let read = place.ask("GET", "/files?path=a", &headers, "").await;
        read.refused(401);
        let headers = [&headers[..], &[("content-type", "application/json")]].concat();
        let list = place.ask("POST", "/process.Process/List", &headers, "{}").await;
        list.refused(401);
    }
    let headers = [("e2b-sandbox-id", one.id.as_str())];
    assert_eq!(
        place.ask("GET", "/files?path=a", &headers, "").await.refused(401),
        "missing signature query parameter"
    );
    place.ask("POST", "/files?path=a", &headers, "x").await.refused(401);
    place.ask("GET", "/files?path=a", &[], "").await.refused(401);
}

#[tokio::test]
async fn directories_are_made_listed_moved_and_removed() {
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    let call = async |method: &str, message: Value| {
        sandbox.done(&format!("filesystem.Filesystem/{method}"), &message).await
    };
    let refused = async |method: &str, message: Value, code: &str| {
        sandbox.refused(&format!("filesystem.Filesystem/{method}"), &message, code).await
    };
    let made = call("MakeDir", json!({"path": "d/sub"})).await;
    assert_eq!(
        (&made["entry"]["path"], &made["entry"]["type"]),
        (&json!("/home/user/d/sub"), &json!("FILE_TYPE_DIRECTORY"))
    );
    assert!(refused("MakeDir", json!({"path": "d"}), "already_exists").await.contains("/home/user/d"));
    sandbox.write("d/file", "1234").await;
    sandbox.write("d/sub/deep", "").await;
    refused("MakeDir", json!({"path": "d/file"}), "invalid_argument").await;
    refused("MakeDir", json!({"path": "d/file/x"}), "invalid_argument").await;
    let stat = call("Stat", json!({"path": "~/d/file"})).await["entry"].clone();
    assert_eq!((&stat["size"], &stat["mode"], &stat["owner"]), (&json!("4"), &json!(0o644), &json!("user")));
    assert_eq!((&stat["permissions"], &stat["name"]), (&json!("-rw-r--r--"), &json!("file")));
    let names = async |message: Value| {
        let listed = call("ListDir", message).await;
        let entries = listed["entries"].as_array().expect("entries").clone();
        entries.iter().map(|entry| entry["path"].as_str().expect("a path").to_owned()).collect::<Vec<_>>()
    };
    let below = ["/home/user/d/file", "/home/user/d/sub", "/home/user/d/sub/deep"];
    assert_eq!(names(json!({"path": "d"})).await, below[..2]);
    assert_eq!(names(json!({"path": "d", "depth": 2})).await, below);
    assert_eq!(names(json!({"path": "d", "depth": "9"})).await, below);
    refused("ListDir", json!({"path": "d/file"}), "invalid_argument").await;
    refused("ListDir", json!({"path": "none"}), "not_found").await;
    let moved = call("Move", json!({"source": "d/file", "destination": "new/place"})).await;
    assert_eq!(moved["entry"]["path"], "/home/user/new/place");
    refused("Move", json!({"source": "d/file", "destination": "x"}), "not_found").await;
    refused("Stat", json!({"path": "d/file"}), "not_found").await;
    assert_eq!(call("Remove", json!({"path": "d"})).await, json!({}));
    assert_eq!(call("Remove", json!({"path": "d"})).await, json!({}), "what is not there is removed");
    refused("Stat", json!({"path": "a\u{0}b"}), "invalid_argument").await;
}

#[tokio::test]
async fn a_directory_that_only_root_may_make_is_the_users_where_the_caller_may_be_root() {
    let place = Place::new().await;
    let sandbox = Sandbox::new(&place).await;
    let call = async |method: &str, path: &str| {
        sandbox.done(&format!("filesystem.Filesystem/{method}"), &json!({"path": path})).await["entry"]
            .clone()
    };
    let made = call("MakeDir", "/srv/a/b").await;
    assert_eq!((&made["path"], &made["owner"]), (&json!("/srv/a/b"), &json!("user")));
    assert_eq!(call("Stat", "/srv/a").await["owner"], "user");
    assert_eq!(call("Stat", "/srv").await["owner"], "root", "what was there keeps its owner");
    sandbox.refused("filesystem.Filesystem/MakeDir", &json!({"path": "/srv/a"}), "already_exists").await;
    let listed = sandbox.done("filesystem.Filesystem/ListDir", &json!({"path": "/srv"})).await;
    assert_eq!(listed["entries"].as_array().map(Vec::len), Some(1), "nothing is left beside it: {listed}");

    let place = Place::with(Wishes { root: false, ..Wishes::default() }).await;
    let sandbox = Sandbox::new(&place).await;
    let refused = json!({"path": "/srv/a"});
    sandbox.refused("filesystem.Filesystem/MakeDir", &refused, "permission_denied").await;
    sandbox.refused("filesystem.Filesystem/Stat", &refused, "not_found").await;
}

#[tokio::test]
async fn a_signed_link_opens_one_file_for_one_use_until_it_expires() {
    use base64::Engine as _;
    use sha2::Digest as _;
    let place = Place::new().await;
    let (sandbox, other) = (Sandbox::new(&place).await, Sandbox::new(&place).await);
    sandbox.write("a", "1").await;
    let link = |path: &str, operation: &str, token: &str, expires: Option<i64>| {
        let mut signed = format!("{path}:{operation}:user:{token}");
        let mut query = format!("/files?path={path}&username=user");
        if let Some(at) = expires {
            signed += &format!(":{at}");
            query += &format!("&signature_expiration={at}");
        }
        let hash = base64::engine::general_purpose::STANDARD_NO_PAD.encode(sha2::Sha256::digest(signed));
        let hash = hash.replace('+', "%2B").replace('/', "%2F");
        format!("{query}&signature=v1_{hash}")
    };
    let at = |seconds: i64| jiff::Timestamp::now().as_second() + seconds;
    let named = [("e2b-sandbox-id", sandbox.id.as_str())];
    for headers in [&named[..], &[]] {
        let get = async |path: &str| place.ask("GET", path, headers, "").await;
        assert_eq!(get(&link("a", "read", &sandbox.token, None)).await.body, json!(1));
        assert_eq!(get(&link("a", "read", &sandbox.token, Some(at(3600)))).await.body, json!(1));
        let expired = get(&link("a", "read", &sandbox.token, Some(at(-5)))).await;
        assert_eq!(
            (expired.status, expired.body["message"].clone()),
            (StatusCode::UNAUTHORIZED, json!("signature is already expired"))
        );
        let signed = link("a", "read", &sandbox.token, None);
        for wrong in [
            link("a", "write", &sandbox.token, None),
            link("a", "read", "good.00", None),
            signed.replace("path=a", "path=b"),
            signed.replace("username=user", "username=root"),
            format!("{signed}&signature_expiration={}", at(3600)),
        ] {
            assert_eq!(get(&wrong).await.refused(401), "invalid signature", "{wrong}");
        }
    }
    let theirs = place.ask("GET", &link("a", "read", &other.token, None), &named, "").await;
    theirs.refused(401);
    let octets = [("content-type", "application/octet-stream")];
    let written = place.ask("POST", &link("b", "write", &sandbox.token, None), &octets, "2").await;
    assert_eq!((written.status, sandbox.read("b").await), (StatusCode::OK, json!(2)));
    place.ask("POST", &link("b", "read", &sandbox.token, None), &octets, "3").await.refused(401);
}
