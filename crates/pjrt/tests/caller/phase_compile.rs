//! Tests the phase compile extension. No available plugin provides a phase compiler, so the tests implement the
//! extension themselves.

#![allow(clippy::multiple_unsafe_ops_per_block, clippy::undocumented_unsafe_blocks, reason = "a C plugin, in Rust")]
#![allow(clippy::disallowed_methods, reason = "a C plugin, in Rust")]

use std::ffi::c_char;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicIsize, AtomicPtr, Ordering::SeqCst};

use crate::plain::Plain;
use pjrt::extensions::PhaseCompile;
use pjrt::raw::AsRaw;
use pjrt::{ClientOptions, CompileOptions, ErrorKind, Plugin, StaticApi};
use pjrt_sys::*;

/// Number of compilers and returned buffers that exist.
static LIVE: AtomicIsize = AtomicIsize::new(0);
/// The error that [`run`] returns if no phases are requested. The plugin itself created it.
static ERROR: AtomicPtr<PJRT_Error> = AtomicPtr::new(null_mut());

fn answer(texts: Vec<Vec<u8>>) -> (*mut *const c_char, *const usize, usize) {
    LIVE.fetch_add(1, SeqCst);
    let sizes: Vec<usize> = texts.iter().map(Vec::len).collect();
    let count = texts.len();
    let texts: Vec<*const c_char> =
        texts.into_iter().map(|text| Box::into_raw(text.into_boxed_slice()).cast_const().cast()).collect();
    (Box::into_raw(texts.into_boxed_slice()).cast(), Box::into_raw(sizes.into_boxed_slice()).cast_const().cast(), count)
}

unsafe extern "C" fn get(args: *mut PJRT_PhaseCompile_Get_Compiler_Args) -> *mut PJRT_Error {
    LIVE.fetch_add(1, SeqCst);
    unsafe { (*args).phase_compiler = Box::into_raw(Box::new(7u64)).cast() };
    null_mut()
}

unsafe extern "C" fn destroy(args: *mut PJRT_PhaseCompile_Destroy_Compiler_Args) {
    LIVE.fetch_sub(1, SeqCst);
    drop(unsafe { Box::from_raw((*args).phase_compiler.cast::<u64>().cast_mut()) });
}

unsafe extern "C" fn names(args: *mut PJRT_PhaseCompile_Get_PhaseNames_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    assert_eq!(unsafe { *args.phase_compiler.cast::<u64>() }, 7);
    (args.phase_names, args.phase_names_sizes, args.num_phase_names) =
        answer(vec![b"parse".to_vec(), b"lower".to_vec()]);
    null_mut()
}

/// Returns each input program with the names of all phases appended.
unsafe extern "C" fn run(args: *mut PJRT_PhaseCompile_Run_Phase_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    let list = |texts: *mut *const c_char, sizes: *const usize, count: usize| -> Vec<Vec<u8>> {
        (0..count)
            .map(|i| unsafe { std::slice::from_raw_parts((*texts.add(i)).cast::<u8>(), *sizes.add(i)) }.to_vec())
            .collect()
    };
    let phases = list(args.phases_to_run, args.phases_to_run_sizes, args.num_phases_to_run);
    for (i, phase) in phases.iter().enumerate() {
        // Each name ends in a zero byte, which the size does not include.
        assert_eq!(unsafe { *(*args.phases_to_run.add(i)).add(phase.len()) }, 0);
    }
    assert!(!args.topology.is_null() && args.compile_options_size > 0);
    if phases.is_empty() {
        return ERROR.swap(null_mut(), SeqCst);
    }
    let mut programs = list(args.input_programs, args.input_programs_sizes, args.num_input_programs);
    programs.iter_mut().for_each(|program| program.extend(phases.concat()));
    (args.output_programs, args.output_programs_sizes, args.num_output_programs) = answer(programs);
    null_mut()
}

unsafe extern "C" fn free(args: *mut PJRT_PhaseCompile_C_Buffers_Destroy_Args) {
    LIVE.fetch_sub(1, SeqCst);
    let args = unsafe { &*args };
    let count = args.num_char_buffers;
    let texts = unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(args.char_buffers, count)) };
    let sizes = unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(args.char_buffer_sizes.cast_mut(), count)) };
    for (text, size) in texts.iter().zip(&sizes) {
        drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(text.cast::<u8>().cast_mut(), *size)) });
    }
}

fn plugin(change: impl FnOnce(&mut PJRT_PhaseCompile_Extension)) -> Plugin {
    let mut extension = PJRT_PhaseCompile_Extension::new();
    extension.base.type_ = PJRT_PhaseCompile_Extension::TYPE;
    extension.phase_compile_get_compiler = Some(get);
    extension.phase_compile_destroy_compiler = Some(destroy);
    extension.phase_compile_run_phases = Some(run);
    extension.phase_compile_get_phase_names = Some(names);
    extension.phase_compile_c_buffers_destroy = Some(free);
    change(&mut extension);
    let mut table = unsafe { *Plain::api().as_raw() };
    table.extension_start = (&raw mut *Box::leak(Box::new(extension))).cast();
    Plugin::from_static(unsafe { StaticApi::new(Box::leak(Box::new(table))) }).unwrap()
}

#[test]
fn lists_and_runs_phases_without_leaks() {
    let plugin = plugin(|_| {});
    let compiler = plugin.extension::<PhaseCompile>().unwrap().compiler().unwrap();
    assert_eq!(compiler.phase_names().unwrap(), ["parse", "lower"]);
    assert_eq!(unsafe { *compiler.as_raw().cast::<u64>() }, 7);
    let client = plugin.client(&ClientOptions::new()).unwrap();
    let topology = client.topology().unwrap();
    let options = CompileOptions::default();
    let run = |phases: &[&str]| compiler.run_phases(phases, &[b"one", b""], &options, &topology);
    assert_eq!(run(&["parse", "lower"]).unwrap(), [b"oneparselower".to_vec(), b"parselower".to_vec()]);
    // Let the plugin create an error by passing it a null event.
    let mut args = PJRT_Event_Await_Args::new();
    let error = unsafe { (*Plain::api().as_raw()).PJRT_Event_Await.unwrap()(&mut args) };
    ERROR.store(error, SeqCst);
    assert_eq!(run(&[]).unwrap_err().function(), Some("PJRT_PhaseCompile_Run_Phase"));
    let stranger = Plugin::from_static(Plain::api()).unwrap().client(&ClientOptions::new()).unwrap();
    let theirs = stranger.topology().unwrap();
    let refused = compiler.run_phases(&["parse"], &[], &options, &theirs).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    drop(compiler);
    assert_eq!(LIVE.load(SeqCst), 0);
}

#[test]
fn ignores_compiler_without_destructors() {
    for change in [(|e| e.phase_compile_get_compiler = None) as fn(&mut PJRT_PhaseCompile_Extension), |e| {
        e.phase_compile_c_buffers_destroy = None
    }] {
        let error = plugin(change).extension::<PhaseCompile>().unwrap().compiler().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
}
