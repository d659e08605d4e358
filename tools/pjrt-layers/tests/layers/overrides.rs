//! Tests of the layer `override`: saved and replaced programs, hidden devices, changed values of queries, and
//! synchronous calls.

use std::fs;
use std::path::{Path, PathBuf};

use expect_test::expect;
use pjrt::{Client, ClientOptions, CompileOptions, Plugin, Program};
use pjrt_layers::compat::Compat;
use pjrt_layers::overrides::{Override, Programs};
use pjrt_layers::{Instance, Layer, Stack, instance};

use crate::setup::{self, embedded};

const DOUBLE: &str = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.add %x, %x : tensor<2xf32>
    return %0 : tensor<2xf32>
}";

const SQUARE: &str = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    %0 = stablehlo.multiply %x, %x : tensor<2xf32>
    return %0 : tensor<2xf32>
}";

/// Starts the layer between the layer `compat` and the embedded device.
fn plugin<I: Instance>(layer: Override) -> Plugin {
    // `Compat` also replaces arguments of calls, so this tests the combination of the two layers.
    let layers: Vec<Box<dyn Layer>> = vec![Box::new(Compat::default()), Box::new(layer)];
    Plugin::from_static(Stack::start::<I>(embedded(), layers)).unwrap()
}

fn client<I: Instance>(layer: Override, devices: i64) -> Client {
    plugin::<I>(layer).client(&ClientOptions::new().with("device_count", devices)).unwrap()
}

fn run(client: &Client, text: &str) -> Result<Vec<f32>, pjrt::Error> {
    let executable = client.compile(&Program::mlir(text), &CompileOptions::default())?;
    let input = client.buffer_from_host(&[3_f32, 5.0], &[2])?;
    executable.execute(&[&input])?[0].to_host::<f32>()
}

fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("override-{test}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn names(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names
}

mod programs {
    use super::*;

    #[test]
    fn are_saved_with_their_options() {
        instance!(Saved);
        let folder = folder("saved");
        let client = client::<Saved>(Override::new(Programs::new(Some(folder.clone()), None)), 1);
        run(&client, DOUBLE).unwrap();
        run(&client, SQUARE).unwrap();
        let names = names(&folder);
        assert_eq!(names.len(), 4, "{names:?}");
        assert!(names[0].starts_with("program-1-") && names[0].ends_with(".compile-options.pb"), "{names:?}");
        let saved = fs::read(folder.join(&names[1])).unwrap();
        // The framework may convert the program to bytecode before it compiles the program.
        assert!(names[1].ends_with(".mlir") || names[1].ends_with(".mlirbc"), "{names:?}");
        let text = fs::read(folder.join(&names[3])).unwrap();
        assert_ne!(saved, text);
        assert!(!fs::read(folder.join(&names[0])).unwrap().is_empty());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn are_replaced_by_number_or_hash() {
        instance!(First);
        instance!(Numbered);
        instance!(Hashed);
        instance!(Other);
        let (saved, other) = (folder("by-saved"), folder("by-other"));
        let double = client::<First>(Override::new(Programs::new(Some(saved.clone()), None)), 1);
        assert_eq!(run(&double, DOUBLE).unwrap(), [6.0, 10.0]);

        // The file `program-1.mlir` replaces the first program, regardless of the program's hash.
        fs::write(other.join("program-1.mlir"), SQUARE).unwrap();
        let numbered = client::<Numbered>(Override::new(Programs::new(None, Some(other.clone()))), 1);
        assert_eq!(run(&numbered, DOUBLE).unwrap(), [9.0, 25.0]);
        assert_eq!(run(&numbered, DOUBLE).unwrap(), [6.0, 10.0], "the second program has no replacement");
        fs::remove_file(other.join("program-1.mlir")).unwrap();

        // A file with the hash of a saved program replaces this program, regardless of the program's number.
        let name = names(&saved).into_iter().find(|name| name.contains(".mlir")).unwrap();
        let (stem, _) = name.split_once('.').unwrap();
        fs::write(other.join(format!("{stem}.mlir")), SQUARE).unwrap();
        let hashed = client::<Hashed>(Override::new(Programs::new(None, Some(other.clone()))), 1);
        let other_text = DOUBLE.replace("add", "subtract");
        assert_eq!(run(&hashed, &other_text).unwrap(), [0.0, 0.0], "the hash differs");
        assert_eq!(run(&hashed, DOUBLE).unwrap(), [9.0, 25.0], "its hash");

        // Two files with the hash of the same program are an error.
        let hash = stem.rsplit('-').next().unwrap();
        fs::rename(other.join(format!("{stem}.mlir")), other.join(format!("a-{hash}.mlir"))).unwrap();
        fs::write(other.join(format!("b-{hash}.mlir")), SQUARE).unwrap();
        let twice = client::<Other>(Override::new(Programs::new(None, Some(other.clone()))), 1);
        let error = run(&twice, DOUBLE).unwrap_err().to_string();
        let error = error.replace(other.to_str().unwrap(), "FOLDER").replace(hash, "HASH");
        expect!["PJRT_Client_Compile: FAILED_PRECONDITION: layer `override`: FOLDER/a-HASH.mlir and FOLDER/b-HASH.mlir would both replace program-1, whose hash is HASH: remove one of them"]
            .assert_eq(&error);
        fs::remove_dir_all(saved).unwrap();
        fs::remove_dir_all(other).unwrap();
    }

    #[test]
    fn unknown_ending_is_an_error() {
        instance!(Ending);
        let folder = folder("ending");
        fs::write(folder.join("program-1.txt"), SQUARE).unwrap();
        let client = client::<Ending>(Override::new(Programs::new(None, Some(folder.clone()))), 1);
        let error = run(&client, DOUBLE).unwrap_err();
        assert_eq!(error.code(), pjrt::ErrorCode::FAILED_PRECONDITION);
        let error = error.to_string().replace(folder.to_str().unwrap(), "FOLDER");
        expect!["PJRT_Client_Compile: FAILED_PRECONDITION: layer `override`: FOLDER/program-1.txt does not have the ending of a program; rename it to end with .mlir, .mlirbc, .hlo or .hlo_with_config"]
            .assert_eq(&error);
        fs::remove_dir_all(folder).unwrap();
    }
}

mod answers {
    use super::*;

    #[test]
    fn texts_and_version() {
        instance!(Texts);
        let mut layer = Override::default();
        layer.platform_name = Some("acme".to_owned());
        layer.platform_version = Some("acme 7".to_owned());
        layer.device_kind = Some("acme model 1".to_owned());
        layer.api_version = Some((0, 99));
        let plugin = plugin::<Texts>(layer);
        assert_eq!(plugin.api_version().to_string(), "0.99");
        let client = plugin.client(&ClientOptions::default()).unwrap();
        assert_eq!(client.platform_name().unwrap(), "acme");
        assert_eq!(client.platform_version().unwrap(), "acme 7");
        assert_eq!(client.devices().unwrap()[0].kind().unwrap(), "acme model 1");
        assert_eq!(run(&client, DOUBLE).unwrap(), [6.0, 10.0]);
    }

    #[test]
    fn hidden_devices_are_in_no_list() {
        instance!(First);
        instance!(At);
        let ids =
            |client: &Client| client.devices().unwrap().iter().map(|device| device.id().unwrap()).collect::<Vec<_>>();
        let mut layer = Override::default();
        layer.set_devices("first 2".parse().unwrap());
        let first = client::<First>(layer, 4);
        assert_eq!(ids(&first), [0, 1]);
        assert_eq!(first.addressable_devices().unwrap().len(), 2);
        let mut layer = Override::default();
        layer.set_devices("1,3".parse().unwrap());
        let at = client::<At>(layer, 4);
        assert_eq!(ids(&at), [1, 3]);
        for memory in at.memories().unwrap() {
            for device in memory.devices().unwrap() {
                assert!([1, 3].contains(&device.id().unwrap()), "{device:?}");
            }
        }
    }

    #[test]
    fn memory_of_a_device() {
        instance!(Memory);
        let mut layer = Override::default();
        layer.memory = "bytes_limit=2GiB, num_allocs=7".parse().unwrap();
        let client = client::<Memory>(layer, 1);
        let stats = client.devices().unwrap()[0].memory_stats().unwrap();
        assert_eq!(stats.bytes_limit, Some(2 << 30));
        assert_eq!(stats.num_allocs, Some(7));
    }
}

mod synchronous {
    use std::ptr::without_provenance_mut;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use pjrt_sys::{AbiStruct, PJRT_Buffer_CopyRawToHost_Args, PJRT_Error, PJRT_Event_OnReady_Args};

    use super::*;

    /// Whether the work of the fake plugin has ended.
    static ENDED: AtomicBool = AtomicBool::new(false);

    unsafe extern "C" fn copy(args: *mut PJRT_Buffer_CopyRawToHost_Args) -> *mut PJRT_Error {
        ENDED.store(false, Ordering::Release);
        // SAFETY: V1: the test passes arguments of this size, which only this call uses.
        unsafe { (*args).event = without_provenance_mut(0x10) };
        std::ptr::null_mut()
    }

    /// Ends the work after 30 ms, on another thread.
    unsafe extern "C" fn on_ready(args: *mut PJRT_Event_OnReady_Args) -> *mut PJRT_Error {
        // SAFETY: V1: the caller passes arguments of this size.
        let args = unsafe { &*args };
        let (callback, argument) = (args.callback.unwrap(), args.user_arg.expose_provenance());
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            ENDED.store(true, Ordering::Release);
            // SAFETY: C6: this calls the registered callback once, with its argument.
            unsafe { callback(std::ptr::null_mut(), std::ptr::with_exposed_provenance_mut(argument)) };
        });
        std::ptr::null_mut()
    }

    /// Starts a copy. Returns whether the copy has ended when the call returns.
    fn has_ended<I: Instance>(synchronous: bool) -> bool {
        let plugin = setup::fake(117, |table| {
            table.PJRT_Buffer_CopyRawToHost = Some(copy);
            table.PJRT_Event_OnReady = Some(on_ready);
        });
        let mut layer = Override::default();
        layer.synchronous = synchronous;
        let api = Stack::start::<I>(plugin, vec![Box::new(layer)]);
        let mut args = PJRT_Buffer_CopyRawToHost_Args::new();
        let function = setup::table(api).PJRT_Buffer_CopyRawToHost.unwrap();
        // SAFETY: C2: `new` has set the struct's size, and the fake plugin reads no handle.
        assert!(unsafe { function(&raw mut args) }.is_null());
        assert_eq!(args.event.addr(), 0x10);
        ENDED.load(Ordering::Acquire)
    }

    #[test]
    fn call_returns_after_its_work() {
        instance!(Synchronous);
        instance!(Asynchronous);
        assert!(has_ended::<Synchronous>(true));
        assert!(!has_ended::<Asynchronous>(false));
    }

    #[test]
    fn programs_run() {
        instance!(Runs);
        let mut layer = Override::default();
        layer.synchronous = true;
        assert_eq!(run(&client::<Runs>(layer, 1), DOUBLE).unwrap(), [6.0, 10.0]);
    }
}

#[test]
fn nothing_changes_without_a_setting() {
    instance!(Nothing);
    let layer = Override::default();
    assert!(layer.is_empty());
    let client = client::<Nothing>(layer, 2);
    assert_eq!(client.devices().unwrap().len(), 2);
    assert_eq!(run(&client, DOUBLE).unwrap(), [6.0, 10.0]);
}
