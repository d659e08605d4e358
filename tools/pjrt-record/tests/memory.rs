//! Tests that the memory of the readers is in proportion to the size of the file. A counting allocator measures it.
#![allow(missing_docs, clippy::unwrap_used, reason = "a test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::{Cursor, sink};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use pjrt_record::{
    Arguments, ArrayType, Body, BufferList, Call, Compile, Content, Contents, Copy, Device, Download, End,
    ExecutableDescription, Execute, NamedOption, Outcome, RawBlock, Reader, Selection, Stamp, Summary, Writer, join,
    line, split, trim,
};

/// Number of bytes that are currently allocated. `PEAK` is its maximum since the last reset.
static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is passed on to the system's allocator unchanged, and counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        PEAK.fetch_max(now, Relaxed);
        // SAFETY: the caller's promises about `layout` are those that the system's allocator requires.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `alloc` above returned `pointer` from the system's allocator for this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Returns the peak memory in bytes that `work` uses.
fn peak(work: impl FnOnce()) -> usize {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    work();
    PEAK.load(Relaxed) - before
}

/// Maximum size in bytes of the decoded form of a block, and of other memory that does not depend on the file.
const FREE: usize = 40 << 20;
/// Maximum memory for each byte of the file.
const PER_BYTE: usize = 64;

fn check(name: &str, file: &[u8]) {
    check_within(PER_BYTE, name, file);
}

/// Checks that the memory is at most `per_byte` times the size of the file.
fn check_within(per_byte: usize, name: &str, file: &[u8]) {
    let limit = per_byte * file.len() + FREE;
    let run = Selection { program: None, number: 1 };
    let read = || Reader::new(Cursor::new(file)).unwrap();
    let works: [(&str, &dyn Fn()); 3] = [
        ("info", &|| drop(Summary::of(&mut read()))),
        ("json", &|| {
            let mut reader = read();
            while let Ok(Some(block)) = reader.read() {
                drop(line(&block));
            }
        }),
        ("trim", &|| drop(trim(&mut read(), &run, sink()))),
    ];
    for (work, run) in works {
        let taken = peak(run);
        println!("{name}, {work}: {taken} bytes for {}", file.len());
        assert!(taken < limit, "{name}, {work}: {taken} bytes for {}", file.len());
    }
}

/// Writes a file with these calls and their outcomes.
fn file(calls: impl IntoIterator<Item = (Arguments, Outcome)>) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file).unwrap();
    for (call, (arguments, outcome)) in (1..).zip(calls) {
        let stamp = Stamp { call, thread: call, nanos: 0 };
        writer.write(stamp, &Body::Call(Call { function: "f".to_owned(), arguments: Some(arguments) })).unwrap();
        writer.write(stamp, &Body::Outcome(outcome)).unwrap();
    }
    writer.write(Stamp::default(), &Body::End(End::default())).unwrap();
    file
}

fn executable(outputs: Vec<ArrayType>) -> (Arguments, Outcome) {
    let executable = Some(ExecutableDescription { name: "p".repeat(5000), outputs });
    let outcome = Outcome { executable, objects: vec![1], ..Outcome::default() };
    (Arguments::Compile(Compile::default()), outcome)
}

fn run(inputs: Vec<u64>, outputs: Vec<u64>) -> (Arguments, Outcome) {
    let list = |buffers| vec![BufferList { buffers }];
    let execute = Execute { executable: 1, arguments: list(inputs), ..Execute::default() };
    (Arguments::Execute(execute), Outcome { outputs: list(outputs), ..Outcome::default() })
}

// This file has only one test, because the allocations of tests that run concurrently would also be counted.
#[test]
fn memory_is_proportional_to_file() {
    let steps = (0..20_000).map(|step| run(vec![step + 2], vec![step + 3]));
    check("loop", &file(std::iter::once(executable(Vec::new())).chain(steps)));

    let shapes = vec![ArrayType { element_type: 11, dimensions: vec![1; 500] }; 1000];
    let runs = || (0..1000).map(|_| run(Vec::new(), Vec::new()));
    check("shapes", &file(std::iter::once(executable(shapes)).chain(runs())));

    let scalars = vec![ArrayType { element_type: 11, dimensions: Vec::new() }; 30_000];
    let many = (0..10).map(|at| run((0..20_000).collect(), (at * 30_000..(at + 1) * 30_000).collect()));
    check("buffers", &file(std::iter::once(executable(scalars)).chain(many)));

    // Each run deletes other objects.
    let deleted = |at: u64| (0..100_000).map(move |object| (1 << 28) + 37 * (100_000 * at + object)).collect();
    let runs = (0..20).map(|at| {
        let (arguments, outcome) = run(vec![at], vec![at + 1]);
        (arguments, Outcome { deleted: deleted(at), ..outcome })
    });
    check_within(8, "deleted", &file(std::iter::once(executable(Vec::new())).chain(runs)));

    let devices = vec![Device::default(); 150_000];
    let client = Some(pjrt_record::ClientDescription { devices, ..Default::default() });
    check("devices", &file([(Arguments::Compile(Compile::default()), Outcome { client, ..Outcome::default() })]));

    let options = vec![NamedOption::default(); 150_000];
    let create = pjrt_record::ClientCreate { options, ..Default::default() };
    check("options", &file([(Arguments::ClientCreate(create), Outcome::default())]));

    let copies = (0..10_000).map(|at| {
        let copy = Copy { buffer: at, ..Copy::default() };
        (Arguments::Copy(copy), Outcome { objects: vec![at + 1], ..Outcome::default() })
    });
    check("copies", &file(copies));

    let unsupported = (0..50_000).map(|at| format!("{at}")).collect();
    let execute = Execute { unsupported, ..Execute::default() };
    check("names", &file([(Arguments::Execute(execute), Outcome::default())]));

    let downloads =
        (0..10_000).map(|at| (Arguments::Download(Download { buffer: at, ..Download::default() }), Outcome::default()));
    check("downloads", &file(downloads));

    // Blocks that a writer would not compress.
    let contents = Contents { data: Some(Content { size: 1, hashes: vec![0; 1 << 20] }), ..Contents::default() };
    let mut blocks = split(&file([(Arguments::Compile(Compile::default()), Outcome::default())]));
    for _ in 0..20 {
        let payload = prost::Message::encode_to_vec(&contents);
        blocks.push(RawBlock { kind: 5, stamp: Stamp::default(), payload });
    }
    check("compressed", &join(&blocks));
}
