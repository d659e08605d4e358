//! Tests faults in vendor code that the functions of the optional extensions call.

use std::sync::atomic::Ordering;

use device_plugin::ErrorCode;
use pjrt_sys::*;

use super::faulty::{Kind, LIVE, arm, disarm};
use super::{Case, DATA, EXCLUSIVE, Fixture, fails, methods, plugin};
use crate::extensions::ask_of;
use crate::framework::Answer;
use crate::profiler;

fn ask<S: Slot<Table: Extension, Return = *mut PJRT_Error>>(set: impl FnOnce(&mut S::Args)) -> Answer<S::Args> {
    ask_of::<S>(plugin(), set)
}

fn alias(fixture: &Fixture) -> *mut PJRT_RawBuffer {
    let alias = ask::<extension_slot::PJRT_RawBuffer_CreateRawAliasOfBuffer>(|args| args.buffer = fixture.buffer);
    alias.unwrap().raw_buffer
}

/// Calls a function with a new raw alias of the fixture's buffer. Destroys the alias even if the call fails.
fn with_alias(fixture: &Fixture, call: impl FnOnce(*mut PJRT_RawBuffer) -> Answer) -> Answer {
    let raw = alias(fixture);
    let answer = call(raw);
    ask::<extension_slot::PJRT_RawBuffer_Destroy>(|args| args.buffer = raw).unwrap();
    answer
}

const FALLIBLE: &[Case] = &[
    ("stream_for_external_ready_events", "PJRT_Get_Stream_For_External_Ready_Events", |w| {
        ask::<extension_slot::PJRT_Get_Stream_For_External_Ready_Events>(|args| args.device = w.device()).map(drop)
    }),
    ("wait_until_buffer_ready_on_stream", "PJRT_Wait_Until_Buffer_Ready_On_Stream", |w| {
        let wait = ask::<extension_slot::PJRT_Wait_Until_Buffer_Ready_On_Stream>(|args| {
            (args.stream, args.buffer) = (1, w.buffer);
        });
        wait.map(drop)
    }),
    ("read_raw", "PJRT_RawBuffer_CopyRawDeviceToHost", |w| {
        with_alias(w, |raw| {
            let mut bytes = [0u8; 2];
            let args = ask::<extension_slot::PJRT_RawBuffer_CopyRawDeviceToHost>(|args| {
                (args.buffer, args.dst) = (raw, bytes.as_mut_ptr().cast());
                (args.offset, args.transfer_size) = (0, 2);
            })?;
            plugin().wait(args.event)?;
            assert_eq!(bytes, DATA);
            Ok(())
        })
    }),
    ("write_raw", "PJRT_RawBuffer_CopyRawHostToDevice", |w| {
        with_alias(w, |raw| {
            let args = ask::<extension_slot::PJRT_RawBuffer_CopyRawHostToDevice>(|args| {
                (args.buffer, args.src) = (raw, DATA.as_ptr().cast());
                (args.offset, args.transfer_size) = (0, 2);
            })?;
            plugin().wait(args.event)
        })
    }),
];

const INFALLIBLE: &[Case] = &[
    ("raw_host_pointer", "PJRT_RawBuffer_GetHostPointer", |w| {
        with_alias(w, |raw| ask::<extension_slot::PJRT_RawBuffer_GetHostPointer>(|args| args.buffer = raw).map(drop))
    }),
    ("on_device_size", "PJRT_RawBuffer_GetOnDeviceSizeInBytes", |w| {
        with_alias(w, |raw| {
            ask::<extension_slot::PJRT_RawBuffer_GetOnDeviceSizeInBytes>(|args| args.buffer = raw).map(drop)
        })
    }),
    ("on_device_size", "PJRT_RawBuffer_CopyRawDeviceToHost", FALLIBLE[2].2),
    ("on_device_size", "PJRT_RawBuffer_CopyRawHostToDevice", FALLIBLE[3].2),
];

/// Methods of `Profiler`. They do not belong to a client, so they have tests of their own.
const PROFILE: &[&str] = &["profile_started", "profile_stopping"];

#[test]
fn every_extension_method_has_case() {
    let sources = [
        (include_str!("../../../src/features/streams.rs"), "Streams"),
        (include_str!("../../../src/features/raw_buffers.rs"), "RawBuffers"),
        (include_str!("../../../src/features/profiler.rs"), "Profiler"),
    ];
    let methods: Vec<_> = sources.into_iter().flat_map(|(source, name)| methods(source, name)).collect();
    assert!(methods.len() > 6, "{methods:?}");
    let cases: Vec<_> = FALLIBLE.iter().chain(INFALLIBLE).map(|case| case.0).chain(PROFILE.iter().copied()).collect();
    let missing: Vec<_> = methods.iter().filter(|method| !cases.contains(&method.as_str())).collect();
    assert_eq!(missing, [""; 0], "write cases for these methods in tests/protocol/faults/extensions.rs");
}

#[test]
fn extension_methods_panic_or_fail() {
    let _turn = EXCLUSIVE.turn();
    let fixture = Fixture::new();
    for case in FALLIBLE {
        fails(case, Kind::Error, &fixture);
    }
    for case in FALLIBLE.iter().chain(INFALLIBLE) {
        for kind in [Kind::Panic, Kind::PanicTwice] {
            fails(case, kind, &fixture);
        }
    }
    fixture.end();
    assert_eq!(LIVE.load(Ordering::Relaxed), 0);
}

#[test]
fn alias_value_panics_in_clone_and_drop() {
    let _turn = EXCLUSIVE.turn();
    let fixture = Fixture::new();
    let live = LIVE.load(Ordering::Relaxed);
    arm("Buffer::clone", Kind::Panic);
    let answer = ask::<extension_slot::PJRT_RawBuffer_CreateRawAliasOfBuffer>(|args| args.buffer = fixture.buffer);
    // The SDK may share the value with the alias or clone it.
    if disarm() {
        assert!(answer.map(drop).unwrap_err().message.contains("asked to panic in Buffer::clone"));
    } else {
        ask::<extension_slot::PJRT_RawBuffer_Destroy>(|args| args.buffer = answer.unwrap().raw_buffer).unwrap();
    }
    let buffer = fixture.put().unwrap();
    let raw = ask::<extension_slot::PJRT_RawBuffer_CreateRawAliasOfBuffer>(|args| args.buffer = buffer).unwrap();
    plugin().destroy(&[buffer]);
    arm("Buffer::drop", Kind::PanicTwice);
    ask::<extension_slot::PJRT_RawBuffer_Destroy>(|args| args.buffer = raw.raw_buffer).unwrap();
    assert!(disarm(), "the alias was the last to hold the value");
    assert_eq!(LIVE.load(Ordering::Relaxed), live);
    fixture.end();
}

#[test]
fn failed_profile_does_not_affect_next() {
    let _profiles = profiler::EXCLUSIVE.turn();
    for (kind, code) in [
        (Kind::Panic, ErrorCode::INTERNAL),
        (Kind::PanicTwice, ErrorCode::INTERNAL),
        (Kind::Error, ErrorCode::DATA_LOSS),
    ] {
        for method in PROFILE {
            let profile = profiler::Profile::of(plugin());
            arm(method, kind);
            let begun = profile.start();
            if *method == "profile_started" {
                assert_eq!(begun.unwrap_err().code, code);
                assert!(!device_plugin::profiler::is_recording());
            } else {
                begun.unwrap();
                assert_eq!(profile.stop().unwrap_err().code, code);
            }
            assert!(disarm(), "{method}");
            assert!(!device_plugin::profiler::is_recording());
            profile.start().unwrap();
            profile.stop().unwrap();
            profile.destroy();
            // Destroy a profile while it is running.
            let profile = profiler::Profile::of(plugin());
            profile.start().unwrap();
            arm("profile_stopping", kind);
            profile.destroy();
            assert!(disarm());
            assert!(!device_plugin::profiler::is_recording());
        }
    }
}
