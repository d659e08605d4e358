//! Tests that recordings of strangers cannot crash, block or exhaust `pjrt record` and `pjrt replay`, or misuse them.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use pjrt::CompileOptions;
use pjrt_record::{
    Arguments, ArrayType, Body, BufferList, ClientCreate, ClientDescription, Compile, Content, Contents, Copy,
    CreateBuffer, CreateManager, End, ExecutableDescription, Execute, Fulfill, Layout, MemoryLayout, NamedOption,
    Object, Outcome, Retrieve, Snapshot, Tiled, Transfer, Upload, Value as OptionValue,
};
use serde_json::Value;

use crate::recordings::{Recording, bytes};

/// Address space of a command in KiB. The command itself needs about 256 MiB of it.
const MEMORY: u32 = 1 << 20;

/// Runs `pjrt` with limited memory.
fn pjrt(words: &[&str]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {MEMORY}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_pjrt")]).args(words);
    command.env("PJRT_REGISTRY_LOCK_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile-locks"));
    command.output().unwrap()
}

fn json(words: &[&str]) -> Value {
    let output = pjrt(words);
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{words:?}: {error}, {:?}: {}", output.status, text(&output.stderr)))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn replay(recording: &Recording, name: &str, more: &[&str]) -> Value {
    let file = recording.save(name);
    json(&[&["replay", file.to_str().unwrap(), "--json"], more].concat())
}

fn info(recording: &Recording, name: &str) -> Value {
    json(&["record", "info", "--json", recording.save(name).to_str().unwrap()])
}

/// Trims a recording, and returns the output of the command and the path of the new file.
fn trim(recording: &Recording, name: &str, run: &str) -> (Output, PathBuf) {
    let file = recording.save(name);
    let one = file.with_extension("one");
    let _ = fs::remove_file(&one);
    let output = pjrt(&["record", "trim", "--run", run, "--json", "-o", one.to_str().unwrap(), file.to_str().unwrap()]);
    (output, one)
}

fn array(element_type: u32, dimensions: &[i64]) -> Option<ArrayType> {
    Some(ArrayType { element_type, dimensions: dimensions.to_vec() })
}

/// Returns data that consist of a piece of zeros, repeated.
fn zeros(recording: &mut Recording, pieces: usize) -> Option<Content> {
    let piece = recording.writer.store(&vec![0; pjrt_record::PIECE]).unwrap();
    Some(Content { size: (pieces as u64) << 20, hashes: piece.hashes.repeat(pieces) })
}

const F32: u32 = 11;
const U8: u32 = 6;
const TOKEN: u32 = 23;

mod loops {
    use super::*;

    /// Builds a recording of a loop in which each run uses the output of the run before it.
    fn training(steps: u64) -> Recording {
        let mut recording = Recording::with_program(1, &CompileOptions::default());
        let data = Some(recording.writer.store(&bytes([1.0, 2.0])).unwrap());
        recording.upload(Upload { array: array(F32, &[2]), data, ..Upload::default() }, 3);
        for step in 3..3 + steps {
            recording.run(step, step + 1);
        }
        recording.write(Body::End(End { calls: recording.calls }));
        recording
    }

    #[test]
    fn long_loop_is_trimmed() {
        let (output, one) = trim(&training(20_000), "loop", "20000");
        assert!(output.status.success(), "{}", text(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&report["calls"], &report["other_runs"]), (&20_003.into(), &19_999.into()), "{report}");
        let info = json(&["record", "info", "--json", one.to_str().unwrap()]);
        assert_eq!((info["runs"].as_array().unwrap().len(), &info["complete"]), (20_000, &true.into()));
        fs::remove_file(one).unwrap();
    }

    /// Measures `trim` of a loop with `PJRT_TRIM_STEPS` runs.
    #[test]
    fn long_loop_is_measured() {
        let Some(steps) = std::env::var("PJRT_TRIM_STEPS").ok().and_then(|steps| steps.parse().ok()) else {
            println!("SKIPPED long_loop_is_measured: PJRT_TRIM_STEPS is not set");
            return;
        };
        let file = training(steps).save("measured");
        let one = file.with_extension("one");
        let start = std::time::Instant::now();
        let mut command = Command::new(env!("CARGO_BIN_EXE_pjrt"));
        command.args(["record", "trim", "--run", &steps.to_string(), "-o"]).arg(&one).arg(&file);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        println!("{}: {} bytes in {:?}", text(&output.stdout), fs::metadata(&file).unwrap().len(), start.elapsed());
        fs::remove_file(one).unwrap();
        fs::remove_file(file).unwrap();
    }

    #[test]
    fn failed_trim_leaves_no_file() {
        let mut recording = Recording::of([2.0, 4.0], 1);
        let bytes = Some(Content::of(b"not in the file"));
        recording.upload(Upload { array: array(U8, &[15]), data: bytes, ..Upload::default() }, 9);
        recording.run(9, 10);
        let (output, one) = trim(&recording, "missing", "2");
        assert_eq!(output.status.code(), Some(1));
        let folder = one.parent().unwrap();
        let name = one.file_name().unwrap().to_string_lossy().into_owned();
        let left = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        assert_eq!(left.filter(|found| found.starts_with(&name)).count(), 0);
    }

    #[cfg(unix)]
    #[test]
    fn trimmed_recording_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let (output, one) = trim(&Recording::of([2.0, 4.0], 1), "private", "1");
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(fs::metadata(&one).unwrap().permissions().mode() & 0o777, 0o600);
    }
}

mod memory {
    use super::*;

    #[test]
    fn repeated_shapes_are_not_copied() {
        // A program with many outputs of a high rank, and many runs of this program.
        let mut recording = Recording::new();
        let outputs = vec![ArrayType { element_type: F32, dimensions: vec![1; 500] }; 1000];
        let executable = Some(ExecutableDescription { name: "p".repeat(1000), outputs });
        let compile = Compile { client: 1, format: "mlir".to_owned(), ..Compile::default() };
        let outcome = Outcome { executable, objects: vec![2], ..Outcome::default() };
        recording.call("PJRT_Client_Compile", Some(Arguments::Compile(compile)), Some(outcome));
        for run in 0..1000 {
            recording.run(run, run + 1);
        }
        let size = recording.writer.get_ref().len();
        let info = info(&recording, "shapes");
        assert!(size < 600_000, "{size}");
        assert_eq!(info["runs"].as_array().unwrap().len(), 1000);
        assert!(info["omitted"].as_u64().unwrap() > 900, "{}", info["omitted"]);
    }

    #[test]
    fn messages_that_expand_too_much_are_rejected() {
        // The second block contains 2 MiB of empty lists. The writer would not compress it.
        let payload = [0x12_u8, 0].repeat(1 << 20);
        let mut blocks = pjrt_record::split(Recording::new().writer.get_ref());
        let call = [&[0x0a, 1, b'x'][..], &[0x82, 0x01], &[0x80, 0x80, 0x80, 0x01], &payload].concat();
        let stamp = pjrt_record::Stamp { call: 1, ..pjrt_record::Stamp::default() };
        blocks.push(pjrt_record::RawBlock { kind: 3, stamp, payload: call });
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("hostile-expand.pjrt");
        fs::write(&file, pjrt_record::join(&blocks)).unwrap();
        let info = json(&["record", "info", "--json", file.to_str().unwrap()]);
        assert!(info["state"].as_str().unwrap().contains("too large for the size of the file"), "{}", info["state"]);
    }

    #[test]
    fn data_are_limited_by_their_shape_and_by_the_file() {
        let mut recording = Recording::with_program(1, &CompileOptions::default());
        let data = zeros(&mut recording, 1 << 11);
        recording.upload(Upload { array: array(U8, &[2]), data: data.clone(), ..Upload::default() }, 3);
        recording.upload(Upload { array: array(U8, &[1 << 31]), data: data.clone(), ..Upload::default() }, 4);
        let short = Some(recording.writer.store(&bytes([1.0, 2.0])).unwrap());
        recording.upload(Upload { array: array(F32, &[2]), data: short, ..Upload::default() }, 5);
        recording.download(5, Contents { array: array(F32, &[2]), data, ..Contents::default() });
        let report = replay(&recording, "data", &[]);
        let what = |at: usize| report["problems"][at]["what"].as_str().unwrap().to_owned();
        assert!(what(0).contains("has 2147483648 bytes for an array of u8[2]"), "{report:#}");
        assert!(what(1).contains("exceed the limit") && what(1).contains("--limit"), "{report:#}");
        assert_eq!(report["comparisons"][0]["result"], "not compared", "{report:#}");
        // 3 MiB are within the default limit, and not within a smaller one.
        let mut recording = Recording::with_program(1, &CompileOptions::default());
        let data = zeros(&mut recording, 3);
        recording.upload(Upload { array: array(U8, &[3 << 20]), data, ..Upload::default() }, 3);
        assert_eq!(replay(&recording, "fits", &[])["equal"], true);
        assert_eq!(replay(&recording, "fits", &["--limit", "3000000"])["equal"], false);
    }

    fn made(objects: &[u64]) -> Option<Outcome> {
        Some(Outcome { objects: objects.to_vec(), ..Outcome::default() })
    }

    fn what(report: &Value) -> Vec<&str> {
        report["problems"].as_array().unwrap().iter().map(|problem| problem["what"].as_str().unwrap()).collect()
    }

    #[test]
    fn created_buffers_are_limited() {
        let mut recording = Recording::with_program(1, &CompileOptions::default());
        let create = CreateBuffer { client: 1, array: array(U8, &[4 << 30]), ..CreateBuffer::default() };
        for object in 10..18 {
            let create = Arguments::CreateBuffer(create.clone());
            recording.call("PJRT_Client_CreateUninitializedBuffer", Some(create), made(&[object]));
        }
        recording.call("PJRT_Client_CreateAliasBuffer", Some(Arguments::CreateAlias(create)), made(&[18, 19]));
        let report = replay(&recording, "created", &[]);
        assert_eq!(what(&report).len(), 9, "{report:#}");
        assert!(what(&report).iter().all(|what| what.contains("exceed the limit")), "{report:#}");
    }

    #[test]
    fn clients_are_limited() {
        let mut recording = Recording::new();
        let devices = NamedOption { name: "cpu_device_count".to_owned(), value: Some(OptionValue::Int64(1024)) };
        for object in 1..10 {
            let create = ClientCreate { options: vec![devices.clone()], ..ClientCreate::default() };
            let client = Some(ClientDescription { platform_name: "test".to_owned(), ..ClientDescription::default() });
            let outcome = Outcome { client, objects: vec![object], ..Outcome::default() };
            recording.call("PJRT_Client_Create", Some(Arguments::ClientCreate(create)), Some(outcome));
        }
        let report = replay(&recording, "clients", &["--limit", "10000000"]);
        assert_eq!(what(&report).len(), 7, "{report:#}");
        assert!(what(&report).iter().all(|what| what.contains("exceed the limit")), "{report:#}");
    }

    #[test]
    fn arrays_are_limited_together() {
        let mut recording = Recording::with_program(1, &CompileOptions::default());
        let data = zeros(&mut recording, 16);
        let upload = Upload { array: array(U8, &[16 << 20]), data, ..Upload::default() };
        for object in 10..30 {
            recording.upload(upload.clone(), object);
        }
        let copy = Copy { buffer: 10, device: Some(0), memory: None };
        recording.call("PJRT_Buffer_CopyToDevice", Some(Arguments::Copy(copy)), made(&[40]));
        let arrays = vec![ArrayType { element_type: U8, dimensions: vec![0] }; 100_000];
        let create = CreateManager { client: 1, arrays, ..CreateManager::default() };
        let function = "PJRT_Client_CreateBuffersForAsyncHostToDevice";
        recording.call(function, Some(Arguments::CreateManager(create)), made(&[41]));
        // Objects that are destroyed no longer count.
        for object in 10..30 {
            recording.call("PJRT_Buffer_Destroy", Some(Arguments::Destroy(Object { object })), None);
            recording.upload(upload.clone(), object + 100);
            recording.call("PJRT_Buffer_Destroy", Some(Arguments::Destroy(Object { object: object + 100 })), None);
        }
        let report = replay(&recording, "together", &[]);
        assert_eq!(what(&report).len(), 16 + 2, "{report:#}");
        assert!(what(&report).iter().all(|what| what.contains("exceed the limit")), "{report:#}");
        assert_eq!(what(&replay(&recording, "more", &["--limit", "500000000"])), [""; 0]);
    }

    #[test]
    fn large_outputs_are_not_read() {
        let mut recording = Recording::with_program(1, &CompileOptions::default());
        let code = b"func.func @main(%x: tensor<2xf32>) -> tensor<1000000x2xui8> {
            %0 = stablehlo.constant dense<1> : tensor<1000000x2xui8>
            return %0 : tensor<1000000x2xui8> }";
        let code = Some(recording.writer.store(code).unwrap());
        let options = Some(recording.writer.store(&CompileOptions::default().encode()).unwrap());
        let compile = Compile { client: 1, format: "mlir".to_owned(), code, options };
        recording.call("PJRT_Client_Compile", Some(Arguments::Compile(compile)), made(&[2]));
        let data = Some(recording.writer.store(&bytes([1.0, 2.0])).unwrap());
        recording.upload(Upload { array: array(F32, &[2]), data: data.clone(), ..Upload::default() }, 3);
        recording.run(3, 4);
        // The recorded size differs, or is larger than the limit.
        recording.download(4, Contents { array: array(U8, &[1_000_000, 2]), data, ..Contents::default() });
        let piece = recording.writer.store(&[1].repeat(1 << 20)).unwrap();
        let size = Content { size: 2_000_000, hashes: piece.hashes.repeat(2) };
        recording.download(4, Contents { array: array(U8, &[1_000_000, 2]), data: Some(size), ..Contents::default() });
        let report = replay(&recording, "outputs", &["--limit", "100000"]);
        let reason = |at: usize| report["comparisons"][at]["reason"].as_str().unwrap();
        assert!(reason(0).contains("has 8 bytes, and this plugin returns 2000000"), "{report:#}");
        assert!(reason(1).contains("exceed the limit"), "{report:#}");
    }

    #[test]
    fn sums_do_not_wrap() {
        let mut recording = Recording::new();
        for _ in 0..3 {
            let data = Some(Content { size: u64::MAX, hashes: Vec::new() });
            recording.upload(Upload { array: array(F32, &[2]), data, ..Upload::default() }, 3);
        }
        assert_eq!(info(&recording, "sums")["data_bytes"], u64::MAX);
    }
}

mod arrays {
    use super::*;

    #[test]
    fn empty_data_of_a_large_shape_end_at_once() {
        let mut recording = Recording::with_program(1, &CompileOptions::default());
        let layout =
            Some(MemoryLayout { layout: Some(Layout::Tiled(Tiled { minor_to_major: vec![0, 1], tiles: Vec::new() })) });
        let data = Some(Content::default());
        let snapshot =
            Snapshot { client: 1, buffer: 3, array: array(F32, &[1 << 31; 2]), layout, data, ..Snapshot::default() };
        recording.write(Body::Snapshot(snapshot));
        let report = replay(&recording, "empty", &["--timeout", "20s"]);
        let what = report["problems"][0]["what"].as_str().unwrap();
        assert!(what.contains("has 0 bytes for an array of f32[2147483648,2147483648]"), "{report:#}");
    }

    #[test]
    fn strides_that_do_not_fit_are_reported() {
        let mut recording = Recording::with_program(1, &CompileOptions::default());
        let five = Some(recording.writer.store(&[1, 2, 3, 4, 5]).unwrap());
        let upload = Upload { data: five, byte_strides: vec![4], ..Upload::default() };
        recording.upload(Upload { array: array(F32, &[2]), ..upload.clone() }, 3);
        recording.upload(Upload { array: array(TOKEN, &[2]), ..upload.clone() }, 4);
        recording.upload(Upload { array: array(F32, &[-1]), ..upload }, 5);
        let report = replay(&recording, "strides", &[]);
        assert_eq!(report["problems"].as_array().unwrap().len(), 3, "{report:#}");
        assert!(report["problems"][0]["what"].as_str().unwrap().contains("has 5 bytes for an array of f32[2]"));
    }
}

mod waits {
    use super::*;

    /// Adds a transfer manager 10 with one buffer 11.
    fn manager(recording: &mut Recording) {
        let made = |object| Some(Outcome { objects: vec![object], ..Outcome::default() });
        let arrays = array(F32, &[2]).into_iter().collect();
        let create = CreateManager { client: 1, arrays, ..CreateManager::default() };
        let function = "PJRT_Client_CreateBuffersForAsyncHostToDevice";
        recording.call(function, Some(Arguments::CreateManager(create)), made(10));
        let retrieve = Retrieve { manager: 10, index: 0 };
        let function = "PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer";
        recording.call(function, Some(Arguments::Retrieve(retrieve)), made(11));
    }

    #[test]
    fn data_that_were_never_sent_are_reported() {
        let mut recording = Recording::with_program(1, &CompileOptions::default());
        manager(&mut recording);
        for run in 0..20 {
            recording.run(11 + run, 12 + run);
        }
        let data = Some(recording.writer.store(&bytes([1.0, 2.0])).unwrap());
        let contents = Contents { array: array(F32, &[2]), data: data.clone(), ..Contents::default() };
        recording.download(11, contents.clone());
        recording.download(12, contents.clone());
        let report = replay(&recording, "unsent", &["--timeout", "20s"]);
        for at in 0..2 {
            let error = report["comparisons"][at]["error"].as_str().unwrap();
            assert!(error.contains("no earlier call of the recording sends"), "{report:#}");
        }
        // With the data, both downloads are equal.
        let mut recording = Recording::with_program(1, &CompileOptions::default());
        manager(&mut recording);
        recording.run(11, 12);
        let data = data.inspect(|_| drop(recording.writer.store(&bytes([1.0, 2.0])).unwrap()));
        let transfer = Transfer { manager: 10, last: true, data, ..Transfer::default() };
        let function = "PJRT_AsyncHostToDeviceTransferManager_TransferData";
        recording.call(function, Some(Arguments::Transfer(transfer)), None);
        recording.download(11, contents.clone());
        let data = Some(recording.writer.store(&bytes([2.0, 4.0])).unwrap());
        recording.download(12, Contents { data, ..contents });
        let report = replay(&recording, "sent", &[]);
        assert_eq!(
            (&report["equal"], report["comparisons"].as_array().unwrap().len()),
            (&true.into(), 2),
            "{report:#}"
        );
    }

    #[test]
    fn alias_is_fulfilled_before_its_contents_are_ready() {
        let mut recording = Recording::with_program(1, &CompileOptions::default());
        manager(&mut recording);
        recording.run(11, 12);
        let create = CreateBuffer { client: 1, array: array(F32, &[2]), ..CreateBuffer::default() };
        let made = Some(Outcome { objects: vec![13, 14], ..Outcome::default() });
        recording.call("PJRT_Client_CreateAliasBuffer", Some(Arguments::CreateAlias(create)), made);
        let fulfill = Fulfill { fulfillment: 14, buffer: 12, failure: None };
        recording.call("PJRT_Client_FulfillAliasBuffer", Some(Arguments::Fulfill(fulfill)), None);
        let data = Some(recording.writer.store(&bytes([1.0, 2.0])).unwrap());
        let transfer = Transfer { manager: 10, last: true, data, ..Transfer::default() };
        let function = "PJRT_AsyncHostToDeviceTransferManager_TransferData";
        recording.call(function, Some(Arguments::Transfer(transfer)), None);
        let data = Some(recording.writer.store(&bytes([2.0, 4.0])).unwrap());
        recording.download(13, Contents { array: array(F32, &[2]), data, ..Contents::default() });
        let report = replay(&recording, "fulfilled", &["--timeout", "20s"]);
        let compared = report["comparisons"].as_array().unwrap().len();
        assert_eq!((&report["equal"], compared), (&true.into(), 1), "{report:#}");
    }

    #[test]
    fn program_that_never_ends_is_stopped() {
        let mut recording = Recording::with_program(1, &CompileOptions::default());
        let code = b"module @forever { func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
            %0 = stablehlo.while(%y = %x) : tensor<2xf32>
              cond { %t = stablehlo.constant dense<true> : tensor<i1>
                     stablehlo.return %t : tensor<i1> }
              do { stablehlo.return %y : tensor<2xf32> }
            return %0 : tensor<2xf32> } }";
        let code = Some(recording.writer.store(code).unwrap());
        let options = Some(recording.writer.store(&CompileOptions::default().encode()).unwrap());
        let compile = Compile { client: 1, format: "mlir".to_owned(), code, options };
        let made = Some(Outcome { objects: vec![2], ..Outcome::default() });
        recording.call("PJRT_Client_Compile", Some(Arguments::Compile(compile)), made);
        let data = Some(recording.writer.store(&bytes([1.0, 2.0])).unwrap());
        recording.upload(Upload { array: array(F32, &[2]), data: data.clone(), ..Upload::default() }, 3);
        recording.run(3, 4);
        recording.download(4, Contents { array: array(F32, &[2]), data, ..Contents::default() });
        let start = std::time::Instant::now();
        let report = replay(&recording, "forever", &["--timeout", "1s"]);
        assert!(report["error"].as_str().unwrap().contains("has not ended after 1s"), "{report:#}");
        assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    }
}

mod names {
    use super::*;

    #[test]
    fn line_feeds_forge_no_lines() {
        let forged = "x\nforged line\u{1b}[2J\u{202e}";
        let mut recording = Recording::with_program(1, &CompileOptions::default());
        recording.call(forged, None, None);
        let execute = Execute {
            executable: 2,
            unsupported: vec![forged.to_owned()],
            left_out: vec![forged.to_owned()],
            arguments: vec![BufferList::default()],
            ..Execute::default()
        };
        recording.call("PJRT_LoadedExecutable_Execute", Some(Arguments::Execute(execute)), None);
        let mut process = pjrt_record::Process::default();
        for name in [&mut process.recorder, &mut process.program, &mut process.system, &mut process.plugin_path] {
            forged.clone_into(name);
        }
        (process.plugin_sha256, process.only_run) = (forged.to_owned(), forged.to_owned());
        recording.write(Body::Process(process));
        let executable = Some(ExecutableDescription { name: forged.to_owned(), outputs: Vec::new() });
        let outcome = Outcome { executable, objects: vec![7], ..Outcome::default() };
        recording.call("f", Some(Arguments::Compile(Compile::default())), Some(outcome));
        let execute = Execute { executable: 7, ..Execute::default() };
        recording.call("f", Some(Arguments::Execute(execute)), None);
        let file = recording.save("names");
        let file = file.to_str().unwrap();
        for words in [&["record", "info", file][..], &["record", "json", file], &["replay", file]] {
            let output = pjrt(words);
            for out in [text(&output.stdout), text(&output.stderr)] {
                let is_forged = |line: &str| line.starts_with("forged");
                assert!(!out.lines().any(is_forged) && !out.contains(['\u{1b}', '\u{202e}']), "{words:?}:\n{out}");
            }
            assert!(text(&output.stdout).contains("x\\nforged line"), "{words:?}: {}", text(&output.stdout));
        }
    }
}

mod options {
    use super::*;

    fn recording(folder: &Path) -> Recording {
        let path = folder.to_str().unwrap();
        let options = CompileOptions::default().with_option_override("xla_dump_to", path);
        let mut recording = Recording::with_program(1, &options);
        let value = Some(OptionValue::String(path.to_owned()));
        let create = ClientCreate {
            options: vec![NamedOption { name: "log_file".to_owned(), value }],
            ..ClientCreate::default()
        };
        recording.call("PJRT_Client_Create", Some(Arguments::ClientCreate(create)), None);
        recording
    }

    #[test]
    fn options_are_dropped_unless_they_are_trusted() {
        // The embedded device writes programs to this folder if the option is trusted.
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("trusted-dump-{}", std::process::id()));
        let recording = recording(&folder);
        let report = replay(&recording, "options", &[]);
        let dropped = report["dropped_options"].as_object().unwrap();
        assert_eq!(dropped.keys().collect::<Vec<_>>(), ["client option `log_file`", "compile option `xla_dump_to`"]);
        let output = pjrt(&["replay", recording.save("options").to_str().unwrap()]);
        let out = text(&output.stdout);
        assert!(
            out.contains("xla_dump_to") && out.contains("2 recorded options") && out.contains("--trust-options"),
            "{out}"
        );
        assert!(!folder.exists());
        let report = replay(&recording, "options", &["--trust-options"]);
        assert_eq!(report["dropped_options"], serde_json::json!({}));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn formats_with_options_need_trust() {
        let mut recording = Recording::with_program(1, &CompileOptions::default());
        let code = Some(recording.writer.store(b"x").unwrap());
        let options = Some(recording.writer.store(&CompileOptions::default().encode()).unwrap());
        let compile = Compile { client: 1, format: "hlo_with_config".to_owned(), code, options };
        let made = Some(Outcome { objects: vec![8], ..Outcome::default() });
        recording.call("PJRT_Client_Compile", Some(Arguments::Compile(compile)), made);
        let report = replay(&recording, "format", &[]);
        assert!(report["problems"][0]["what"].as_str().unwrap().contains("--trust-options"), "{report:#}");
    }

    /// Tests that a real plugin of XLA writes no files, and that the option would make it write files.
    #[test]
    fn xla_writes_no_dump() {
        let plugins = std::env::var_os("PJRT_TEST_PLUGINS").unwrap_or_default();
        let Some(plugin) = std::env::split_paths(&plugins).find(|path| path.is_file()) else {
            println!("SKIPPED xla_writes_no_dump: PJRT_TEST_PLUGINS names no plugin");
            return;
        };
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("hostile-dump-{}", std::process::id()));
        let file = recording(&folder).save("dump");
        for (more, writes) in [(&[][..], false), (&["--trust-options"], true)] {
            let mut command = Command::new(env!("CARGO_BIN_EXE_pjrt"));
            command.arg("replay").arg(&file).arg("-p").arg(&plugin).args(more);
            let output = command.output().unwrap();
            assert_eq!(folder.exists(), writes, "{}{}", text(&output.stdout), text(&output.stderr));
        }
        fs::remove_dir_all(folder).unwrap();
    }
}

mod seed {
    use pjrt_record::{Call, Download, Failure, SetError};

    use super::*;

    /// Path of a recording with all kinds of calls, from which the fuzz targets start. `UPDATE_EXPECT=1` writes this
    /// file.
    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/all-calls.pjrt");

    fn recording() -> Recording {
        let mut recording = Recording::with_program(2, &CompileOptions::default());
        let made = |objects: &[u64]| Some(Outcome { objects: objects.to_vec(), ..Outcome::default() });
        let stored = |recording: &mut Recording, values| Some(recording.writer.store(&bytes(values)).unwrap());
        let (one, two) = (stored(&mut recording, [1.0, 2.0]), stored(&mut recording, [2.0, 4.0]));
        let (four, half) =
            (stored(&mut recording, [4.0, 8.0]), Some(recording.writer.store(&2_f32.to_ne_bytes()).unwrap()));
        let f32s = || array(F32, &[2]);
        let contents = |data: &Option<Content>| Contents { array: f32s(), data: data.clone(), ..Contents::default() };
        recording.upload(
            Upload { array: f32s(), data: one.clone(), byte_strides: vec![-8], device: Some(0), ..Upload::default() },
            3,
        );
        let layout =
            Some(MemoryLayout { layout: Some(Layout::Tiled(Tiled { minor_to_major: vec![0, 1], tiles: Vec::new() })) });
        let snapshot = Snapshot {
            client: 1,
            buffer: 4,
            array: array(F32, &[1, 2]),
            layout,
            data: one.clone(),
            ..Snapshot::default()
        };
        recording.write(Body::Snapshot(snapshot));
        recording.run(3, 5);
        // Donates the argument.
        let execute = Execute {
            executable: 2,
            arguments: vec![BufferList { buffers: vec![5] }],
            launch_id: 1,
            ..Execute::default()
        };
        let outputs = vec![BufferList { buffers: vec![6] }];
        let outcome = Outcome { outputs, deleted: vec![5], ..Outcome::default() };
        recording.call("PJRT_LoadedExecutable_Execute", Some(Arguments::Execute(execute)), Some(outcome));
        recording.write(Body::Contents(Contents { buffer: 6, is_output: true, ..contents(&four) }));
        recording.download(6, contents(&four));
        let copy = Copy { buffer: 6, device: Some(0), memory: None };
        recording.call("PJRT_Buffer_CopyToDevice", Some(Arguments::Copy(copy)), made(&[7]));
        let arrays = vec![ArrayType { element_type: F32, dimensions: vec![2] }; 2];
        let create = CreateManager { client: 1, arrays, ..CreateManager::default() };
        recording.call(
            "PJRT_Client_CreateBuffersForAsyncHostToDevice",
            Some(Arguments::CreateManager(create)),
            made(&[8]),
        );
        for index in 0..2 {
            let retrieve = Arguments::Retrieve(Retrieve { manager: 8, index });
            let object = [9 + u64::try_from(index).unwrap()];
            recording.call("PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer", Some(retrieve), made(&object));
        }
        let create = CreateBuffer { client: 1, array: f32s(), ..CreateBuffer::default() };
        recording.call("PJRT_Client_CreateAliasBuffer", Some(Arguments::CreateAlias(create.clone())), made(&[11, 12]));
        let fulfill = Fulfill { fulfillment: 12, buffer: 9, failure: None };
        recording.call("PJRT_Client_FulfillAliasBuffer", Some(Arguments::Fulfill(fulfill)), None);
        recording.run(11, 13);
        let transfer = Transfer { manager: 8, last: true, data: one.clone(), ..Transfer::default() };
        recording.call("PJRT_AsyncHostToDeviceTransferManager_TransferData", Some(Arguments::Transfer(transfer)), None);
        let failure = Some(Failure { code: 10, message: "by request".to_owned() });
        let set = SetError { manager: 8, index: 1, failure: failure.clone() };
        recording.call("PJRT_AsyncHostToDeviceTransferManager_SetBufferError", Some(Arguments::SetError(set)), None);
        recording.download(10, Contents { failure: failure.clone(), ..contents(&None) });
        let create = CreateBuffer { failure: failure.clone(), ..create };
        recording.call("PJRT_Client_CreateErrorBuffer", Some(Arguments::CreateBuffer(create)), made(&[14]));
        let download = Download { buffer: 13, offset: 0, size: 4, ..Download::default() };
        recording.call("PJRT_Buffer_CopyRawToHost", Some(Arguments::RawDownload(download)), None);
        recording.write(Body::Contents(Contents { buffer: 13, ..contents(&half) }));
        // The contents follow the deletion of the buffer.
        let download = Arguments::Download(Download { buffer: 13, ..Download::default() });
        recording.call("PJRT_Buffer_ToHostBuffer", Some(download), None);
        let call = recording.calls;
        let object = |object| {
            Some(if object == 13 {
                Arguments::Delete(Object { object })
            } else {
                Arguments::Destroy(Object { object })
            })
        };
        recording.call("PJRT_Buffer_Delete", object(13), None);
        let stamp = pjrt_record::Stamp { call, thread: 1, nanos: 0 };
        recording.writer.write(stamp, &Body::Contents(Contents { buffer: 13, ..contents(&two) })).unwrap();
        let nonsense = recording.writer.store(b"nonsense").unwrap();
        let options = Some(recording.writer.store(&CompileOptions::default().encode()).unwrap());
        let compile = Compile { client: 1, format: "mlir".to_owned(), code: Some(nonsense), options };
        let failed = Some(Outcome { failure, ..Outcome::default() });
        recording.call("PJRT_Client_Compile", Some(Arguments::Compile(compile)), failed);
        recording.write(Body::Call(Call { function: "PJRT_FFI_Register_Handler".to_owned(), arguments: None }));
        for number in [8, 6, 2, 1] {
            recording.call("PJRT_Destroy", object(number), None);
        }
        recording.write(Body::End(End { calls: recording.calls }));
        recording
    }

    #[test]
    fn all_calls_are_replayed() {
        let recording = recording();
        let report = replay(&recording, "seed", &[]);
        assert_eq!(
            (&report["equal"], report["comparisons"].as_array().unwrap().len()),
            (&true.into(), 5),
            "{report:#}"
        );
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(FILE, recording.writer.get_ref()).unwrap();
        }
        assert!(fs::read(FILE).unwrap() == *recording.writer.get_ref(), "run the test with UPDATE_EXPECT=1");
    }
}
