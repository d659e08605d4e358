//! Fuzzes the reader of recordings. Any bytes must result in blocks or an error, and the reader must not allocate much
//! memory. The reader rejects almost all changed files by their checksums, so the target also reads each input with
//! corrected checksums.
#![no_main]

use std::io::Cursor;

use libfuzzer_sys::fuzz_target;
use pjrt_record::{Body, Content, Reader, Summary, line, with_checksums};

/// Maximum size of the assembled data, in bytes.
const LIMIT: u64 = 1 << 22;

fuzz_target!(|bytes: &[u8]| {
    read(bytes.to_vec());
    read(with_checksums(bytes));
});

fn read(bytes: Vec<u8>) {
    let Ok(mut reader) = Reader::new(Cursor::new(bytes)) else { return };
    let _ = Summary::of(&mut reader);
    reader.rewind();
    while let Ok(Some(block)) = reader.read() {
        let _ = line(&block);
        if let Body::Data { hash, size } = &block.body {
            let content = Content { size: *size as u64, hashes: hash.as_bytes().to_vec() };
            let _ = reader.content(&content, LIMIT);
        }
    }
}
