//! Tests that this crate can still read a committed recording of the same major version of the format.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::io::Cursor;

use pjrt_record::{
    Arguments, ArrayType, Block, Body, BufferList, Call, ClientCreate, ClientDescription, Compile, Content, Contents,
    Device, Download, End, ExecutableDescription, Execute, Failure, Integers, Layout, MemoryLayout, NamedOption,
    Outcome, Process, ReadError, Reader, Snapshot, Stamp, State, Summary, Tiled, Upload, Value, Writer,
};

/// Path of the first recording of version 1.0. `UPDATE_EXPECT=1` writes this file. Do this only after a change of the
/// major version.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/version-1.0.pjrt");

/// Returns the blocks of the file, each with the data to which it refers.
fn blocks() -> Vec<(Body, Vec<u8>)> {
    let program =
        b"module @twice { func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> } }";
    let program = program.repeat(4);
    let data = |bytes: &[u8]| Some(Content::of(bytes));
    let array = || Some(ArrayType { element_type: 11, dimensions: vec![2, -1, 300] });
    let order = Layout::Tiled(Tiled { minor_to_major: vec![1, 0], tiles: vec![Integers { items: vec![8, 128] }] });
    let layout = || Some(MemoryLayout { layout: Some(order.clone()) });
    let call = |function: &str, arguments| Body::Call(Call { function: function.to_owned(), arguments });
    let option = |name: &str, value| NamedOption { name: name.to_owned(), value: Some(value) };
    let create = ClientCreate {
        options: vec![
            option("a", Value::String("é".to_owned())),
            option("b", Value::Int64(-3)),
            option("c", Value::Int64List(Integers { items: vec![1, -2] })),
            option("d", Value::Float(0.5)),
            option("e", Value::Bool(true)),
        ],
        framework_minor: 80,
        key_value_store: false,
    };
    let client = ClientDescription {
        platform_name: "test".to_owned(),
        devices: vec![Device { id: 0, kind: "kind".to_owned(), process_index: 0, addressable: true }],
        ..ClientDescription::default()
    };
    let compile = Compile { client: 1, format: "mlir".to_owned(), code: data(&program), options: data(b"options") };
    let executable = ExecutableDescription { name: "twice".to_owned(), outputs: array().into_iter().collect() };
    let upload = Upload {
        client: 1,
        array: array(),
        byte_strides: vec![4, -8],
        semantics: 2,
        device: Some(0),
        layout: layout(),
        data: data(b"input"),
        ..Upload::default()
    };
    let execute = Execute {
        executable: 2,
        arguments: vec![BufferList { buffers: vec![3, 4] }],
        non_donatable: vec![0],
        launch_id: -7,
        call_location: "train.py:7".to_owned(),
        ..Execute::default()
    };
    let objects = |object| Outcome { objects: vec![object], ..Outcome::default() };
    let outputs = Outcome { outputs: vec![BufferList { buffers: vec![5] }], deleted: vec![4], ..Outcome::default() };
    let failure = Some(Failure { code: 13, message: "broken".to_owned() });
    let plain = |body| (body, Vec::new());
    vec![
        plain(Body::Process(Process { recorder: "test".to_owned(), process: 7, ..Process::default() })),
        plain(call("PJRT_Client_Create", Some(Arguments::ClientCreate(create)))),
        plain(Body::Outcome(Outcome { client: Some(client), ..objects(1) })),
        (call("PJRT_Client_Compile", Some(Arguments::Compile(compile))), program),
        plain(Body::Outcome(Outcome { executable: Some(executable), ..objects(2) })),
        (call("PJRT_Client_BufferFromHostBuffer", Some(Arguments::Upload(upload))), b"input".to_vec()),
        plain(Body::Outcome(objects(3))),
        plain(Body::Snapshot(Snapshot {
            client: 1,
            buffer: 4,
            array: array(),
            failure: failure.clone(),
            ..Snapshot::default()
        })),
        plain(call("PJRT_LoadedExecutable_Execute", Some(Arguments::Execute(execute)))),
        plain(Body::Outcome(outputs)),
        plain(call(
            "PJRT_Buffer_ToHostBuffer",
            Some(Arguments::Download(Download { buffer: 5, size: 5, ..Download::default() })),
        )),
        plain(Body::Contents(Contents {
            buffer: 5,
            array: array(),
            layout: layout(),
            data: data(b"input"),
            ..Contents::default()
        })),
        plain(call("PJRT_FFI_Register_Handler", None)),
        plain(Body::Outcome(Outcome { failure, ..Outcome::default() })),
        plain(Body::End(End { calls: 5 })),
    ]
}

fn write() -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    for (at, (body, data)) in (0_u64..).zip(blocks()) {
        writer.store(&data).unwrap();
        writer.write(Stamp { call: at, thread: 2, nanos: 1 << 40 }, &body).unwrap();
    }
    file
}

fn read(file: Vec<u8>) -> Vec<Block> {
    let mut reader = Reader::new(Cursor::new(file)).unwrap();
    let mut blocks = Vec::new();
    while let Some(block) = reader.read().unwrap() {
        blocks.push(block);
    }
    assert_eq!(reader.state(), State::Complete);
    blocks
}

#[test]
fn first_version_is_readable() {
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        fs::write(FILE, write()).unwrap();
    }
    let file = fs::read(FILE).unwrap();
    let found = read(file.clone()).into_iter().filter(|block| !matches!(block.body, Body::Data { .. }));
    for ((at, found), (expected, _)) in (0_u64..).zip(found).zip(blocks()) {
        assert_eq!(found.body, expected);
        assert_eq!((found.stamp.call, found.stamp.thread, found.stamp.nanos), (at, 2, 1 << 40));
    }
    let mut reader = Reader::new(Cursor::new(file)).unwrap();
    while reader.read().unwrap().is_some() {}
    for (_, data) in blocks() {
        assert_eq!(reader.content(&Content::of(&data), 1 << 20).unwrap(), data);
    }
    assert!(matches!(reader.content(&Content::of(b"input"), 4), Err(ReadError::TooLarge { size: 5, limit: 4 })));
    assert!(matches!(reader.content(&Content::of(b"options"), 100), Err(ReadError::MissingData(_))));
}

#[test]
fn summary_counts_blocks() {
    let summary = Summary::of(&mut Reader::new(Cursor::new(write())).unwrap()).unwrap();
    assert_eq!((summary.runs.len(), summary.compared, summary.threads), (1, 1, 1));
    assert_eq!(summary.not_replayable.len(), 2, "{summary:?}");
    assert_eq!(summary.state, Some(State::Complete));
}

#[test]
fn data_are_cut_into_pieces() {
    let data: Vec<u8> = (0..(5 << 19)).map(|at: u32| (at / 997).to_le_bytes()[0]).collect();
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    let content = writer.store(&data).unwrap();
    assert_eq!((content.size, content.pieces().count()), (5 << 19, 3));
    writer.store(&data).unwrap();
    writer.write(Stamp::default(), &Body::End(End::default())).unwrap();
    assert_eq!(read(file.clone()).len(), 4);
    assert!(file.len() < data.len() / 4, "{}", file.len());
    let mut reader = Reader::new(Cursor::new(file)).unwrap();
    while reader.read().unwrap().is_some() {}
    assert_eq!(reader.content(&content, 1 << 30).unwrap(), data);
    let short = Content { size: 7, ..content.clone() };
    assert!(matches!(reader.content(&short, 1 << 30), Err(ReadError::Damaged { .. })));
}

#[test]
fn unknown_kinds_are_skipped() {
    let file = write();
    let mut changed = pjrt_record::split(&file);
    changed[0].kind = 99;
    let blocks = read(pjrt_record::join(&changed));
    assert_eq!(blocks[0].body, Body::Unknown(99));
    assert_eq!(blocks.len(), read(file).len());
}
