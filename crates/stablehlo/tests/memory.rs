//! Tests that the reader's memory use is proportional to the size of the program. A counting allocator measures it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

#[path = "formats/common.rs"]
mod common;

use common::{XorShift, mutate};

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

/// Returns the peak memory in bytes that reading `program` used, without the program itself.
fn peak(program: Vec<u8>) -> usize {
    let before = NOW.load(Relaxed);
    PEAK.store(before, Relaxed);
    drop(stablehlo::parse(program, stablehlo::VerifyLevel::FULL));
    PEAK.load(Relaxed) - before
}

// This file has only one test, because the allocations of tests that run concurrently would also be counted.
#[test]
fn memory_is_proportional_to_input() {
    let words: &[&[u8]] = &[
        &[0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F],
        &[0, 0, 0, 0, 0, 1, 0, 0, 0],
        &[0xFE, 0xFF],
        b"999999999999",
        b"x99999999x",
        b"[[[[",
        b"#0",
    ];
    let mut rng = XorShift(0xD1B5_4A32_D192_ED03);
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut files: Vec<_> = std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    for file in files {
        let program = std::fs::read(&file).unwrap();
        let honest = peak(program.clone());
        assert!(honest < 64 * program.len() + (1 << 19), "{}: {honest} bytes", file.display());
        for _ in 0..60 {
            let mutated = mutate(&mut rng, &program, words);
            let limit = 160 * mutated.len() + (2 << 20);
            let taken = peak(mutated);
            assert!(taken < limit, "{}: {taken} bytes for {}", file.display(), program.len());
        }
    }
}
