//! Tests the function table itself: no slot is null, every function is implemented, and null arguments cause an error
//! that names the function.

use std::collections::BTreeSet;

use crate::framework::{Answer, read_values, toy};
use device_plugin::ErrorCode;
use expect_test::expect;
use pjrt_sys::*;

/// Calls the function in slot `S` and returns its result. Returns `None` for the two functions that do not return an
/// error.
fn answer<S: Slot<Table = PJRT_Api>>(args: *mut S::Args) -> Option<Answer> {
    let function = S::get(toy().0).expect(S::NAME);
    if size_of::<S::Return>() == 0 {
        unsafe { function(args) };
        return None;
    }
    let returned = unsafe { function(args) };
    // The only other return type is an error pointer.
    let error: *mut PJRT_Error = unsafe { std::mem::transmute_copy(&returned) };
    // Three functions that create an object succeed with arguments that are all zero.
    if error.is_null() && S::NAME == "PJRT_Client_Create" {
        toy().destroy_client(unsafe { (*args.cast::<PJRT_Client_Create_Args>()).client });
    }
    if error.is_null() && S::NAME == "PJRT_Event_Create" {
        toy().destroy_event(unsafe { (*args.cast::<PJRT_Event_Create_Args>()).event });
    }
    if error.is_null() && S::NAME == "PJRT_ExecuteContext_Create" {
        let context = unsafe { (*args.cast::<PJRT_ExecuteContext_Create_Args>()).context };
        toy().ask::<slot::PJRT_ExecuteContext_Destroy>(|args| args.context = context).unwrap();
    }
    Some(toy().check(error))
}

macro_rules! every_slot {
    ($($slot:ident),* $(,)?) => {
        /// Returns the name of each function, its result for null arguments, and its result for arguments that are all
        /// zero.
        pub(crate) fn every_slot() -> Vec<(&'static str, Option<Answer>, Option<Answer>)> {
            vec![$((
                stringify!($slot),
                answer::<slot::$slot>(std::ptr::null_mut()),
                answer::<slot::$slot>(&mut AbiStruct::new()),
            )),*]
        }
    };
}
for_each_slot!(every_slot);

#[test]
fn header_matches_version() {
    let api = toy().0;
    assert_eq!(api.struct_size, PJRT_Api::STRUCT_SIZE);
    assert_eq!((api.pjrt_api_version.major_version, api.pjrt_api_version.minor_version), (0, 117));
    let mut chain = Vec::new();
    let mut extension = api.extension_start;
    while let Some(node) = unsafe { extension.as_ref() } {
        chain.push((node.type_.0, node.struct_size));
        extension = node.next;
    }
    assert_eq!(
        chain,
        [
            (4, PJRT_Layouts_Extension::STRUCT_SIZE),
            (19, PJRT_Shardings_Extension::STRUCT_SIZE),
            (6, PJRT_MemoryDescriptions_Extension::STRUCT_SIZE),
            (23, PJRT_HostMemoryAllocator_Extension::STRUCT_SIZE),
        ]
    );
}

#[test]
fn null_arguments_error_names_function() {
    let slots = every_slot();
    assert_eq!(slots.len(), 138);
    let mut messages = BTreeSet::new();
    for (name, null, _) in slots {
        if let Some(answer) = null {
            let fault = answer.expect_err(name);
            assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{name}");
            messages.insert(fault.message.strip_prefix(name).expect(name).to_owned());
        }
    }
    // The name is the only difference between the messages.
    expect![": args is null"].assert_eq(&messages.into_iter().collect::<String>());
}

#[test]
fn every_function_is_implemented() {
    // With arguments that are all zero, no function reaches an optional feature of the backend, so none may return
    // `UNIMPLEMENTED`.
    for (name, _, zeros) in every_slot() {
        assert!(
            !zeros.is_some_and(|answer| answer.is_err_and(|fault| fault.code == ErrorCode::UNIMPLEMENTED)),
            "{name}"
        );
    }
}

#[test]
fn null_handles_are_rejected() {
    for (name, _, zeros) in every_slot() {
        let may_be_null = name.ends_with("_Destroy")
            || ["PJRT_Plugin_Initialize", "PJRT_Plugin_Attributes", "PJRT_Event_Create", "PJRT_Client_Create"]
                .contains(&name)
            || name == "PJRT_ExecuteContext_Create";
        match zeros {
            None => {}
            Some(Ok(())) => assert!(may_be_null, "{name} accepts null handles"),
            Some(Err(fault)) => {
                assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT, "{name}: {fault:?}");
                assert!(!name.ends_with("_Destroy"), "{name}: {fault:?}");
            }
        }
    }
}

#[test]
fn attributes_pin_stablehlo_version() {
    let args = toy().ask::<slot::PJRT_Plugin_Attributes>(|_| {}).unwrap();
    let again = toy().ask::<slot::PJRT_Plugin_Attributes>(|_| {}).unwrap();
    assert_eq!(args.attributes, again.attributes);
    let values = unsafe { read_values(args.attributes, args.num_attributes) };
    let text: Vec<_> = values.iter().map(|value| format!("{}={}", value.name, value.value)).collect();
    assert_eq!(text, ["xla_version=2", "stablehlo_current_version=[1, 9, 0]", "stablehlo_minimum_version=[0, 9, 0]"]);
}

#[test]
fn misaligned_arguments_are_an_error() {
    let mut bytes = [0u8; 64];
    let at = bytes.as_mut_ptr().wrapping_add(1 + bytes.as_ptr().align_offset(8));
    let fault = answer::<slot::PJRT_Event_Destroy>(at.cast()).unwrap().unwrap_err();
    assert_eq!(fault.code, ErrorCode::INVALID_ARGUMENT);
    expect!["PJRT_Event_Destroy: args is not aligned"].assert_eq(&fault.message);
}
