//! Tests `pjrt serve`. The clients are tests of `pjrt-remote` and of `tests/jax`.
#![cfg(unix)]
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use pjrt::{Client, ClientOptions, CompileOptions, ErrorCode, LoadedExecutable, Plugin, Program};

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

/// Starts a server at a socket in a folder, and returns it with its address when it is ready.
fn started(folder: &Path, arguments: &[&str]) -> (Child, String, BufReader<ChildStdout>) {
    let address = format!("unix:{}", folder.join("socket").display());
    let mut server = serve(&[&["--listen", &address, "--json"], arguments].concat());
    let mut out = BufReader::new(server.stdout.take().unwrap());
    out.read_line(&mut String::new()).unwrap();
    (server, address, out)
}

fn end(mut server: Child) {
    assert!(Command::new("kill").arg(server.id().to_string()).status().unwrap().success());
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

fn connect(address: &str) -> Result<Client, pjrt::Error> {
    let plugin = Plugin::from_static(pjrt_remote::Remote::api()).unwrap();
    plugin.client(&ClientOptions::new().with("address", address))
}

fn add_one(client: &Client) -> Result<LoadedExecutable, pjrt::Error> {
    let program = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
        %one = stablehlo.constant dense<1.0> : tensor<4xf32>
        %y = stablehlo.add %x, %one : tensor<4xf32>
        return %y : tensor<4xf32>
    }";
    client.compile(&Program::mlir(program), &CompileOptions::default())
}

/// Returns the process with the plugin.
#[cfg(target_os = "linux")]
fn worker(server: &Child) -> Option<String> {
    let children = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", server.id())).unwrap();
    children.split_whitespace().next().map(str::to_owned)
}

#[cfg(target_os = "linux")]
#[test]
fn killed_plugin_fails_all_handles_and_starts_again() {
    let folder = tempfile::tempdir().unwrap();
    let (server, address, _out) = started(folder.path(), &[]);
    for round in 0..6 {
        // Waits until the plugin is ready again.
        let client = connect(&address).unwrap();
        let add_one = add_one(&client).unwrap();
        let x = client.buffer_from_host(&[0.0f32; 4], &[4]).unwrap();
        let launch = || loop {
            if let Err(error) = add_one.execute(&[&x]).and_then(|outputs| outputs[0].to_host::<f32>()) {
                return (error.code(), Instant::now());
            }
        };
        let (begin, (code, end)) = std::thread::scope(|scope| {
            let launches = scope.spawn(launch);
            std::thread::sleep(Duration::from_millis(7 * round * round));
            let begin = Instant::now();
            assert!(Command::new("kill").args(["-9", &worker(&server).unwrap()]).status().unwrap().success());
            (begin, launches.join().unwrap())
        });
        assert_eq!(code, ErrorCode::UNAVAILABLE);
        assert!(end - begin < Duration::from_secs(1), "{:?}", end - begin);
        assert_eq!(x.to_host::<f32>().unwrap_err().code(), ErrorCode::UNAVAILABLE);
        assert_eq!(add_one.execute(&[&x]).map(drop).unwrap_err().code(), ErrorCode::UNAVAILABLE);
    }
    assert!(connect(&address).is_ok());
    end(server);
}

#[test]
fn clients_see_the_chosen_devices_only() {
    let folder = tempfile::tempdir().unwrap();
    let (server, address, _out) = started(folder.path(), &["--option", "device_count=4", "--devices", "3,1"]);
    let client = connect(&address).unwrap();
    let ids = |devices: &[pjrt::Device]| devices.iter().map(|device| device.id().unwrap()).collect::<Vec<_>>();
    assert_eq!(ids(&client.devices().unwrap()), [3, 1]);
    for memory in client.memories().unwrap() {
        assert!(ids(&memory.devices().unwrap()).iter().all(|id| [3, 1].contains(id)));
    }
    let x = client.buffer_from_host(&[1.0f32; 4], &[4]).unwrap();
    let y = add_one(&client).unwrap().execute(&[&x]).unwrap().into_iter().next().unwrap();
    assert_eq!((y.to_host::<f32>().unwrap(), y.device().unwrap().id().unwrap()), (vec![2.0; 4], 3));
    // A program that names another device.
    let assignment = pjrt::DeviceAssignment::new(1, 1, vec![0]).unwrap();
    let options = CompileOptions::default().with_device_assignment(assignment);
    let same = Program::mlir("func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }");
    assert!(client.compile(&same, &options).is_err());
    end(server);
    let error = refused(&["--listen", &address, "--devices", "7"]);
    assert!(error.contains("no device 7"), "{error}");
}

#[test]
fn status_creates_no_token() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("missing/token");
    let error = refused(&["--status", "--listen", "127.0.0.1:1", "--token-file", token.to_str().unwrap()]);
    assert!(error.contains("missing/token: No such file"), "{error}");
    assert!(!token.parent().unwrap().exists());
}

#[test]
fn command_runs_with_the_plugin_in_another_process() {
    let isolated = |script: &str| {
        let mut command = Command::new("sh");
        // All users may write to folders that get no mode.
        command.args(["-c", "umask 0; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_pjrt")]);
        command.args(["with", "--plugin", "cpu", "--isolate", "--", "sh", "-c", script]);
        // The command does not load the library.
        command.env("PJRT_REMOTE_LIBRARY", env!("CARGO_BIN_EXE_pjrt")).output().unwrap()
    };
    let script = format!("echo $PJRT_REMOTE $JAX_PLATFORMS; {} devices -p remote; exit 3", env!("CARGO_BIN_EXE_pjrt"));
    let output = isolated(&script);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3), "{text}");
    let (variables, devices) = text.split_once('\n').unwrap();
    let (address, platform) = variables.split_once(' ').unwrap();
    assert_eq!(platform, "pjrt_cpu");
    assert!(devices.contains("cpu"), "{devices}");
    assert!(!Path::new(address.strip_prefix("unix:").unwrap()).exists(), "the server still runs");
    assert_eq!(isolated("kill -9 $$").status.code(), Some(137));
}

#[test]
fn doctor_reports_an_absent_server_as_a_note() {
    let doctor = |address: Option<&str>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pjrt"));
        command.args(["doctor", "--plugin", "remote", "--json"]).env_remove("PJRT_REMOTE");
        let output = command.envs(address.map(|address| ("PJRT_REMOTE", address))).output().unwrap();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let checks = report["plugins"][0]["checks"].as_array().unwrap().clone();
        (output.status.code(), checks)
    };
    let (code, checks) = doctor(None);
    assert_eq!(code, Some(0), "{checks:?}");
    let note = checks.iter().find(|check| check["check"] == "server").unwrap();
    assert_eq!(note["verdict"], "note");
    assert!(note["found"].as_str().unwrap().contains("set PJRT_REMOTE"), "{note}");
    let folder = tempfile::tempdir().unwrap();
    let (server, address, _out) = started(folder.path(), &[]);
    let (code, checks) = doctor(Some(&address));
    assert_eq!(code, Some(0), "{checks:?}");
    assert!(checks.iter().any(|check| check["check"] == "client" && check["verdict"] == "ok"), "{checks:?}");
    end(server);
    let (code, checks) = doctor(Some(&address));
    assert_eq!(code, Some(1), "{checks:?}");
}

#[test]
fn tls_port_serves_clients_that_know_its_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let data = |name: &str| format!("{}/../pjrt-remote/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let (certificate, key) = (data("certificate.pem"), data("key.pem"));
    let token = folder.path().join("token");
    let token = token.to_str().unwrap();
    let tls = ["--token-file", token, "--tls-cert", &certificate, "--tls-key", &key];
    // With TLS, the port may be beyond the loopback interface.
    let mut server = serve(&[&["--listen", "0.0.0.0:0", "--json"], &tls[..]].concat());
    let mut out = BufReader::new(server.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    let about: serde_json::Value = serde_json::from_str(&line).unwrap();
    let address = about["address"].as_str().unwrap().replace("0.0.0.0", "127.0.0.1");
    assert!(address.starts_with("tls://127.0.0.1:"), "{address}");
    let connect = |address: &str| {
        let plugin = Plugin::from_static(pjrt_remote::Remote::api()).unwrap();
        plugin.client(&ClientOptions::new().with("address", address).with("token_file", token))
    };
    let client = connect(&address).unwrap();
    let add_one = add_one(&client).unwrap();
    let mut x = client.buffer_from_host(&[0.0f32; 4], &[4]).unwrap();
    for _ in 0..2000 {
        x = add_one.execute(&[&x]).unwrap().into_iter().next().unwrap();
    }
    assert_eq!(x.to_host::<f32>().unwrap(), [2000.0; 4]);
    let data: Vec<u8> = (0..=250).cycle().take(9_000_000).collect();
    let large = client.buffer_from_host(&data, &[9_000_000]).unwrap();
    assert!(large.to_host::<u8>().unwrap() == data);
    // Another certificate, and a client without encryption.
    let (start, fingerprint) = address.split_once("fingerprint=").unwrap();
    let other = if fingerprint.starts_with('0') { "1" } else { "0" };
    assert!(connect(&format!("{start}fingerprint={other}{}", &fingerprint[1..])).is_err());
    let plain = start.trim_start_matches("tls://").trim_end_matches('?');
    assert!(connect(plain).is_err());
    let status = ["--status", "--listen", &address, "--token-file", token];
    let listed = serve(&status).wait_with_output().unwrap();
    assert!(String::from_utf8(listed.stdout).unwrap().starts_with("1 clients"), "{:?}", listed.stderr);
    drop((x, large, add_one, client));
    end(server);
}

#[test]
fn status_lists_what_clients_hold() {
    let folder = tempfile::tempdir().unwrap();
    let (server, address, _out) = started(folder.path(), &[]);
    let status = |arguments: &[&str]| {
        let output = serve(&[&["--status", "--listen", &address], arguments].concat()).wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(status(&[]).starts_with("0 clients"));
    let client = connect(&address).unwrap();
    let x = client.buffer_from_host(&[1.0f32; 1000], &[1000]).unwrap();
    x.wait().unwrap();
    let found: serde_json::Value = serde_json::from_str(&status(&["--json"])).unwrap();
    let [found] = &found["clients"].as_array().unwrap()[..] else { panic!("{found}") };
    assert_eq!((&found["process"], &found["objects"]), (&std::process::id().into(), &1.into()));
    assert_eq!(found["bytes"], 4000);
    assert!(status(&[]).contains("4000"));
    drop((x, client));
    end(server);
    let gone = serve(&["--status", "--listen", &address]).wait_with_output().unwrap();
    assert!(String::from_utf8(gone.stderr).unwrap().contains("cannot connect"));
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

#[cfg(target_os = "linux")]
#[test]
fn only_its_supervisor_ends_the_process_with_the_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let (server, address, _out) = started(folder.path(), &[]);
    let client = connect(&address).unwrap();
    let worker = worker(&server).unwrap();
    let input = std::fs::read_link(format!("/proc/{worker}/fd/0")).unwrap();
    assert_eq!(input, Path::new("/dev/null"));
    for signal in ["-INT", "-TERM"] {
        assert!(Command::new("kill").args([signal, &worker]).status().unwrap().success());
    }
    let x = client.buffer_from_host(&[1.0f32; 4], &[4]).unwrap();
    assert_eq!(x.to_host::<f32>().unwrap(), [1.0; 4]);
    drop((x, client));
    end(server);
    let error = refused(&["--listen", &address, "--clients", "1000000000000"]);
    assert!(error.contains("open files") && error.contains("--clients"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn signals_reach_the_isolated_command() {
    use std::os::unix::process::CommandExt as _;
    let folder = tempfile::tempdir().unwrap();
    let isolated = |script: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pjrt"));
        command.args(["with", "--plugin", "cpu", "--isolate", "--", "sh", "-c", script]);
        command.env("PJRT_REMOTE_LIBRARY", env!("CARGO_BIN_EXE_pjrt")).env("TMPDIR", folder.path());
        // No terminal sends signals to a group of its own.
        command.process_group(0).stdout(Stdio::piped()).spawn().unwrap()
    };
    let kill = |signal: &str, child: &Child| {
        assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap().success());
    };
    let is_empty = || std::fs::read_dir(folder.path()).unwrap().next().is_none();
    for (signal, number) in [("INT", 2), ("TERM", 15)] {
        if crate::conform::ignores(number) {
            // The command would ignore it, too.
            println!("SKIPPED {signal} for an isolated command: this process ignores the signal");
            continue;
        }
        let mut child = isolated(&format!("trap 'exit 7' {signal}; echo ready; while :; do sleep 0.05; done"));
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        kill(&format!("-{signal}"), &child);
        assert_eq!(child.wait().unwrap().code(), Some(7));
        assert!(is_empty());
    }
    // While the server starts.
    let mut child = isolated("exit 3");
    let begin = Instant::now();
    while is_empty() && child.try_wait().unwrap().is_none() {
        assert!(begin.elapsed() < Duration::from_secs(20));
    }
    kill("-TERM", &child);
    let code = child.wait().unwrap().code();
    assert!([Some(143), Some(3)].contains(&code), "{code:?}");
    assert!(is_empty(), "the folder is left");
}
