//! Measures copies from a device to the host. Compares functions of `pjrt` with direct calls of the plugin's functions,
//! with and without an external reference to the buffer.
//!
//! Run it with `PJRT_TEST_PLUGINS=… cargo bench -p pjrt-rs --bench read`. Batches of the candidates alternate in one
//! process, with the same plugin. The benchmark prints medians over the batches.

use std::hint::black_box;

use pjrt::raw::{AsRaw, slot};
use pjrt::{ClientOptions, Plugin};
use pjrt_sys::*;

mod support;

/// Sizes of the copied buffers in bytes.
const SIZES: [usize; 4] = [4 << 10, 64 << 10, 1 << 20, 16 << 20];
const BATCHES: usize = 60;

type Function<A> = unsafe extern "C" fn(*mut A) -> *mut PJRT_Error;

/// The plugin's functions that the direct copies call.
struct Raw {
    to_host: Function<PJRT_Buffer_ToHostBuffer_Args>,
    ready_event: Function<PJRT_Buffer_ReadyEvent_Args>,
    event_await: Function<PJRT_Event_Await_Args>,
    event_destroy: Function<PJRT_Event_Destroy_Args>,
    increase: Function<PJRT_Buffer_IncreaseExternalReferenceCount_Args>,
    decrease: Function<PJRT_Buffer_DecreaseExternalReferenceCount_Args>,
    address: Function<PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args>,
}

/// Returns the function in the slot `S` of the plugin's table.
fn function<S: Slot<Table = PJRT_Api, Return = *mut PJRT_Error>>(plugin: &Plugin) -> Function<S::Args> {
    // SAFETY: C1: the slot holds a function of this type.
    unsafe { support::function::<S, Function<S::Args>>(plugin) }
}

/// Calls a function of the plugin. The arguments must be valid for the function.
fn call<A>(function: Function<A>, args: &mut A) {
    // SAFETY: C2: all callers in this file pass live objects and memory of the right size.
    let error = unsafe { function(args) };
    assert!(error.is_null(), "an error of the plugin");
}

impl Raw {
    fn new(plugin: &Plugin) -> Self {
        Self {
            to_host: function::<slot::PJRT_Buffer_ToHostBuffer>(plugin),
            ready_event: function::<slot::PJRT_Buffer_ReadyEvent>(plugin),
            event_await: function::<slot::PJRT_Event_Await>(plugin),
            event_destroy: function::<slot::PJRT_Event_Destroy>(plugin),
            increase: function::<slot::PJRT_Buffer_IncreaseExternalReferenceCount>(plugin),
            decrease: function::<slot::PJRT_Buffer_DecreaseExternalReferenceCount>(plugin),
            address: function::<slot::PJRT_Buffer_OpaqueDeviceMemoryDataPointer>(plugin),
        }
    }

    fn wait(&self, event: *mut PJRT_Event) {
        let mut wait = PJRT_Event_Await_Args::new();
        wait.event = event;
        call(self.event_await, &mut wait);
        let mut destroy = PJRT_Event_Destroy_Args::new();
        destroy.event = event;
        call(self.event_destroy, &mut destroy);
    }

    /// Copies the contents with `PJRT_Buffer_ToHostBuffer`.
    fn copy(&self, buffer: *mut PJRT_Buffer, target: &mut [f32]) {
        let mut args = PJRT_Buffer_ToHostBuffer_Args::new();
        args.src = buffer;
        args.dst = target.as_mut_ptr().cast();
        args.dst_size = size_of_val(target);
        call(self.to_host, &mut args);
        self.wait(args.event);
    }

    /// Copies the buffer's memory directly, while an external reference keeps the memory in place.
    fn copy_referenced(&self, buffer: *mut PJRT_Buffer, target: &mut [f32]) {
        let mut ready = PJRT_Buffer_ReadyEvent_Args::new();
        ready.buffer = buffer;
        call(self.ready_event, &mut ready);
        self.wait(ready.event);
        let mut increase = PJRT_Buffer_IncreaseExternalReferenceCount_Args::new();
        increase.buffer = buffer;
        call(self.increase, &mut increase);
        let mut address = PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args::new();
        address.buffer = buffer;
        call(self.address, &mut address);
        let source = address.device_memory_ptr.cast::<f32>();
        // SAFETY: C3: while the reference exists, the buffer's memory is readable for the size of `target`.
        unsafe { std::ptr::copy_nonoverlapping(source, target.as_mut_ptr(), target.len()) };
        let mut decrease = PJRT_Buffer_DecreaseExternalReferenceCount_Args::new();
        decrease.buffer = buffer;
        call(self.decrease, &mut decrease);
    }
}

fn main() {
    let plugins = std::env::var("PJRT_TEST_PLUGINS").unwrap_or_default();
    if plugins.is_empty() {
        println!("SKIPPED read: PJRT_TEST_PLUGINS names no plugin");
        return;
    }
    for path in plugins.split(':') {
        // SAFETY: whoever runs the benchmark vouches for the plugins in `PJRT_TEST_PLUGINS`.
        let plugin = unsafe { Plugin::load(path) }.unwrap_or_else(|error| panic!("{error}"));
        let raw = Raw::new(&plugin);
        let client = plugin.client(&ClientOptions::new()).expect("client");
        println!("{path}, API {}", plugin.api_version());
        for size in SIZES {
            let (len, batch) = (size / size_of::<f32>(), u32::try_from((4 << 20) / size).unwrap_or(1).clamp(1, 200));
            let data: Vec<f32> = (0..1000u16).map(f32::from).cycle().take(len).collect();
            let buffer = client.buffer_from_host(&data, &[i64::try_from(len).expect("small")]).expect("a buffer");
            buffer.wait().expect("its contents");
            let object = buffer.as_raw();
            let target = std::cell::RefCell::new(vec![0f32; len]);
            let repeat = |f: &dyn Fn(&mut [f32])| (0..batch).for_each(|_| f(&mut target.borrow_mut()));
            let times = support::in_turns(
                BATCHES,
                batch,
                &[
                    &|| repeat(&|target| raw.copy(object, target)),
                    &|| repeat(&|target| raw.copy_referenced(object, target)),
                    &|| repeat(&|target| buffer.download().copy_to(target).expect("a copy")),
                    &|| repeat(&|_| drop(black_box(buffer.to_host::<f32>().expect("a copy")))),
                    &|| repeat(&|_| drop(black_box(buffer.host_view::<f32>().expect("a view")))),
                    &|| repeat(&|target| black_box(target).copy_from_slice(&data)),
                ],
            );
            assert_eq!(*target.borrow(), data);
            let [copy, referenced, into, to_host, view, memory] = times[..] else { unreachable!("six candidates") };
            println!(
                "  {:>6} KiB: ToHostBuffer {copy:9.0} ns, with a reference {referenced:9.0} ns, memcpy {memory:9.0} ns; \
                 copy_to {into:9.0} ns (x{:.2}, x{:.2}), to_host {to_host:9.0} ns (x{:.2}), host_view {view:5.0} ns",
                size >> 10,
                into / copy,
                into / referenced,
                to_host / copy,
            );
        }
    }
}
