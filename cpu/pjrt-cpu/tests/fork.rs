//! Tests a process that is forked from a process with a client. In the child, no call may wait for threads that exist
//! only in the parent.
#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::process::Command;

use pjrt::{
    AsyncHostToDeviceTransferManager, Client, ClientOptions, CompileOptions, ElementType, Error, Plugin, Program, Shape,
};
use pjrt_cpu::Cpu;

const CHILD: &str = "PJRT_CPU_TEST_FORK";

/// A program that multiplies matrices on several threads.
const LARGE: &str = "
func.func @main(%x: tensor<700x700xf32>) -> tensor<700x700xf32> {
  %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
    : (tensor<700x700xf32>, tensor<700x700xf32>) -> tensor<700x700xf32>
  return %0 : tensor<700x700xf32>
}";

const SMALL: &str = "
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %x, %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}";

fn client() -> Client {
    Plugin::from_static(Cpu::api()).unwrap().client(&ClientOptions::new()).unwrap()
}

fn large(client: &Client) -> f32 {
    let x = client.buffer_from_host(&vec![1.0f32; 700 * 700], &[700, 700]).unwrap();
    let program = client.compile(&Program::mlir(LARGE), &CompileOptions::default()).unwrap();
    program.execute(&[&x]).unwrap()[0].to_host::<f32>().unwrap()[0]
}

/// Reports to the parent how a call in the child ended.
fn outcome<T>(name: &str, result: Result<T, Error>) {
    match result {
        Ok(_) => eprintln!("child {name}: no error"),
        Err(error) => {
            let helps = error.message().contains("forked") && error.message().contains("spawn");
            eprintln!("child {name}: {} {helps}", error.code());
        }
    }
}

fn parent_and_child() {
    let client = client();
    let compile = |text| client.compile(&Program::mlir(text), &CompileOptions::default());
    let (small, program) = (compile(SMALL).unwrap(), compile(LARGE).unwrap());
    assert_eq!(large(&client), 700.0);
    let x = client.buffer_from_host(&[1.0f32; 4], &[4]).unwrap();
    let y = client.buffer_from_host(&vec![1.0f32; 700 * 700], &[700, 700]).unwrap();
    // Create an array whose data never arrives.
    let memory = client.default_device().unwrap().default_memory().unwrap();
    let manager = AsyncHostToDeviceTransferManager::new(&memory, &[Shape::new(ElementType::F32, [4])]).unwrap();
    let pending = manager.retrieve_buffer(0).unwrap();
    // SAFETY: the C library's own locks are in order in the child, and the locks of this program are what is tested.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        // The alarm turns an endless wait into a signal, which the parent detects. SAFETY: it sets a timer.
        unsafe { libc::alarm(300) };
        outcome("compile", compile(SMALL));
        outcome("upload", client.buffer_from_host(&[1.0f32; 4], &[4]));
        outcome("execute small", small.execute(&[&x]));
        outcome("execute large", program.execute(&[&y]));
        // The child has a copy of the elements, and `pjrt` reads them without starting a transfer.
        outcome("download", x.to_host::<f32>());
        let read = x.download().start::<f32>().and_then(pjrt::HostRead::wait);
        outcome("asynchronous download", read);
        outcome("copy", x.copy_to(&client.default_device().unwrap()));
        outcome("pending event", pending.ready_event().and_then(|event| event.wait()));
        outcome("pending download", pending.to_host::<f32>());
        eprintln!("child own client: {}", large(&self::client()));
        // SAFETY: `_exit` ends the process without running destructors, which belong to the parent.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: the pointer refers to a number that may be written.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0, "the child ended by a signal or an error; 14 is a wait without end");
    assert_eq!(x.to_host::<f32>().unwrap(), [1.0; 4]);
    assert_eq!(large(&client), 700.0);
}

#[test]
fn forked_process_needs_own_client() {
    if std::env::var_os(CHILD).is_some() {
        return parent_and_child();
    }
    let name = "forked_process_needs_own_client";
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", name, "--nocapture"]).env(CHILD, "1").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}", output.status);
    let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("child ")).collect();
    let refused = |call| format!("{call}: FAILED_PRECONDITION true");
    let mut expected: Vec<_> = ["compile", "upload", "execute small", "execute large"].map(refused).into();
    expected.push("download: no error".to_owned());
    expected.extend(["asynchronous download", "copy"].map(refused));
    expected.extend(["pending event", "pending download"].map(refused));
    expected.push("own client: 700".to_owned());
    assert_eq!(lines, expected, "{text}");
}
