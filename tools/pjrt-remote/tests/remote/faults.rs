//! Faults of processes.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pjrt::{ClientOptions, CompileOptions, ErrorCode, Program};

use crate::server::{Started, add_one, plugin};

/// The variable with the address to which a process connects instead of running the tests.
const CONNECT: &str = "PJRT_REMOTE_TEST_CONNECT";
/// The variable with which this process ends after some launches.
const EXIT: &str = "PJRT_REMOTE_TEST_EXIT";
/// Time in which a fault must have its effect.
const SOON: Duration = Duration::from_secs(5);

#[test]
fn killed_server_fails_all_handles_soon() {
    let mut server = Started::unix();
    let client = server.client();
    let add_one = add_one(&client);
    let x = client.buffer_from_host(&[1.0f32; 4], &[4]).unwrap();
    x.wait().unwrap();
    let begin = Instant::now();
    server.kill();
    let fails = |result: Result<(), pjrt::Error>| {
        let error = result.unwrap_err();
        assert_eq!(error.code(), ErrorCode::UNAVAILABLE, "{error}");
        assert!(error.message().contains(&server.address), "{error}");
    };
    fails(x.to_host::<f32>().map(drop));
    fails(add_one.execute(&[&x]).map(drop));
    fails(client.buffer_from_host(&[1.0f32; 4], &[4]).and_then(|buffer| buffer.wait()));
    fails(x.copy_to(&client.devices().unwrap()[1]).and_then(|buffer| buffer.wait()));
    fails(client.default_device().unwrap().memory_stats().map(drop));
    drop((x, add_one, client));
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
}

#[test]
fn server_killed_during_a_chain_of_launches() {
    let mut server = Started::unix();
    let client = server.client();
    let add_one = add_one(&client);
    let chain = std::thread::spawn(move || {
        let mut x = client.buffer_from_host(&[1.0f32; 4], &[4]).unwrap();
        loop {
            match add_one.execute(&[&x]) {
                Ok(outputs) => x = outputs.into_iter().next().unwrap(),
                Err(error) => return (error.code(), x.to_host::<f32>().unwrap_err().code()),
            }
        }
    });
    std::thread::sleep(Duration::from_millis(200));
    server.kill();
    let begin = Instant::now();
    assert_eq!(chain.join().unwrap(), (ErrorCode::UNAVAILABLE, ErrorCode::UNAVAILABLE));
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
}

#[test]
fn killed_client_frees_its_memory() {
    if let Ok(address) = std::env::var(CONNECT) {
        return launch_programs(&address);
    }
    let server = Started::unix();
    let observer = server.client();
    let before = Started::bytes_in_use(&observer);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "faults::killed_client_frees_its_memory"]);
    let mut client = command.env(CONNECT, &server.address).stdout(Stdio::null()).spawn().unwrap();
    let wait_for = |what: &str, condition: &dyn Fn(i64) -> bool| {
        let begin = Instant::now();
        while !condition(Started::bytes_in_use(&observer)) {
            assert!(begin.elapsed() < 4 * SOON, "{what}: {} bytes in use", Started::bytes_in_use(&observer));
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    wait_for("the client allocates", &|bytes| bytes >= before + (16 << 20));
    client.kill().unwrap();
    client.wait().unwrap();
    wait_for("the server frees", &|bytes| bytes == before);
}

/// Holds an array of 16 MiB and launches programs, until the process is killed or ends by itself.
fn launch_programs(address: &str) {
    let options = ClientOptions::new().with("address", address);
    let client = plugin().client(&options).unwrap();
    let program = Program::mlir(
        "func.func @main(%x: tensor<f32>) -> tensor<4194304xf32> {
           %y = stablehlo.broadcast_in_dim %x, dims = [] : (tensor<f32>) -> tensor<4194304xf32>
           return %y : tensor<4194304xf32>
         }",
    );
    let fill = client.compile(&program, &CompileOptions::default()).unwrap();
    let _held = fill.execute(&[&client.buffer_from_host(&[1.0f32], &[]).unwrap()]).unwrap();
    let add_one = add_one(&client);
    let x = client.buffer_from_host(&[1.0f32; 4], &[4]).unwrap();
    for launches in 1.. {
        let _ = add_one.execute(&[&x]).unwrap();
        if launches == 1000 && std::env::var_os(EXIT).is_some() {
            // The client, its buffers and its launches still exist.
            std::process::exit(0);
        }
    }
}

#[test]
fn process_may_end_with_pending_launches() {
    let server = Started::unix();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "faults::killed_client_frees_its_memory"]);
    for _ in 0..5 {
        let begin = Instant::now();
        let status = command.env(CONNECT, &server.address).env(EXIT, "1").stdout(Stdio::null()).status().unwrap();
        assert!(status.success(), "{status}");
        assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    }
}

/// Returns the numbers of threads and of open files of the server.
#[cfg(target_os = "linux")]
fn resources(server: &Started) -> (usize, usize) {
    let count = |kind: &str| std::fs::read_dir(format!("/proc/{}/{kind}", server.id())).unwrap().count();
    (count("task"), count("fd"))
}

#[cfg(target_os = "linux")]
#[test]
fn many_clients_leave_nothing_in_the_server() {
    let server = Started::unix();
    let visit = || {
        let client = server.client();
        let x = client.buffer_from_host(&[1.0f32; 4], &[4]).unwrap();
        assert_eq!(add_one(&client).execute(&[&x]).unwrap()[0].to_host::<f32>().unwrap(), [2.0; 4]);
    };
    // The plugin starts its own threads for the first client.
    visit();
    let settled = |most: (usize, usize)| {
        let begin = Instant::now();
        loop {
            let (threads, files) = resources(&server);
            if threads <= most.0 && files <= most.1 {
                return (threads, files);
            }
            assert!(begin.elapsed() < SOON, "{threads} threads and {files} files, instead of {most:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    std::thread::sleep(Duration::from_millis(100));
    let before = resources(&server);
    (0..200).for_each(|_| visit());
    settled(before);
}

#[test]
fn absent_server_is_an_error_with_a_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let address = format!("unix:{}/none", folder.path().display());
    let error = plugin().client(&ClientOptions::new().with("address", address.as_str())).unwrap_err();
    assert_eq!(error.code(), ErrorCode::UNAVAILABLE);
    assert!(error.message().contains(&address) && error.message().contains("pjrt serve"), "{error}");
    let error = plugin().client(&ClientOptions::new()).unwrap_err();
    assert!(error.message().contains("PJRT_REMOTE"), "{error}");
    let error = plugin().client(&ClientOptions::new().with("address", "203.0.113.1:7000")).unwrap_err();
    assert!(error.message().contains("loopback"), "{error}");
}

#[test]
fn server_removes_only_its_own_socket() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let address = pjrt_remote::Address::Unix(path.clone());
    let plugin = pjrt::Plugin::from_static(pjrt_cpu::Cpu::api()).unwrap();
    let server = pjrt_remote::Server::new(plugin.client(&ClientOptions::new()).unwrap(), Default::default()).unwrap();
    let first = server.bind(&address, None).unwrap();
    std::fs::remove_file(&path).unwrap();
    let error = server.bind(&address, None).unwrap_err();
    assert!(error.to_string().contains("another server"), "{error}");
    drop(first);
    let second = server.bind(&address, None).unwrap();
    assert!(path.exists());
    drop(second);
    assert!(!path.exists());
}

#[test]
fn other_files_are_not_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("private");
    std::fs::create_dir(&path).unwrap();
    let file = path.join("notes");
    std::fs::write(&file, "mine").unwrap();
    let plugin = pjrt::Plugin::from_static(pjrt_cpu::Cpu::api()).unwrap();
    let server = pjrt_remote::Server::new(plugin.client(&ClientOptions::new()).unwrap(), Default::default()).unwrap();
    let error = server.bind(&pjrt_remote::Address::Unix(file.clone()), None).unwrap_err();
    assert!(error.to_string().contains("is not a socket"), "{error}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "mine");
}
