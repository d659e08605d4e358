//! Memory that the caller lends to the device: views of memory and registered memory.

use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use pjrt::{Function, Placement};

use crate::case::Profiles;
use crate::context::{Context, floats};
use crate::program::add_one;
use crate::raw::{View, view_of};
use crate::stop::Stop;
use crate::suite::Suite;

const VIEW: &[Function] = &[Function::PJRT_Client_CreateViewOfDeviceBuffer];
const MAPPING: &[Function] = &[Function::PJRT_Client_DmaMap, Function::PJRT_Client_DmaUnmap];

pub(crate) fn declare(suite: &mut Suite) {
    views(suite);
    mappings(suite);
}

/// A view of the numbers 0, 1, 2, … in memory of the host, if devices compute on such memory.
fn view(cx: &Context) -> Result<View, Stop> {
    if !cx.floats(&[1.0])?.is_on_cpu()? {
        return Err(Stop::Unsupported("the device's memory is not the host's".to_owned()));
    }
    view_of(cx.client()?, &cx.memory()?)
}

/// The results of a program that adds one to the numbers of a view.
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
            let buffer = client.buffer_from_owned(mapping.clone(), &[4096], Placement::Default)?;
            ensure_eq!(buffer.to_host_bytes_async()?.wait()?, data, "contents");
            drop(mapping);
            ensure_eq!(buffer.to_host_bytes_async()?.wait()?, data, "contents after the mapping was dropped");
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
