//! Cases for memory that the caller lends to the device: views of memory, and registered memory.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use pjrt::{Function, Upload};

use crate::case::Profiles;
use crate::context::{Context, floats};
use crate::program::add_one;
use crate::raw::{View, view_from, view_of, with_view_of};
use crate::stop::Stop;
use crate::suite::Suite;

const VIEW: &[Function] = &[Function::PJRT_Client_CreateViewOfDeviceBuffer];
const MAPPING: &[Function] = &[Function::PJRT_Client_DmaMap, Function::PJRT_Client_DmaUnmap];

pub(crate) fn declare(suite: &mut Suite) {
    views(suite);
    more_views(suite);
    mappings(suite);
}

/// Returns [`Stop::Unsupported`] if the default device does not store its buffers in host memory.
fn requires_host_memory(cx: &Context) -> Result<(), Stop> {
    if cx.floats(&[1.0])?.is_on_cpu()? {
        return Ok(());
    }
    Err(Stop::Unsupported("the device's memory is not the host's".to_owned()))
}

/// Creates a view of host memory whose elements are the numbers 0 to 63.
fn view(cx: &Context) -> Result<View, Stop> {
    requires_host_memory(cx)?;
    view_of(&cx.memory()?)
}

/// Returns the expected output of a program that adds 1 to each element of a view with the elements `numbers`.
fn sums(numbers: &[f32]) -> Vec<f32> {
    numbers.iter().map(|number| number + 1.0).collect()
}

fn views(suite: &mut Suite) {
    let clause = "pjrt_c_api.h, PJRT_Client_CreateViewOfDeviceBuffer: creates a non-owned buffer, and calls \
                  on_delete_callback when the buffer is done with the memory";
    suite
        .case("buffers.view.contents", clause, "arrays of other libraries are imported without copies, as with DLPack")
        .profiles(Profiles::JAX)
        .functions(VIEW)
        .check(|cx| {
            let View { buffer, expected, .. } = view(cx)?;
            ensure_eq!(floats(&buffer)?, expected, "contents");
            Ok(())
        });
    suite
        .case("buffers.view.argument", clause, "programs run on imported arrays")
        .profiles(Profiles::JAX)
        .functions(VIEW)
        .check(|cx| {
            let View { buffer, expected, .. } = view(cx)?;
            let outputs = cx.compile(&add_one(expected.len()))?.execute(&[&buffer])?;
            ensure_eq!(floats(&outputs[0])?, sums(&expected), "results");
            ensure_eq!(floats(&buffer)?, expected, "contents after the run");
            Ok(())
        });
    suite
        .case("buffers.view.given_back_once", clause, "the owner frees the memory in the callback")
        .profiles(Profiles::JAX)
        .functions(VIEW)
        .check(|cx| {
            let View { buffer, given_back, .. } = view(cx)?;
            buffer.wait()?;
            ensure!(given_back.try_recv().is_err(), "the memory was given back while the buffer exists");
            drop(buffer);
            match given_back.recv_timeout(Duration::from_secs(10)) {
                Ok(()) => Ok(()),
                Err(RecvTimeoutError::Timeout) => fail!("the memory was not given back 10 s after the buffer's end"),
                Err(RecvTimeoutError::Disconnected) => fail!("the owner was dropped without a message"),
            }
        });
    suite
        .case("buffers.view.lives_until_run_ends", clause, "a run on another thread still reads the memory")
        .profiles(Profiles::JAX)
        .functions(VIEW)
        .check(|cx| {
            let View { buffer, expected, given_back } = view(cx)?;
            let executable = cx.compile(&add_one(expected.len()))?;
            let outputs = executable.execute(&[&buffer])?;
            drop(buffer);
            ensure_eq!(floats(&outputs[0])?, sums(&expected), "results");
            drop(outputs);
            ensure!(
                given_back.recv_timeout(Duration::from_secs(10)).is_ok(),
                "the memory was not given back within 10 s"
            );
            Ok(())
        });
}

fn more_views(suite: &mut Suite) {
    let clause = "pjrt_c_api.h, PJRT_Client_CreateViewOfDeviceBuffer: creates a non-owned buffer from a pointer of the \
                  device";
    suite
        .case("buffers.view.of_device_memory", clause, "DLPack imports arrays that another library has on the device")
        .profiles(Profiles::JAX)
        .functions(VIEW)
        .functions(&[
            Function::PJRT_Buffer_IncreaseExternalReferenceCount,
            Function::PJRT_Buffer_DecreaseExternalReferenceCount,
            Function::PJRT_Buffer_OpaqueDeviceMemoryDataPointer,
        ])
        .check(|cx| {
            // Use a large array. XLA's CPU plugins require aligned memory for a view, and may keep small arrays in
            // unaligned memory.
            let data: Vec<f32> = (0..1024u16).map(f32::from).collect();
            let buffer = cx.floats(&data)?;
            buffer.wait()?;
            with_view_of(&buffer, |view| {
                ensure_eq!(floats(view)?, data, "contents of the view");
                let outputs = cx.compile(&add_one(data.len()))?.execute(&[view])?;
                ensure_eq!(floats(&outputs[0])?, sums(&data), "results");
                Ok(())
            })?;
            ensure_eq!(floats(&buffer)?, data, "contents after the view was destroyed");
            Ok(())
        });
    suite
        .case(
            "buffers.view.unaligned",
            "XLA: rejects a pointer with less than the alignment of its own memory; a plugin may also accept it",
            "a slice of another library's array has any alignment, and vector code that ignores it crashes",
        )
        .profiles(Profiles::JAX)
        .functions(VIEW)
        .isolated()
        .check(|cx| {
            requires_host_memory(cx)?;
            let Ok(View { buffer, expected, .. }) = view_from(&cx.memory()?, 1) else { return Ok(()) };
            ensure_eq!(floats(&buffer)?, expected, "contents");
            let outputs = cx.compile(&add_one(expected.len()))?.execute(&[&buffer])?;
            ensure_eq!(floats(&outputs[0])?, sums(&expected), "results");
            Ok(())
        });
    suite
        .case("buffers.view.copied", clause, "an imported array is copied to another device, and freed meanwhile")
        .profiles(Profiles::JAX)
        .functions(VIEW)
        .functions(&[Function::PJRT_Buffer_CopyToDevice])
        .devices(2)
        .check(|cx| {
            let devices = cx.devices(2)?;
            let View { buffer, expected, given_back } = view(cx)?;
            let copy = buffer.copy_to(&devices[1])?;
            drop(buffer);
            ensure_eq!(floats(&copy)?, expected, "contents of the copy");
            drop(copy);
            ensure!(
                given_back.recv_timeout(Duration::from_secs(10)).is_ok(),
                "the memory was not given back within 10 s"
            );
            Ok(())
        });
}

fn mappings(suite: &mut Suite) {
    let clause =
        "pjrt_c_api.h, PJRT_Client_DmaMap: maps memory for direct access by devices, until PJRT_Client_DmaUnmap";
    suite
        .case("buffers.dma.upload", clause, "frameworks pin the memory of their input pipelines")
        .profiles(Profiles::FULL)
        .functions(MAPPING)
        .check(|cx| {
            let client = cx.client()?;
            let data: Vec<u8> = (0..2048u16).flat_map(u16::to_ne_bytes).collect();
            let mapping = client.dma_map(data.clone())?;
            let buffer = client.upload(Upload::owned(mapping.clone()).dims(&[4096]))?;
            ensure_eq!(buffer.download().start_bytes()?.wait()?, data, "contents");
            drop(mapping);
            ensure_eq!(buffer.download().start_bytes()?.wait()?, data, "contents after the mapping was dropped");
            Ok(())
        });
    suite
        .case("buffers.dma.mapped_again", clause, "a pool registers the same pages again after it has released them")
        .profiles(Profiles::FULL)
        .functions(MAPPING)
        .check(|cx| {
            let client = cx.client()?;
            let pages: Arc<[u8]> = vec![7u8; 1 << 16].into();
            for _ in 0..3 {
                drop(client.dma_map(Arc::clone(&pages))?);
            }
            Ok(())
        });
}
