//! Measures the time that the layer `record` adds to a call: `cargo bench -p pjrt-layers --bench record`.
//!
//! Calls functions of a plugin that does nothing, directly and through the layer. The layer writes its file to the
//! folder for temporary files. Prints the median of several rounds, in microseconds of processor time of the calling
//! thread, and the number of bytes that a call adds to the file. Rounds of direct calls alternate with rounds through
//! the layer.
#![allow(missing_docs, clippy::unwrap_used, reason = "a benchmark")]

#[macro_use]
#[path = "../tests/layers/fake.rs"]
mod fake;
mod timing;

use std::fs;
use std::path::Path;
use std::ptr::{null_mut, without_provenance_mut};

use pjrt_layers::record::{Record, Target};
use pjrt_layers::{Stack, instance};
use pjrt_sys::{
    AbiStruct, PJRT_Api, PJRT_Buffer_Delete_Args, PJRT_Buffer_IsDeleted_Args, PJRT_Buffer_Type,
    PJRT_Client_BufferFromHostBuffer_Args, PJRT_Event_IsReady_Args, PJRT_LoadedExecutable_Execute_Args, StaticApi,
};
use timing::{median, nanoseconds};

const ROUNDS: usize = 21;

/// Value of every handle of the fake plugin. The benchmark never dereferences a handle.
const HANDLE: usize = 0x1000;
const ARGUMENTS: usize = 4;

fakes! {
    is_deleted(_args: PJRT_Buffer_IsDeleted_Args) {}
    is_ready(args: PJRT_Event_IsReady_Args) { args.is_ready = true.into(); }
    delete(_args: PJRT_Buffer_Delete_Args) {}
    upload(args: PJRT_Client_BufferFromHostBuffer_Args) { args.buffer = without_provenance_mut(HANDLE); }
    execute(args: PJRT_LoadedExecutable_Execute_Args) {
        // SAFETY: V1: the benchmark passes one output list.
        let list = unsafe { *args.output_lists };
        // SAFETY: V1: the list has space for one output.
        unsafe { *list = without_provenance_mut(HANDLE) };
    }
}

instance!(Recorded);

fn main() {
    let plugin = fake::fake(117, |table| {
        table.PJRT_Buffer_IsDeleted = Some(is_deleted);
        table.PJRT_Event_IsReady = Some(is_ready);
        table.PJRT_Buffer_Delete = Some(delete);
        table.PJRT_Client_BufferFromHostBuffer = Some(upload);
        table.PJRT_LoadedExecutable_Execute = Some(execute);
    });
    let folder = std::env::temp_dir().join(format!("pjrt-record-bench-{}", std::process::id()));
    let record = Record::new(Target { folder: Some(folder.clone()), ..Target::default() });
    let recorded = Stack::start::<Recorded>(plugin, vec![Box::new(record)]);
    let mut bench = Bench { tables: [plugin, recorded], folder: &folder };

    println!("{:<44} {:>10} {:>10} {:>8}", "call", "direct us", "record us", "bytes");
    bench.measure("PJRT_Buffer_IsDeleted (not recorded)", 1000, |table| {
        ask!(table, PJRT_Buffer_IsDeleted, PJRT_Buffer_IsDeleted_Args {});
    });
    bench.measure("PJRT_Event_IsReady (not recorded)", 1000, |table| {
        ask!(table, PJRT_Event_IsReady, PJRT_Event_IsReady_Args { event: without_provenance_mut(HANDLE) });
    });
    for (name, size) in [("16 B", 16_usize), ("4 KiB", 4 << 10), ("1 MiB", 1 << 20)] {
        let calls = if size > 1 << 16 { 4 } else { 200 };
        let same = vec![7; size];
        bench.measure(&format!("PJRT_Client_BufferFromHostBuffer, same {name}"), calls, |table| {
            upload_bytes(table, &same);
        });
        let mut new = (0..size).map(|at| u8::try_from(at * at / 7 % 251).unwrap()).collect::<Vec<u8>>();
        let mut number = 0_u64;
        bench.measure(&format!("PJRT_Client_BufferFromHostBuffer, new {name}"), calls, move |table| {
            number += 1;
            new[..8].copy_from_slice(&number.to_le_bytes());
            upload_bytes(table, &new);
        });
    }
    bench.measure("PJRT_LoadedExecutable_Execute, 4 arguments", 1000, |table| {
        fake::run(table, without_provenance_mut(HANDLE), &[without_provenance_mut(HANDLE); ARGUMENTS], null_mut());
    });
    bench.measure("PJRT_Buffer_Delete", 1000, |table| {
        ask!(table, PJRT_Buffer_Delete, PJRT_Buffer_Delete_Args { buffer: without_provenance_mut(HANDLE) });
    });
    fs::remove_dir_all(&folder).unwrap();
}

fn upload_bytes(table: &PJRT_Api, data: &[u8]) {
    let dims = [i64::try_from(data.len()).unwrap()];
    fake::upload(table, null_mut(), data, PJRT_Buffer_Type::PJRT_Buffer_Type_U8, &dims);
}

/// The function tables of the plugin and of the layer `record`, which writes to `folder`.
struct Bench<'a> {
    tables: [StaticApi; 2],
    folder: &'a Path,
}

impl Bench<'_> {
    fn measure(&mut self, name: &str, calls: u32, mut call: impl FnMut(&PJRT_Api)) {
        let mut times = [Vec::new(), Vec::new()];
        let before = self.written();
        for _ in 0..ROUNDS {
            for (api, times) in self.tables.iter().zip(&mut times) {
                let table = fake::table(*api);
                times.push(nanoseconds(calls, || call(table)));
            }
        }
        let bytes = (self.written() - before) / (u64::from(calls) * ROUNDS as u64);
        let [direct, recorded] = times.map(|times| median(times) / 1000.0);
        println!("{name:<44} {direct:>10.3} {recorded:>10.3} {bytes:>8}");
    }

    /// Returns the current size of the recording in bytes, or 0 if `folder` does not exist yet.
    fn written(&self) -> u64 {
        let Ok(entries) = fs::read_dir(self.folder) else { return 0 };
        entries.map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
    }
}
