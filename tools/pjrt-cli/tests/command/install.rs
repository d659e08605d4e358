//! Tests `pjrt install` and `pjrt uninstall` with a package index in this process.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Cursor, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use expect_test::expect;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;

/// A user's home folder and an index with the packages `acme-pjrt`, which is a plugin, and `plain`, which is not.
struct User {
    home: PathBuf,
    index: String,
}

impl User {
    fn new(test: &str) -> Self {
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("install-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&home);
        fs::create_dir_all(&home).unwrap();
        let library = fs::read(device_plugin_testing::library("odd_plugin")).unwrap();
        let name = if cfg!(windows) { "acme/acme.dll" } else { "acme/acme.so" };
        let acme = wheel("acme_pjrt", "1.2", &[(name, &library)]);
        let plain = wheel("plain", "3", &[("plain/__init__.py", b"raise SystemExit")]);
        Self { home, index: serve(&[("acme-pjrt", "1.2", acme), ("plain", "3", plain)]) }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pjrt"));
        command.args(args).env_clear().env("PATH", "/usr/bin:/bin").env("HOME", &self.home);
        for name in ["SYSTEMROOT", "TEMP"] {
            command.envs(std::env::var_os(name).map(|value| (name, value)));
        }
        command.env("LOCALAPPDATA", self.home.join("local")).env("PIP_INDEX_URL", &self.index);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that succeeds, and returns its output with the home folder replaced by `HOME`.
    fn text(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {output:?}");
        self.plain(&output.stdout)
    }

    /// Runs a command that fails, and returns its message.
    fn message(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {output:?}");
        self.plain(&output.stderr)
    }

    fn plain(&self, text: &[u8]) -> String {
        let text = String::from_utf8_lossy(text).replace(self.home.to_str().unwrap(), "HOME");
        text.replace(&self.index, "INDEX")
    }

    fn installed(&self) -> PathBuf {
        self.home.join(if cfg!(windows) { "local" } else { ".local/share" }).join("pjrt/installed")
    }
}

/// Makes a wheel for every platform.
fn wheel(name: &str, version: &str, files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let metadata = format!("Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n");
    let path = format!("{name}-{version}.dist-info/METADATA");
    for (path, content) in files.iter().chain([&(path.as_str(), metadata.as_bytes())]) {
        zip.start_file(*path, SimpleFileOptions::default()).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Serves an index with these packages. Returns its address.
fn serve(packages: &[(&str, &str, Vec<u8>)]) -> String {
    let mut pages: HashMap<String, (&str, Vec<u8>)> = HashMap::new();
    for (name, version, wheel) in packages {
        let file = format!("{}-{version}-py3-none-any.whl", name.replace('-', "_"));
        let hash: String = Sha256::digest(wheel).iter().map(|byte| format!("{byte:02x}")).collect();
        let page = json!({ "files": [{
            "filename": file,
            "url": format!("/{file}"),
            "hashes": { "sha256": hash },
            "size": wheel.len(),
        }] });
        pages
            .insert(format!("/simple/{name}/"), ("application/vnd.pypi.simple.v1+json", page.to_string().into_bytes()));
        pages.insert(format!("/{file}"), ("application/octet-stream", wheel.clone()));
    }
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            let mut read = || lines.by_ref().take_while(|line| !line.is_empty()).collect::<Vec<String>>();
            let mut head = read();
            // The server is also a proxy that leads to itself.
            if head.first().is_some_and(|line| line.starts_with("CONNECT ")) {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
                head = read();
            }
            let path = head.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default();
            let (status, kind, body) = match pages.get(path) {
                Some((kind, body)) => ("200 OK", *kind, body.as_slice()),
                None => ("404 Not Found", "text/plain", &b""[..]),
            };
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n"
            );
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body));
        }
    });
    format!("http://{address}/simple")
}

#[test]
fn from_nothing_to_a_device() {
    let user = User::new("whole");
    let plan = user.text(&["install", "acme-pjrt", "--dry-run"]);
    assert!(plan.contains("acme_pjrt-1.2-py3-none-any.whl") && plan.contains("nothing was installed"), "{plan}");
    assert!(!user.installed().exists());
    let text = user.text(&["install", "acme-pjrt"]);
    if cfg!(not(windows)) {
        expect![[r#"
            installed acme-pjrt: acme-pjrt 1.2
            library  HOME/.local/share/pjrt/installed/acme-pjrt/lib/python3/site-packages/acme/acme.so
            use      pjrt devices --plugin acme-pjrt
        "#]]
        .assert_eq(&text);
    }
    let plugins: Value = serde_json::from_slice(&user.run(&["list", "--json"]).stdout).unwrap();
    let mut plugins = plugins["plugins"].as_array().unwrap().iter();
    let acme = plugins.find(|plugin| plugin["name"] == "acme_pjrt").unwrap();
    assert_eq!((&acme["source"], &acme["status"]), (&json!("installed"), &json!("ok")));
    user.text(&["devices", "--plugin", "acme-pjrt"]);
    assert!(user.text(&["install", "acme-pjrt"]).starts_with("already installed acme-pjrt"));
    assert_eq!(user.text(&["uninstall", "acme-pjrt"]), "removed acme-pjrt: acme-pjrt 1.2\n");
    let left: Vec<_> = fs::read_dir(user.installed()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [".lock"]);
    assert_eq!(user.run(&["devices", "--plugin", "acme-pjrt"]).status.code(), Some(1));
}

#[test]
fn another_folder() {
    let user = User::new("folder");
    let folder = user.home.join("plugins");
    let to = folder.to_str().unwrap();
    let json = user.text(&["install", "acme-pjrt", "--to", to, "--no-cache", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!((&json["missing"], &json["unchanged"]), (&json!([]), &json!(false)));
    assert!(!user.installed().exists());
    let cache = user.home.join(if cfg!(windows) { "local" } else { ".cache" }).join("pjrt/wheels");
    assert_eq!(fs::read_dir(cache).unwrap().count(), 0);
    let devices = |variable: &str| {
        let mut command = user.command(&["devices", "--plugin", "acme-pjrt"]);
        command.env(variable, &folder).output().unwrap().status.success()
    };
    assert!(devices("PJRT_REGISTRY_INSTALL_DIR") && !devices("OTHER"));
    user.text(&["uninstall", "acme-pjrt", "--from", to]);
    assert!(!folder.join("acme-pjrt").exists());
}

#[test]
fn messages() {
    let user = User::new("messages");
    let mut messages = String::new();
    for args in [
        &["install", "plain"][..],
        &["install", "acme-pjrt==2"],
        &["install", "absent"],
        &["install", "acme pjrt"],
        &["install", "acme-pjrt", "--index", "nowhere"],
        &["install", "acme-pjrt", "--with", "absent"],
        &["uninstall", "plain"],
    ] {
        messages += &user.message(args);
    }
    if cfg!(not(windows)) {
        expect![[r#"
            pjrt: plain 3 is not a PJRT plugin: it contains no shared library; install the package that contains the plugin
            pjrt: no version of acme-pjrt satisfies acme-pjrt==2 (required by the request); request one that has a wheel for this machine: 1.2
            pjrt: no package "absent" in INDEX/: correct the name, or add an index that has it (--extra-index)
            pjrt: "acme pjrt" cannot be installed: "pjrt" is not a version: Unexpected end of version specifier, expected operator; write a name such as `xla-cpu` or `libtpu==0.0.52`
            pjrt: "nowhere" is not the address of an index (relative URL without a base): write one such as https://pypi.org/simple
            pjrt: no package "absent" in INDEX/: correct the name, or add an index that has it (--extra-index)
            pjrt: no plugin "plain" is installed in HOME/.local/share/pjrt/installed; the folder contains no plugins
        "#]].assert_eq(&messages);
    }
    // With --json, the error is JSON, too.
    let output = user.run(&["install", "plain", "--json"]);
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json["error"].as_str().unwrap().contains("plain 3"));
}

#[test]
fn proxies() {
    let user = User::new("proxies");
    let server = user.index.strip_suffix("/simple").unwrap();
    let install = |index: &str, proxy: &str, without: &str| {
        let mut command = user.command(&["install", "acme-pjrt", "--dry-run"]);
        command.env("PIP_INDEX_URL", index).env("HTTP_PROXY", proxy).env("NO_PROXY", without);
        command.output().unwrap().status.success()
    };
    assert!(install("http://index.invalid/simple", server, ""));
    assert!(install(&user.index, "http://127.0.0.1:9", "127.0.0.1"));
    assert!(!install(&user.index, "http://127.0.0.1:9", ""));
}

#[test]
fn known_plugins() {
    let table = User::new("known").text(&["install", "--known"]);
    for name in ["xla-cpu", "cuda13", "cuda12", "tpu", "rocm7", "oneapi", "neuron", "tt"] {
        assert!(table.lines().any(|line| line.split_whitespace().next() == Some(name)), "{name}: {table}");
    }
}

#[test]
fn two_at_once() {
    let user = User::new("twice");
    let processes: Vec<_> = (0..3)
        .map(|_| {
            user.command(&["install", "acme-pjrt", "--json"]).stdout(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut new = 0;
    for process in processes {
        let output = process.wait_with_output().unwrap();
        let json: Value = serde_json::from_slice(&output.stdout).unwrap();
        new += usize::from(json["unchanged"] == json!(false));
    }
    assert_eq!(new, 1);
    user.text(&["devices", "--plugin", "acme-pjrt"]);
}

/// Installs into a file system of 100 kB, which a process without privileges can create only in namespaces of its own.
#[cfg(target_os = "linux")]
#[test]
fn full_disk() {
    let user = User::new("full");
    let disk = user.home.join("disk");
    fs::create_dir(&disk).unwrap();
    let run = |script: &str| {
        let script = format!("mount -t tmpfs -o size=100k tmpfs \"$DISK\" && {script}");
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
        command.env("DISK", &disk).env("HOME", &user.home).env("PIP_INDEX_URL", &user.index);
        command.env("PJRT", env!("CARGO_BIN_EXE_pjrt")).output()
    };
    if !run("true").is_ok_and(|output| output.status.success()) {
        println!("SKIPPED full_disk: this process cannot create namespaces");
        return;
    }
    for folders in ["--to \"$DISK/plugins\"", "--cache \"$DISK/cache\""] {
        let output = run(&format!("! \"$PJRT\" install acme-pjrt {folders} && find \"$DISK\" -type f")).unwrap();
        let message = user.plain(&output.stderr);
        assert!(output.status.success() && message.contains("free some space"), "{message}");
        // Only the lock is left.
        assert!(String::from_utf8_lossy(&output.stdout).lines().all(|file| file.ends_with("/.lock")), "{output:?}");
    }
    assert!(!user.installed().join("acme-pjrt").exists());
}
