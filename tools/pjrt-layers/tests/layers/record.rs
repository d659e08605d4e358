//! Tests of the layer `record`. They record calls to the embedded device, replay the recordings, and read truncated,
//! damaged and trimmed files.

use std::fs::{self, File};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use pjrt::{
    AsyncHostToDeviceTransferManager, Buffer, Client, ClientOptions, CompileOptions, ElementType, ErrorCode,
    ExecuteOptions, Input, KeyValueStore, LoadedExecutable, Plugin, Program, Shape, Upload,
};
use pjrt_layers::record::{Record, Target};
use pjrt_layers::{Instance, Layer, Stack, instance};
use pjrt_record::replay::{self, Report, Verdict};
use pjrt_record::{Body, ReadError, Reader, Summary, TrimError, Trimmed, trim};

use crate::setup::embedded;

const ADD: &str = "module @add { func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.add %x, %y : tensor<4xf32>
    return %0 : tensor<4xf32>
} }";

/// A program that reuses the memory of its argument for its result.
const DONATE: &str = "module @donate {
    func.func @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {
        %0 = stablehlo.multiply %x, %x : tensor<4xf32>
        return %0 : tensor<4xf32>
    }
}";

/// A folder for the files of one test.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("record-{test}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        Self(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join(format!("record-{}.pjrt", std::process::id()))
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.file()).unwrap()
    }

    /// Creates a client with the layer in front of the embedded device.
    fn client<I: Instance>(&self, only: Option<&str>) -> Client {
        let only = only.map(|text| text.parse().unwrap());
        let target = Target { folder: Some(self.0.clone()), only, ..Target::default() };
        let layers: Vec<Box<dyn Layer>> = vec![Box::new(Record::new(target))];
        let api = Stack::start::<I>(embedded(), layers);
        Plugin::from_static(api).unwrap().client(&ClientOptions::default()).unwrap()
    }

    fn summary(&self) -> Summary {
        Summary::of(&mut Reader::new(File::open(self.file()).unwrap()).unwrap()).unwrap()
    }

    fn replay(&self) -> Report {
        replay_bytes(self.bytes(), &replay::Options::default()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn replay_bytes(bytes: Vec<u8>, options: &replay::Options) -> Result<Report, ReadError> {
    let plugin = Plugin::from_static(embedded()).unwrap();
    let mut make = |values: &[pjrt::NamedValue]| {
        plugin.client(&ClientOptions::default().with_values(values.to_vec())).map_err(|error| error.to_string())
    };
    replay::replay(&mut Reader::new(Cursor::new(bytes))?, &mut make, options)
}

fn compile(client: &Client, text: &str) -> LoadedExecutable {
    client.compile(&Program::mlir(text), &CompileOptions::default()).unwrap()
}

fn upload(client: &Client, data: [f32; 4]) -> Buffer {
    client.buffer_from_host(&data, &[4]).unwrap()
}

/// Uploads two arrays, adds them, downloads the sum, and destroys the client.
fn add(client: Client) {
    let executable = compile(&client, ADD);
    let (x, y) = (upload(&client, [1.0, 2.0, 3.0, 4.0]), upload(&client, [10.0, 20.0, 30.0, 40.0]));
    let outputs = executable.execute(&[&x, &y]).unwrap();
    assert_eq!(outputs[0].to_host::<f32>().unwrap(), [11.0, 22.0, 33.0, 44.0]);
}

/// Returns the byte offsets of all blocks, followed by the length of the file.
fn offsets(bytes: &[u8]) -> Vec<usize> {
    let mut reader = Reader::new(Cursor::new(bytes)).unwrap();
    let mut offsets = Vec::new();
    while let Some(block) = reader.read().unwrap() {
        offsets.push(usize::try_from(block.offset).unwrap());
    }
    offsets.push(bytes.len());
    offsets
}

/// A key-value store without values.
struct Empty;

impl KeyValueStore for Empty {
    fn get(&self, _: &str, _: Duration) -> Result<Vec<u8>, (ErrorCode, String)> {
        Err((ErrorCode::DEADLINE_EXCEEDED, "empty".to_owned()))
    }

    fn try_get(&self, _: &str) -> Result<Option<Vec<u8>>, (ErrorCode, String)> {
        Ok(None)
    }

    fn put(&self, _: &str, _: &[u8]) -> Result<(), (ErrorCode, String)> {
        Ok(())
    }
}

mod round_trip {
    use super::*;

    #[test]
    fn client_is_replayed_without_its_store() {
        instance!(Stored);
        let folder = Folder::new("stored");
        let target = Target { folder: Some(folder.0.clone()), ..Target::default() };
        let api = Stack::start::<Stored>(embedded(), vec![Box::new(Record::new(target))]);
        let options = ClientOptions::default().with_key_value_store(Arc::new(Empty));
        add(Plugin::from_static(api).unwrap().client(&options).unwrap());
        let summary = folder.summary();
        assert_eq!((summary.not_replayable.len(), summary.left_out.len()), (0, 1), "{summary:?}");
        let report = folder.replay();
        assert!(report.is_equal() && report.skipped.is_empty(), "{report:?}");
        assert_eq!(report.runs, 1);
    }

    #[test]
    fn run_is_equal() {
        instance!(Whole);
        let folder = Folder::new("run");
        add(folder.client::<Whole>(None));
        let summary = folder.summary();
        assert_eq!(summary.state, Some(pjrt_record::State::Complete), "{summary:?}");
        assert_eq!(summary.not_replayable.len(), 0, "{summary:?}");
        assert_eq!((summary.compared, summary.clients.len(), summary.runs.len()), (1, 1, 1));
        let run = &summary.runs[0];
        assert_eq!((run.program.as_str(), run.devices, run.failed), ("add", 1, Some(false)));
        assert_eq!((run.arguments.len(), run.outputs[0].dimensions.as_slice()), (2, &[4][..]));
        let report = folder.replay();
        assert_eq!(report.comparisons.len(), 1, "{report:?}");
        let (call, program, output) = report.comparisons[0].run.clone().unwrap();
        assert_eq!((call, &*program, output), (run.call, "add", 0));
        assert!(report.is_equal() && report.skipped.is_empty() && report.runs == 1, "{report:?}");
    }

    #[test]
    fn donation_copies_and_transfers_are_repeated() {
        instance!(Many);
        let folder = Folder::new("many");
        {
            let client = folder.client::<Many>(None);
            let device = client.default_device().unwrap();
            let memory = device.default_memory().unwrap();
            let executable = compile(&client, DONATE);
            let options = ExecuteOptions::new().with_launch_id(3).with_call_location(c"train.py:7");
            let run = executable.execute_with([Input::Donate(upload(&client, [2.0; 4]))], &options).unwrap();
            let again = executable.execute_with(run.outputs.into_iter().map(Input::Donate), &options).unwrap();
            let copy = again.outputs[0].copy_to(&memory).unwrap();
            assert_eq!(copy.to_host::<f32>().unwrap(), [16.0; 4]);

            let shape = Shape::new(ElementType::F32, [2, 2]);
            let manager = AsyncHostToDeviceTransferManager::new(&memory, &[shape]).unwrap();
            let piece = |values: [f32; 2]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
            manager.transfer_data(0, 0, piece([1.0, 2.0])).unwrap().wait().unwrap();
            let pending = manager.retrieve_buffer(0).unwrap();
            manager.transfer_last_data(0, 8, piece([3.0, 4.0])).unwrap().wait().unwrap();
            assert_eq!(pending.to_host::<f32>().unwrap(), [1.0, 2.0, 3.0, 4.0]);
            let size = pending.on_device_size().unwrap();
            assert_eq!(pending.download().raw(4, 4).start().unwrap().wait().unwrap(), 2.0_f32.to_ne_bytes());
            assert_eq!(size, 16);

            // The strides reverse the elements of each row.
            let strided = client
                .upload(Upload::of(&[1_u16, 2, 3, 4, 5, 6]).dims(&[2, 3]).strides(2, &[3, -1]).to(&device))
                .unwrap();
            assert_eq!(strided.to_host::<u16>().unwrap(), [3, 2, 1, 6, 5, 4]);
            let (alias, fulfillment) = memory.buffer(&Shape::new(ElementType::F32, [4])).alias().unwrap();
            fulfillment.fulfill(&copy).unwrap();
            assert_eq!(alias.to_host::<f32>().unwrap(), [16.0; 4]);
        }
        let summary = folder.summary();
        assert_eq!(summary.runs.iter().map(|run| run.donated).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(summary.not_replayable.len(), 0, "{summary:?}");
        let report = folder.replay();
        assert!(report.is_equal(), "{report:?}");
        assert_eq!(report.comparisons.len(), 5, "{report:?}");
        assert!(report.comparisons.iter().all(|one| matches!(one.verdict, Verdict::Equal)), "{report:?}");
    }

    #[test]
    fn failures_are_repeated() {
        instance!(Failing);
        let folder = Folder::new("failures");
        {
            let client = folder.client::<Failing>(None);
            let memory = client.default_device().unwrap().default_memory().unwrap();
            client.compile(&Program::mlir("nonsense"), &CompileOptions::default()).unwrap_err();
            let shape = Shape::new(ElementType::F32, [4]);
            let broken = memory.buffer(&shape).error(ErrorCode::ABORTED, "by request").unwrap();
            broken.to_host::<f32>().unwrap_err();
        }
        let summary = folder.summary();
        assert_eq!(summary.functions["PJRT_Client_Compile"], (1, 1));
        let report = folder.replay();
        assert!(report.is_equal(), "{report:?}");
    }

    #[test]
    fn two_threads_are_repeated() {
        instance!(Threaded);
        let folder = Folder::new("threads");
        {
            let client = folder.client::<Threaded>(None);
            let executable = compile(&client, ADD);
            std::thread::scope(|scope| {
                for thread in [1.0_f32, 2.0] {
                    let (client, executable) = (&client, &executable);
                    scope.spawn(move || {
                        for step in [1.0_f32, 2.0, 3.0, 4.0, 5.0] {
                            let (x, y) = (upload(client, [thread; 4]), upload(client, [step; 4]));
                            let outputs = executable.execute(&[&x, &y]).unwrap();
                            assert_eq!(outputs[0].to_host::<f32>().unwrap(), [thread + step; 4]);
                        }
                    });
                }
            });
        }
        let summary = folder.summary();
        assert!(summary.threads >= 3, "{summary:?}");
        let report = folder.replay();
        assert!(report.is_equal() && report.runs == 10 && report.comparisons.len() == 10, "{report:?}");
    }

    #[test]
    fn data_are_stored_once() {
        instance!(Repeated);
        let folder = Folder::new("once");
        let data: Vec<f32> = (0..1 << 18).map(|at| f32::from(u16::try_from(at % 65521).unwrap())).collect();
        {
            let client = folder.client::<Repeated>(None);
            for _ in 0..20 {
                client.buffer_from_host(&data, &[1 << 18]).unwrap().wait().unwrap();
            }
        }
        let summary = folder.summary();
        assert_eq!(summary.functions["PJRT_Client_BufferFromHostBuffer"], (20, 0));
        assert_eq!((summary.data, summary.distinct), (20 << 20, 1 << 20));
        assert!(folder.bytes().len() < (1 << 20) + 20_000, "{}", folder.bytes().len());
    }
}

mod one_run {
    use super::*;

    #[test]
    fn inputs_come_from_the_device() {
        instance!(Trimmed);
        let folder = Folder::new("trimmed");
        {
            let client = folder.client::<Trimmed>(Some("donate:2"));
            let (add, donate) = (compile(&client, ADD), compile(&client, DONATE));
            let mut x = upload(&client, [1.0, 2.0, 3.0, 4.0]);
            for _ in 0..3 {
                let sum = add.execute(&[&x, &x]).unwrap().remove(0);
                x = donate.execute_with([Input::Donate(sum)], &ExecuteOptions::new()).unwrap().outputs.remove(0);
            }
            assert!(x.to_host::<f32>().unwrap()[0] > 1000.0);
        }
        let summary = folder.summary();
        assert_eq!(summary.state, Some(pjrt_record::State::Complete));
        assert_eq!(summary.process.only_run, "donate:2");
        let calls: Vec<(&str, u64)> =
            summary.functions.iter().map(|(name, (calls, _))| (name.as_str(), *calls)).collect();
        let expected = [("PJRT_Client_Compile", 1), ("PJRT_Client_Create", 1), ("PJRT_LoadedExecutable_Execute", 1)];
        assert_eq!(calls, expected);
        assert_eq!((summary.runs[0].program.as_str(), summary.runs[0].donated, summary.compared), ("donate", 1, 1));
        let report = folder.replay();
        assert!(report.is_equal() && report.comparisons.len() == 1, "{report:?}");
        assert!(matches!(report.comparisons[0].verdict, Verdict::Equal), "{report:?}");
    }

    #[test]
    fn run_is_selected_by_its_number() {
        instance!(Numbered);
        let folder = Folder::new("numbered");
        {
            let client = folder.client::<Numbered>(Some("2"));
            let (add, donate) = (compile(&client, ADD), compile(&client, DONATE));
            let x = upload(&client, [1.0, 2.0, 3.0, 4.0]);
            let sum = add.execute(&[&x, &x]).unwrap().remove(0);
            donate.execute(&[&sum]).unwrap();
            add.execute(&[&x, &x]).unwrap();
        }
        let summary = folder.summary();
        assert_eq!(summary.runs.iter().map(|run| run.program.as_str()).collect::<Vec<_>>(), ["donate"]);
        assert!(folder.replay().is_equal());
    }
}

mod other_plugin {
    use super::*;

    /// Returns a copy of the recording in which a subtraction replaces the addition in the program. The replay then
    /// computes other results than the recording contains.
    fn changed(folder: &Folder) -> Vec<u8> {
        let mut reader = Reader::new(Cursor::new(folder.bytes())).unwrap();
        let mut out = Vec::new();
        let mut writer = pjrt_record::Writer::new(&mut out).unwrap();
        while let Some(mut block) = reader.read().unwrap() {
            if let Body::Data { hash, size } = &block.body {
                let hashes = pjrt_record::Content { size: *size as u64, hashes: hash.as_bytes().to_vec() };
                let data = reader.content(&hashes, 1 << 20).unwrap();
                writer.store(&data).unwrap();
                continue;
            }
            if let Body::Call(pjrt_record::Call { arguments: Some(pjrt_record::Arguments::Compile(compile)), .. }) =
                &mut block.body
            {
                let code = reader.content(compile.code.as_ref().unwrap(), 1 << 20).unwrap();
                let code = String::from_utf8(code).unwrap().replace("stablehlo.add", "stablehlo.subtract");
                compile.code = Some(writer.store(code.as_bytes()).unwrap());
            }
            writer.write(block.stamp, &block.body).unwrap();
        }
        out
    }

    #[test]
    fn other_results_are_reported() {
        instance!(Changed);
        let folder = Folder::new("changed");
        add(folder.client::<Changed>(None));
        let report = replay_bytes(changed(&folder), &replay::Options::default()).unwrap();
        assert!(!report.is_equal());
        let Verdict::Different(found) = &report.comparisons[0].verdict else { panic!("{report:?}") };
        assert_eq!((found.count, found.elements, found.index.as_slice()), (4, 4, &[0][..]));
        assert_eq!((found.expected.as_str(), found.got.as_str()), ("11", "-9"));
        // 11 and -9 are equal with a relative tolerance of 200 %.
        let options = replay::Options::default().with_tolerance("2".parse().unwrap());
        assert!(replay_bytes(changed(&folder), &options).unwrap().is_equal());
    }
}

mod damage {
    use super::*;

    #[test]
    fn cut_file_is_readable_to_its_last_block() {
        instance!(Cut);
        let folder = Folder::new("cut");
        add(folder.client::<Cut>(None));
        let bytes = folder.bytes();
        let offsets = offsets(&bytes);
        for (count, pair) in offsets.windows(2).enumerate() {
            let (start, end) = (pair[0], pair[1]);
            for at in [start, start + 1, start + 39, start + 40, (start + end) / 2, end - 1] {
                let mut reader = Reader::new(Cursor::new(&bytes[..at.min(end - 1).max(start)])).unwrap();
                let mut blocks = 0;
                while reader.read().unwrap().is_some() {
                    blocks += 1;
                }
                assert_eq!(blocks, count, "cut at {at}");
                let offset = start as u64;
                let expected =
                    if at == start { pjrt_record::State::Unfinished } else { pjrt_record::State::Cut { offset } };
                assert_eq!(reader.state(), expected, "cut at {at}");
            }
            // A replay makes the calls in the truncated file, and reports calls that did not return.
            replay_bytes(bytes[..start].to_vec(), &replay::Options::default()).unwrap();
        }
    }

    #[test]
    fn every_damaged_byte_is_found() {
        instance!(Damaged);
        let folder = Folder::new("damaged");
        add(folder.client::<Damaged>(None));
        let bytes = folder.bytes();
        for at in (16..bytes.len()).step_by(7) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            let mut reader = Reader::new(Cursor::new(damaged)).unwrap();
            let result = loop {
                match reader.read() {
                    Ok(Some(_)) => {}
                    Ok(None) => break None,
                    Err(error) => break Some(error),
                }
            };
            // A damaged length field may make a block reach beyond the end of the file.
            let is_cut = matches!(reader.state(), pjrt_record::State::Cut { .. });
            assert!(is_cut || matches!(result, Some(ReadError::Damaged { .. })), "{at}: {result:?}");
        }
    }

    #[test]
    fn other_versions_are_rejected() {
        instance!(Versioned);
        let folder = Folder::new("versioned");
        add(folder.client::<Versioned>(None));
        let mut bytes = folder.bytes();
        bytes[8] = 2;
        let error = Reader::new(Cursor::new(bytes.clone())).unwrap_err();
        assert!(matches!(error, ReadError::Version { major: 2, minor: 0 }), "{error}");
        // A newer minor version only adds blocks and fields, which older readers skip.
        bytes[8..12].copy_from_slice(&[1, 0, 9, 0]);
        assert!(replay_bytes(bytes, &replay::Options::default()).unwrap().is_equal());
        let error = Reader::new(Cursor::new(b"PJRTREC".to_vec())).unwrap_err();
        assert!(matches!(error, ReadError::NotARecording), "{error}");
    }

    #[test]
    fn hostile_lengths_are_rejected() {
        let mut bytes = b"PJRTREC\n\x01\0\0\0\0\0\0\0".to_vec();
        bytes.extend([0, 0, 0, 0, 3, 1, 0, 0]);
        bytes.extend(u32::MAX.to_le_bytes());
        bytes.extend(u32::MAX.to_le_bytes());
        bytes.extend([0; 24]);
        let error = Reader::new(Cursor::new(bytes)).unwrap().read().unwrap_err();
        assert!(matches!(error, ReadError::Damaged { offset: 16, .. }), "{error}");
    }
}

mod trimmed {
    use super::*;

    const SQUARE: &str = "module @square { func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
        %0 = stablehlo.multiply %x, %x : tensor<4xf32>
        %1 = stablehlo.add %x, %x : tensor<4xf32>
        return %0, %1 : tensor<4xf32>, tensor<4xf32>
    } }";

    /// Extracts a run from a recording.
    fn cut(folder: &Folder, run: &str) -> Result<(Vec<u8>, Trimmed), TrimError> {
        let mut reader = Reader::new(File::open(folder.file()).unwrap()).unwrap();
        let mut out = Vec::new();
        let trimmed = trim(&mut reader, &run.parse().unwrap(), &mut out)?;
        Ok((out, trimmed))
    }

    fn summary(bytes: &[u8]) -> Summary {
        Summary::of(&mut Reader::new(Cursor::new(bytes)).unwrap()).unwrap()
    }

    /// Makes three runs, and returns the output of the last run. The last run uses the outputs of the second run. If
    /// `reads` is `true`, downloads the outputs of the second run before the last run.
    fn chain<I: Instance>(folder: &Folder, reads: bool) -> Vec<f32> {
        let client = folder.client::<I>(None);
        let (square, add) = (compile(&client, SQUARE), compile(&client, ADD));
        let other = upload(&client, [9.0; 4]);
        assert_eq!(add.execute(&[&other, &other]).unwrap()[0].to_host::<f32>().unwrap(), [18.0; 4]);
        let first = square.execute(&[&upload(&client, [1.0, 2.0, 3.0, 4.0])]).unwrap();
        if reads {
            first[0].to_host::<f32>().unwrap();
            first[1].to_host::<f32>().unwrap();
        }
        let last = add.execute(&[&first[0], &first[1]]).unwrap();
        last[0].to_host::<f32>().unwrap()
    }

    #[test]
    fn contents_that_were_read_replace_a_run() {
        instance!(Read);
        let folder = Folder::new("trim-read");
        assert_eq!(chain::<Read>(&folder, true), [3.0, 8.0, 15.0, 24.0]);
        let (bytes, trimmed) = cut(&folder, "add:2").unwrap();
        assert_eq!(trimmed.other_runs, 0);
        let summary = summary(&bytes);
        assert_eq!((summary.runs.len(), summary.runs[0].program.as_str()), (1, "add"), "{summary:?}");
        assert_eq!((summary.state, summary.process.only_run.as_str()), (Some(pjrt_record::State::Complete), "add:2"));
        assert_eq!(summary.functions["PJRT_Client_Compile"], (1, 0));
        assert!(!summary.functions.contains_key("PJRT_Client_BufferFromHostBuffer"));
        let report = replay_bytes(bytes, &replay::Options::default()).unwrap();
        assert!(report.is_equal() && report.skipped.is_empty(), "{report:?}");
        assert_eq!((report.runs, report.comparisons.len()), (1, 1));
    }

    #[test]
    fn runs_that_compute_an_argument_are_kept() {
        instance!(Kept);
        let folder = Folder::new("trim-kept");
        assert_eq!(chain::<Kept>(&folder, false), [3.0, 8.0, 15.0, 24.0]);
        let (bytes, trimmed) = cut(&folder, "3").unwrap();
        assert_eq!(trimmed.other_runs, 1);
        let summary = summary(&bytes);
        assert_eq!(summary.runs.iter().map(|run| run.program.as_str()).collect::<Vec<_>>(), ["square", "add"]);
        assert_eq!(summary.functions["PJRT_Client_BufferFromHostBuffer"], (1, 0));
        let report = replay_bytes(bytes, &replay::Options::default()).unwrap();
        assert!(report.is_equal() && report.runs == 2, "{report:?}");
    }

    #[test]
    fn contents_that_arrive_in_pieces_are_kept() {
        instance!(Pieces);
        let folder = Folder::new("trim-pieces");
        {
            let client = folder.client::<Pieces>(None);
            let memory = client.default_device().unwrap().default_memory().unwrap();
            let add = compile(&client, ADD);
            let shape = || Shape::new(ElementType::F32, [4]);
            let bytes = |values: [f32; 2]| values.iter().flat_map(|value| value.to_ne_bytes()).collect::<Vec<u8>>();
            let manager = AsyncHostToDeviceTransferManager::new(&memory, &[shape()]).unwrap();
            let pending = manager.retrieve_buffer(0).unwrap();
            let (alias, fulfillment) = memory.buffer(&shape()).alias().unwrap();
            fulfillment.fulfill(&pending).unwrap();
            manager.transfer_data(0, 0, bytes([1.0, 2.0])).unwrap().wait().unwrap();
            manager.transfer_last_data(0, 8, bytes([3.0, 4.0])).unwrap().wait().unwrap();
            let outputs = add.execute(&[&alias, &upload(&client, [1.0; 4])]).unwrap();
            assert_eq!(outputs[0].to_host::<f32>().unwrap(), [2.0, 3.0, 4.0, 5.0]);
        }
        let (bytes, _) = cut(&folder, "add").unwrap();
        let report = replay_bytes(bytes, &replay::Options::default()).unwrap();
        assert!(report.is_equal() && report.runs == 1 && report.comparisons.len() == 1, "{report:?}");
    }

    #[test]
    fn missing_run_is_an_error() {
        instance!(Missing);
        let folder = Folder::new("trim-missing");
        add(folder.client::<Missing>(None));
        assert!(matches!(cut(&folder, "2"), Err(TrimError::NoRun { runs: 1, .. })));
        assert!(matches!(cut(&folder, "square"), Err(TrimError::NoRun { runs: 0, .. })));
    }
}
