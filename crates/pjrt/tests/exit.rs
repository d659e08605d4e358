//! Tests what happens when a client is destroyed or the process ends while operations are pending.

#![allow(clippy::unwrap_used, reason = "a test program")]

#[path = "common/fake.rs"]
mod fake;
#[path = "common/real.rs"]
mod real;

use expect_test::expect;
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use fake::{Fake, plugin_of, table};
use pjrt::{Client, ClientOptions, CompileOptions, ErrorKind, LoadedExecutable, Plugin, Program, Upload};
use pjrt_sys::{PJRT_Client_Destroy_Args, PJRT_Error};
use real::each_plugin;

const NOW: Duration = Duration::ZERO;
/// A timeout that no operation of these tests exceeds.
const LONG: Duration = Duration::from_secs(600);
/// Environment variable that these tests set for their child processes. Its value describes what the child does.
const CHILD: &str = "PJRT_EXIT_CHILD";

fn program(client: &Client) -> LoadedExecutable {
    client.compile(&Program::mlir(""), &CompileOptions::default()).unwrap()
}

fn manual(options: impl FnOnce(ClientOptions) -> ClientOptions) -> (&'static Fake, Client) {
    let fake = Fake::new();
    let client = fake::plugin().client(&options(fake.options())).unwrap();
    fake.manual.store(true, std::sync::atomic::Ordering::SeqCst);
    (fake, client)
}

mod synchronize {
    use super::*;

    #[test]
    fn waits_for_callbacks_and_copies() {
        let (fake, client) = manual(|options| options);
        assert!(client.synchronize(NOW).is_ok(), "nothing is under way");
        let buffer = client.buffer_from_host(&[1u8], &[1]).unwrap();
        buffer.ready_event().unwrap().on_ready(|_| ()).unwrap();
        drop(buffer.download().start::<u8>().unwrap());
        let error = client.synchronize(NOW).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        expect!["2 operations of the client are still pending after 0ns; wait longer, or check what blocks them"]
            .assert_eq(error.message());
        fake.finish();
        client.synchronize(LONG).unwrap();
    }

    #[test]
    fn waits_for_tracked_runs() {
        for tracked in [false, true] {
            let (fake, client) = manual(|options| if tracked { options.with_tracked_runs() } else { options });
            let buffer = client.buffer_from_host(&[1u8], &[1]).unwrap();
            drop(program(&client).execute(&[&buffer]).unwrap());
            assert_eq!(client.synchronize(NOW).is_err(), tracked);
            fake.finish();
            client.synchronize(LONG).unwrap();
        }
    }

    #[test]
    fn does_not_wait_for_lent_memory() {
        let (fake, client) = manual(|options| options);
        let buffer = client.upload(Upload::owned::<u8, _>(vec![1]).dims(&[1])).unwrap();
        client.synchronize(NOW).unwrap();
        fake.finish();
        drop(buffer);
    }

    /// The owner of an adopted client waits for lent memory with `wait_for_lent_memory` before it destroys the client.
    #[test]
    fn lent_memory_has_its_own_wait() {
        let (fake, client) = manual(|options| options);
        client.wait_for_lent_memory(NOW).unwrap();
        drop(client.upload(Upload::owned::<u8, _>(vec![1]).dims(&[1])).unwrap());
        let error = client.wait_for_lent_memory(NOW).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        expect!["the plugin still uses the host memory of 1 uploads after 0ns; drop their buffers first, and wait for the runs that use them"]
            .assert_eq(error.message());
        fake.finish();
        client.wait_for_lent_memory(LONG).unwrap();
    }

    #[test]
    fn is_refused_within_a_callback() {
        let client = Fake::new().client();
        let event = client.buffer_from_host(&[1u8], &[1]).unwrap().ready_event().unwrap();
        let (sender, receiver) = channel();
        event.on_ready(move |_| sender.send(client.synchronize(LONG)).unwrap()).unwrap();
        assert_eq!(receiver.recv().unwrap().unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

mod shutdown {
    use super::*;

    #[test]
    fn destroys_the_last_handle() {
        let fake = Fake::new();
        fake.client().shutdown(LONG).unwrap();
        assert_eq!(*fake.destroyed.lock().unwrap(), ["client"]);
    }

    #[test]
    fn names_other_handles() {
        let client = Fake::new().client();
        let buffer = client.buffer_from_host(&[1u8], &[1]).unwrap();
        let error = client.shutdown(LONG).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        buffer.client();
    }

    #[test]
    fn abandons_hanging_plugin() {
        static RELEASE: Mutex<Option<Receiver<()>>> = Mutex::new(None);
        unsafe extern "C" fn destroy(args: *mut PJRT_Client_Destroy_Args) -> *mut PJRT_Error {
            let receiver = RELEASE.lock().unwrap().take().unwrap();
            receiver.recv().unwrap();
            // SAFETY: the caller passes valid arguments.
            unsafe { table().PJRT_Client_Destroy.unwrap()(args) }
        }
        let (sender, receiver): (Sender<()>, _) = channel();
        *RELEASE.lock().unwrap() = Some(receiver);
        let mut table = table();
        table.PJRT_Client_Destroy = Some(destroy);
        let fake = Fake::new();
        let client = fake.client_of(&plugin_of(table).unwrap());
        let error = client.shutdown(NOW).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout, "{error}");
        sender.send(()).unwrap();
        assert!(fake.all_gone());
    }
}

/// Runs the test `test` of this program in a child process, with [`CHILD`] set to `what`. Returns whether the process
/// succeeded. Also returns a text with its exit status and its output.
fn child(test: &str, what: &str) -> (bool, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", test, "--nocapture"]).env(CHILD, what).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.success(), format!("{}: {text}", output.status))
}

mod process {
    use super::*;

    unsafe extern "C" {
        fn atexit(callback: extern "C" fn()) -> std::ffi::c_int;
    }

    static EXITING: OnceLock<Sender<()>> = OnceLock::new();

    extern "C" fn exiting() {
        println!("the newest exit handler ran");
        // Sending fails if the receiver no longer exists. Ignore this error.
        let _ = EXITING.get().unwrap().send(());
    }

    /// Registers an exit handler. It runs before the handlers of `pjrt`, because it is registered later. Returns a
    /// receiver that receives a message when the handler runs.
    fn exit_handler() -> Receiver<()> {
        let (sender, receiver) = channel();
        EXITING.set(sender).unwrap();
        // SAFETY: the function is part of the program, so it stays mapped until it has run.
        assert_eq!(unsafe { atexit(exiting) }, 0);
        receiver
    }

    fn start_operation() -> &'static Fake {
        let (fake, client) = manual(|options| options);
        let event = client.buffer_from_host(&[1u8], &[1]).unwrap().ready_event().unwrap();
        event.on_ready(|_| println!("the callback ran")).unwrap();
        fake
    }

    /// The exit handler of `pjrt` waits for operations that another thread started.
    #[test]
    fn ends_after_callbacks_of_other_threads() {
        if std::env::var_os(CHILD).is_none() {
            let (success, text) = child("process::ends_after_callbacks_of_other_threads", "fake");
            assert!(success, "{text}");
            let order = ["the newest exit handler ran", "the callback ran"].map(|line| text.find(line));
            assert!(order.is_sorted() && order[0].is_some(), "{text}");
            return;
        }
        let fake = std::thread::spawn(start_operation).join().unwrap();
        let handler = exit_handler();
        std::thread::spawn(move || {
            handler.recv().unwrap();
            fake.finish();
        });
        std::process::exit(0);
    }

    /// If a thread that started operations calls `exit`, the call waits for the operations before any exit handler
    /// runs.
    #[cfg(any(all(target_os = "linux", target_env = "gnu"), target_vendor = "apple"))]
    #[test]
    fn waits_for_its_callbacks_before_exit_handlers() {
        if std::env::var_os(CHILD).is_none() {
            let (success, text) = child("process::waits_for_its_callbacks_before_exit_handlers", "fake");
            assert!(success, "{text}");
            let order = ["the callback ran", "the newest exit handler ran"].map(|line| text.find(line));
            assert!(order.is_sorted() && order[0].is_some(), "{text}");
            return;
        }
        let fake = start_operation();
        let handler = exit_handler();
        std::thread::spawn(move || {
            // Without the wait, the exit handler would run at once.
            assert!(handler.recv_timeout(Duration::from_millis(200)).is_err());
            fake.finish();
        });
        std::process::exit(0);
    }

    /// A thread that ends without calling `exit` does not wait for the operations that it started.
    #[test]
    fn threads_end_without_waiting() {
        pjrt::set_exit_wait(LONG);
        let fake = std::thread::spawn(start_operation).join().unwrap();
        fake.finish();
    }

    #[test]
    fn ends_when_the_time_is_up() {
        if std::env::var_os(CHILD).is_none() {
            let (success, text) = child("process::ends_when_the_time_is_up", "fake");
            assert!(success && !text.contains("the callback ran"), "{text}");
            return;
        }
        pjrt::set_exit_wait(NOW);
        let (_, client) = manual(|options| options);
        let event = client.buffer_from_host(&[1u8], &[1]).unwrap().ready_event().unwrap();
        event.on_ready(|_| println!("the callback ran")).unwrap();
        std::process::exit(0);
    }

    /// Each client registers exit handlers. All handlers together wait no longer than the time limit.
    #[test]
    fn handlers_share_one_limit() {
        const LIMIT: Duration = Duration::from_secs(1);
        const CLIENTS: u32 = 40;
        if std::env::var_os(CHILD).is_some() {
            pjrt::set_exit_wait(LIMIT);
            for _ in 0..CLIENTS {
                start_operation();
            }
            std::process::exit(0);
        }
        let start = Instant::now();
        let (success, text) = child("process::handlers_share_one_limit", "fake");
        assert!(success && start.elapsed() < LIMIT * CLIENTS / 2, "{:?}: {text}", start.elapsed());
    }

    /// Names of the actions of a child process while its runs are pending. The process then ends. Unless the name
    /// starts with `untracked`, the client tracks runs. If it starts with `untracked`, `pjrt` counts only the callbacks
    /// and copies that wait for runs as pending.
    const WAYS: [&str; 9] = [
        "on_ready",
        "download",
        "static",
        "forget",
        "exit",
        "shutdown",
        "untracked on_ready",
        "untracked download",
        "untracked shutdown",
    ];

    #[test]
    fn real_plugins_survive_exit_with_pending_work() {
        if let Ok(what) = std::env::var(CHILD) {
            let (way, path) = what.split_once(':').unwrap();
            return pending(way, path);
        }
        each_plugin("real_plugins_survive_exit_with_pending_work", |plugin| {
            let path = plugin.path().unwrap().to_str().unwrap();
            for way in WAYS {
                for round in 0..4 {
                    let what = format!("{way}:{path}");
                    let (success, text) = child("process::real_plugins_survive_exit_with_pending_work", &what);
                    assert!(success, "{what}, round {round}: {text}");
                }
            }
        });
    }

    /// Starts runs of the plugin at `path`, and ends this process while they are pending. `way` is one of [`WAYS`].
    fn pending(way: &str, path: &str) {
        const SQUARE: &str = "
        func.func @main(%x: tensor<512x512xf32>) -> tensor<512x512xf32> {
          %0 = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0]
            : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
          return %0 : tensor<512x512xf32>
        }";
        // SAFETY: whoever runs the tests vouches for the plugins in `PJRT_TEST_PLUGINS`.
        let plugin = unsafe { Plugin::load(path) }.unwrap();
        let options = ClientOptions::new();
        let (way, options) = match way.strip_prefix("untracked ") {
            Some(way) => (way, options),
            None => (way, options.with_tracked_runs()),
        };
        let client = plugin.client(&options).unwrap();
        let square = client.compile(&Program::mlir(SQUARE), &CompileOptions::default()).unwrap();
        let mut x = client.buffer_from_host(&vec![0.001f32; 512 * 512], &[512, 512]).unwrap();
        for _ in 0..10 {
            x = square.execute(&[&x]).unwrap().pop().unwrap();
        }
        match way {
            "on_ready" => x.ready_event().unwrap().on_ready(|_| ()).unwrap(),
            "download" => drop(x.download().start::<f32>().unwrap()),
            "static" => {
                static KEPT: OnceLock<(Client, pjrt::Buffer)> = OnceLock::new();
                assert!(KEPT.set((client, x)).is_ok());
            }
            "forget" => std::mem::forget((client, x)),
            "exit" => {}
            _ => {
                drop((square, x));
                client.shutdown(LONG).unwrap();
            }
        }
        std::process::exit(0);
    }
}

mod limits {
    use pjrt::DeviceAssignment;

    use super::*;

    /// If `pjrt` passes the largest counts that it accepts, the plugin returns a result or an error, and the process
    /// does not abort.
    #[test]
    fn real_plugins_survive_accepted_counts() {
        if let Ok(path) = std::env::var(CHILD) {
            // SAFETY: whoever runs the tests vouches for the plugins in `PJRT_TEST_PLUGINS`.
            let plugin = unsafe { Plugin::load(path) }.unwrap();
            return ask(&plugin);
        }
        each_plugin("real_plugins_survive_accepted_counts", |plugin| {
            let path = plugin.path().unwrap().to_str().unwrap();
            let (success, text) = child("limits::real_plugins_survive_accepted_counts", path);
            assert!(success && text.contains("all were answered"), "{path}: {text}");
        });
    }

    fn ask(plugin: &Plugin) {
        let client = plugin.client(&ClientOptions::new().with("cpu_device_count", 2)).unwrap();
        let program = Program::mlir(
            "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }".to_owned().into_bytes(),
        );
        // XLA splits the compilation of this program, and rewrites its windows.
        let scan = Program::mlir(
            r#"func.func @main(%x: tensor<64x64xf32>) -> tensor<64x64xf32> {
              %zero = stablehlo.constant dense<0.0> : tensor<f32>
              %sums = "stablehlo.reduce_window"(%x, %zero) ({
              ^bb0(%a: tensor<f32>, %b: tensor<f32>):
                %sum = stablehlo.add %a, %b : tensor<f32>
                stablehlo.return %sum : tensor<f32>
              }) {window_dimensions = array<i64: 1, 64>, window_strides = array<i64: 1, 1>,
                  padding = dense<[[0, 0], [63, 0]]> : tensor<2x2xi64>}
                : (tensor<64x64xf32>, tensor<f32>) -> tensor<64x64xf32>
              return %sums : tensor<64x64xf32>
            }"#,
        );
        let options = CompileOptions::default;
        let assigned = |id| DeviceAssignment::new(1, 1, vec![id]).unwrap();
        for options in [
            options().with_device_ordinal(i64::from(i32::MAX)),
            options().with_device_ordinal(2),
            options().with_device_assignment(assigned(i64::from(i32::MAX))),
            options().with_num_replicas(1 << 20),
            options().with_num_partitions(1 << 20),
            options().with_num_replicas(1 << 10).with_num_partitions(1 << 10),
        ] {
            println!("{options:?}");
            let answer = client.compile(&program, &options);
            println!("{:?}", answer.map(drop).map_err(|error| error.to_string()));
        }
        println!("{:?}", client.compile_with_raw_options(&program, &[0x20, 1]).map(drop));
        // Numbers of XLA's debug options, as overrides and as the fields 323 and 293 of the encoded options.
        let overridden = |name, number| options().with_option_override(name, number);
        for name in ["xla_cpu_parallel_codegen_split_count", "xla_reduce_window_rewrite_base_length"] {
            for number in [-1i64, i64::from(i32::MIN), 0, 1000] {
                println!("{name}={number}");
                println!("{:?}", client.compile(&scan, &overridden(name, number)).map(drop));
                println!(
                    "{:?}",
                    client.compile(&scan, &options().with_option_override(name, number.to_string())).map(drop)
                );
            }
        }
        for key in [[0x98, 0x14], [0xa8, 0x12]] {
            let mut bytes = options().encode();
            bytes.extend([0x1a, 14, 0x1a, 12]);
            bytes.extend(key);
            bytes.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1]);
            println!("{key:?}");
            println!("{:?}", client.compile_with_raw_options(&scan, &bytes).map(drop));
        }
        println!("{:?}", client.default_device_assignment(1 << 20, 1).map(drop));
        println!("all were answered");
    }
}
