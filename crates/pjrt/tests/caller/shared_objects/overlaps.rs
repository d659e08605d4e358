//! Tests that calls which supported plugins do not allow at the same time never overlap.
//!
//! The functions of the embedded device are replaced by functions that note which object they use. They pause
//! meanwhile, so that calls which can overlap do.

#![allow(clippy::multiple_unsafe_ops_per_block, reason = "elements of a C array of arrays")]

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::cases::CASES;
use crate::real::{compile, embedded};
use pjrt::{Client, ClientOptions, Plugin, StaticApi};
use pjrt_sys::*;

/// Serializes the tests of this file, because they share [`OBJECTS`].
static ALONE: Mutex<()> = Mutex::new(());

/// The calls that use an object at the moment, and its external references.
#[derive(Default)]
struct Object {
    calls: usize,
    reference_calls: usize,
    references: usize,
}

static OBJECTS: Mutex<Option<HashMap<usize, Object>>> = Mutex::new(None);
static BROKEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with<T>(object: usize, f: impl FnOnce(&mut Object) -> T) -> T {
    f(lock(&OBJECTS).get_or_insert_default().entry(object).or_default())
}

/// How a function may overlap with other functions on the same object.
#[derive(Clone, Copy, PartialEq)]
enum Rule {
    /// With every function that is neither `Alone` nor `Last`.
    Shared,
    /// With every function that is none of `Reference`, `Alone` and `Last`.
    Reference,
    /// With no function.
    Alone,
    /// With no function. Afterwards, the object no longer exists, and another object may get its address.
    Last,
}

/// Notes that a function uses the object until the returned value is dropped.
struct Using {
    object: usize,
    rule: Rule,
}

fn using<T>(function: &str, object: *const T, rule: Rule) -> Using {
    let object = object.addr();
    with(object, |now| {
        let overlaps = match rule {
            Rule::Shared => false,
            Rule::Reference => now.reference_calls > 0,
            Rule::Alone | Rule::Last => now.calls > 0,
        };
        if overlaps {
            lock(&BROKEN).push(format!("{function} runs beside another call"));
        }
        now.calls += 1;
        now.reference_calls += usize::from(rule == Rule::Reference);
    });
    if rule != Rule::Shared {
        std::thread::sleep(Duration::from_micros(20));
    }
    Using { object, rule }
}

impl Drop for Using {
    fn drop(&mut self) {
        with(self.object, |now| {
            now.calls -= 1;
            now.reference_calls -= usize::from(self.rule == Rule::Reference);
        });
    }
}

fn original() -> &'static PJRT_Api {
    static TABLE: OnceLock<usize> = OnceLock::new();
    let address = *TABLE.get_or_init(|| embedded().plugin().api().as_raw().expose_provenance());
    // SAFETY: C1: the function table stays readable until the process ends.
    unsafe { &*std::ptr::with_exposed_provenance::<PJRT_Api>(address) }
}

/// Replaces functions of the table. Each line names the function, its arguments, the field of the object and the rule.
macro_rules! watch {
    ($table:ident: $($function:ident($args:ident, $field:ident) $rule:ident;)*) => {
        $({
            unsafe extern "C" fn watched(args: *mut $args) -> *mut PJRT_Error {
                // SAFETY: the caller passes valid arguments.
                let object = unsafe { (*args).$field };
                let using = using(stringify!($function), object, Rule::$rule);
                let _using = (using.rule != Rule::Last).then_some(using);
                // SAFETY: the arguments are those of the caller, which are valid for this function.
                unsafe { original().$function.unwrap()(args) }
            }
            $table.$function = Some(watched);
        })*
    };
}

/// Counts the references that the plugin holds for a buffer.
fn count(buffer: *mut PJRT_Buffer, change: isize) {
    with(buffer.addr(), |object| {
        object.references = object.references.checked_add_signed(change).unwrap_or(usize::MAX);
        if object.references > 1 {
            lock(&BROKEN).push(format!("a buffer has {} external references of the plugin", object.references));
        }
    });
}

unsafe extern "C" fn increase(args: *mut PJRT_Buffer_IncreaseExternalReferenceCount_Args) -> *mut PJRT_Error {
    // SAFETY: the caller passes valid arguments.
    let buffer = unsafe { (*args).buffer };
    let _using = using("IncreaseExternalReferenceCount", buffer, Rule::Reference);
    count(buffer, 1);
    // SAFETY: the arguments are those of the caller, which are valid for this function.
    unsafe { original().PJRT_Buffer_IncreaseExternalReferenceCount.unwrap()(args) }
}

unsafe extern "C" fn decrease(args: *mut PJRT_Buffer_DecreaseExternalReferenceCount_Args) -> *mut PJRT_Error {
    // SAFETY: the caller passes valid arguments.
    let buffer = unsafe { (*args).buffer };
    let _using = using("DecreaseExternalReferenceCount", buffer, Rule::Reference);
    count(buffer, -1);
    // SAFETY: the arguments are those of the caller, which are valid for this function.
    unsafe { original().PJRT_Buffer_DecreaseExternalReferenceCount.unwrap()(args) }
}

unsafe extern "C" fn destroy(args: *mut PJRT_Buffer_Destroy_Args) -> *mut PJRT_Error {
    // SAFETY: the caller passes valid arguments.
    let buffer = unsafe { (*args).buffer };
    let using = using("Buffer_Destroy", buffer, Rule::Last);
    if with(buffer.addr(), |object| object.references) > 0 {
        lock(&BROKEN).push("a buffer with an external reference is destroyed".to_owned());
    }
    drop(using);
    // SAFETY: the arguments are those of the caller, which are valid for this function.
    unsafe { original().PJRT_Buffer_Destroy.unwrap()(args) }
}

unsafe extern "C" fn execute(args: *mut PJRT_LoadedExecutable_Execute_Args) -> *mut PJRT_Error {
    // SAFETY: the caller passes valid arguments.
    let run = unsafe { &*args };
    let _using = using("Execute", run.executable, Rule::Shared);
    let mut inputs = Vec::new();
    for device in 0..run.num_devices {
        for index in 0..run.num_args {
            // SAFETY: the lists have these lengths.
            let list = unsafe { *run.argument_lists.add(device) };
            // SAFETY: the lists have these lengths.
            inputs.push(using("Execute", unsafe { *list.add(index) }, Rule::Shared));
        }
    }
    // SAFETY: the arguments are those of the caller, which are valid for this function.
    unsafe { original().PJRT_LoadedExecutable_Execute.unwrap()(args) }
}

/// Returns a client of the embedded device whose functions are watched.
fn watched() -> Client {
    // SAFETY: C1: the function table is readable for its size.
    let mut table = unsafe { std::ptr::read(original()) };
    watch! { table:
        PJRT_Buffer_UnpaddedDimensions(PJRT_Buffer_UnpaddedDimensions_Args, buffer) Shared;
        PJRT_Buffer_DynamicDimensionIndices(PJRT_Buffer_DynamicDimensionIndices_Args, buffer) Shared;
        PJRT_Buffer_GetMemoryLayout(PJRT_Buffer_GetMemoryLayout_Args, buffer) Shared;
        PJRT_Buffer_OpaqueDeviceMemoryDataPointer(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args, buffer) Shared;
        PJRT_Buffer_ReadyEvent(PJRT_Buffer_ReadyEvent_Args, buffer) Shared;
        PJRT_Buffer_ToHostBuffer(PJRT_Buffer_ToHostBuffer_Args, src) Shared;
        PJRT_Buffer_CopyToMemory(PJRT_Buffer_CopyToMemory_Args, buffer) Shared;
        PJRT_Buffer_Delete(PJRT_Buffer_Delete_Args, buffer) Shared;
        PJRT_LoadedExecutable_Delete(PJRT_LoadedExecutable_Delete_Args, executable) Alone;
        PJRT_LoadedExecutable_IsDeleted(PJRT_LoadedExecutable_IsDeleted_Args, executable) Shared;
        PJRT_LoadedExecutable_GetDeviceAssignment(PJRT_LoadedExecutable_GetDeviceAssignment_Args, executable) Shared;
        PJRT_LoadedExecutable_Destroy(PJRT_LoadedExecutable_Destroy_Args, executable) Last;
        PJRT_Executable_Destroy(PJRT_Executable_Destroy_Args, executable) Last;
        PJRT_Executable_GetCostAnalysis(PJRT_Executable_GetCostAnalysis_Args, executable) Shared;
        PJRT_Executable_OptimizedProgram(PJRT_Executable_OptimizedProgram_Args, executable) Shared;
        PJRT_Executable_Serialize(PJRT_Executable_Serialize_Args, executable) Shared;
    }
    table.PJRT_Buffer_IncreaseExternalReferenceCount = Some(increase);
    table.PJRT_Buffer_DecreaseExternalReferenceCount = Some(decrease);
    table.PJRT_Buffer_Destroy = Some(destroy);
    table.PJRT_LoadedExecutable_Execute = Some(execute);
    // SAFETY: the table is that of the embedded device, and the replaced functions keep the contracts.
    let plugin = Plugin::from_static(unsafe { StaticApi::new(Box::leak(Box::new(table))) }).unwrap();
    plugin.client(&ClientOptions::new()).unwrap()
}

/// Fails if calls overlapped that must not, or if a buffer had more than one external reference.
fn check() {
    let mut broken = std::mem::take(&mut *lock(&BROKEN));
    let count = broken.len();
    broken.sort();
    broken.dedup();
    assert!(broken.is_empty(), "{count} times: {broken:#?}");
}

#[test]
fn no_calls_overlap_that_must_not() {
    let _alone = lock(&ALONE);
    let client = watched();
    for (object, case) in CASES {
        println!("{object}");
        case(&client, Duration::from_millis(50));
    }
    check();
}

/// References of all kinds share one reference of the plugin, which the last of them releases.
#[test]
fn plugin_counts_one_reference() {
    let _alone = lock(&ALONE);
    let client = watched();
    let x = client.buffer_from_host(&[1.0f32, 2.0], &[2]).unwrap();
    let references = |buffer: &pjrt::Buffer| with(pjrt::raw::AsRaw::as_raw(buffer).addr(), |object| object.references);
    let first = x.external_reference().unwrap();
    let view = x.host_view::<f32>().unwrap();
    assert_eq!(references(&x), 1);
    assert_eq!(x.to_host::<f32>().unwrap(), [1.0, 2.0]);
    drop(first);
    assert_eq!(references(&x), 1, "the view needs it");
    assert_eq!(*view, [1.0, 2.0]);
    drop(view);
    assert_eq!(references(&x), 0);
    assert_eq!(x.to_host::<f32>().unwrap(), [1.0, 2.0]);
    assert_eq!(references(&x), 0);
    drop(compile(&client, "func.func @main(%x: tensor<f32>) -> tensor<f32> { return %x : tensor<f32> }"));
    check();
}
