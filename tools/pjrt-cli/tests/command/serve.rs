//! Tests `pjrt serve`. The clients are tests of `pjrt-remote` and of `tests/jax`.
#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn serve(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pjrt"));
    command.arg("serve").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Returns the message of a server that does not start.
fn refused(arguments: &[&str]) -> String {
    let output = serve(arguments).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn server_announces_its_address_and_ends_at_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("private/socket");
    let address = format!("unix:{}", socket.display());
    let mut server = serve(&["--listen", &address, "--json"]);
    let mut line = String::new();
    let mut out = BufReader::new(server.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let about: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&about["address"], &about["plugin"]), (&address.as_str().into(), &"cpu".into()));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&socket), mode(socket.parent().unwrap())), (0o600, 0o700));
    assert!(refused(&["--listen", &address]).contains("cannot listen"), "the address is in use");
    let sent = Command::new("kill").arg(server.id().to_string()).status().unwrap();
    assert!(sent.success());
    assert_eq!(server.wait().unwrap().code(), Some(0));
    let mut rest = String::new();
    out.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
    assert!(!socket.exists());
}

#[test]
fn server_without_its_socket_ends_at_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let mut server = serve(&["--listen", &format!("unix:{}", socket.display())]);
    let mut out = BufReader::new(server.stdout.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    std::fs::remove_file(&socket).unwrap();
    assert!(Command::new("kill").arg(server.id().to_string()).status().unwrap().success());
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = server.try_wait().unwrap() {
            break status;
        }
        if begin.elapsed() > Duration::from_secs(20) {
            server.kill().unwrap();
            panic!("the server does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(0));
}

#[test]
fn tcp_port_needs_a_token_and_the_loopback_interface() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    let token = token.to_str().unwrap();
    assert!(refused(&["--listen", "127.0.0.1:0"]).contains("--token-file"));
    assert!(refused(&["--listen", "0.0.0.0:0", "--token-file", token]).contains("loopback"));
    assert!(refused(&["--listen", "unix:/tmp/socket-of-nobody"]).contains("cannot listen"));
    std::fs::write(token, "a secret that all users can read").unwrap();
    std::fs::set_permissions(token, std::fs::Permissions::from_mode(0o644)).unwrap();
    let error = refused(&["--listen", "127.0.0.1:0", "--token-file", token]);
    assert!(error.contains("other users can read") && error.contains("chmod 600"), "{error}");
}
