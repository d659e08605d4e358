//! Destroys objects in every order that PJRT allows, at any point of the executions that create them.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};

use device_plugin::NamedValue;
use pjrt_sys::*;

use crate::framework::{Buffer, Client, Event, Loaded, toy};
use crate::garbage::Random;
use crate::history::fixture;
use crate::toy::{abandon_gate, notes, open_gate};

/// An object that a framework may destroy once, at any time.
enum Object {
    Client(Client),
    Loaded(Loaded),
    Executable(*mut PJRT_Executable),
    Buffer(Buffer),
    Event(Event),
    Error(*mut PJRT_Error),
    Topology(*mut PJRT_TopologyDescription),
    Manager(*mut PJRT_AsyncHostToDeviceTransferManager),
    Context(*mut PJRT_ExecuteContext),
    Tracked(*mut PJRT_AsyncTrackingEvent),
}

impl Object {
    fn destroy(self) {
        match self {
            Self::Client(client) => toy().destroy_client(client),
            Self::Loaded(loaded) => toy().destroy_loaded(loaded),
            Self::Executable(executable) => fixture::destroy_executable(executable),
            Self::Buffer(buffer) => toy().destroy(&[buffer]),
            Self::Event(event) => toy().destroy_event(event),
            Self::Error(error) => fixture::destroy_error(error),
            Self::Topology(topology) => fixture::destroy_topology(topology),
            Self::Manager(manager) => fixture::destroy_manager(manager),
            Self::Context(context) => {
                toy().ask::<slot::PJRT_ExecuteContext_Destroy>(|args| args.context = context).map(drop).unwrap();
            }
            Self::Tracked(event) => {
                toy().ask::<slot::PJRT_AsyncTrackingEvent_Destroy>(|args| args.event = event).map(drop).unwrap();
            }
        }
    }
}

/// Number of calls of [`called`].
static CALLED: AtomicUsize = AtomicUsize::new(0);

unsafe extern "C" fn called(error: *mut PJRT_Error, _: *mut c_void) {
    let _ = toy().check(error);
    CALLED.fetch_add(1, Ordering::SeqCst);
}

unsafe extern "C" fn released(_: *mut c_void, count: *mut c_void) {
    unsafe { &*count.cast::<AtomicUsize>() }.fetch_add(1, Ordering::SeqCst);
}

/// Creates the objects of a client. Two buffers use the memory `lent` in place. One of these buffers is a view of
/// foreign memory, and `viewed` counts the releases of its memory. A pending read writes 8 bytes to `to`. The pending
/// execution waits for the gate `order-{seed}`.
fn objects(client: Client, seed: u64, lent: &'static [u8], viewed: &AtomicUsize, to: *mut u8) -> Vec<Object> {
    let mut all = vec![Object::Client(client)];
    let (devices, memories) = (toy().devices(client), toy().memories(client));
    let echo = toy().compile(client, "op=echo\nin=s32[2]").unwrap();
    let donate = toy().compile(client, "op=add_one\nin=s32[2]\ndonate=0").unwrap();
    let later = toy().compile(client, &format!("op=later\nin=s32[2]\ngate=order-{seed}")).unwrap();
    all.extend([echo, donate, later].map(Object::Loaded));
    let executable = toy().ask::<slot::PJRT_LoadedExecutable_GetExecutable>(|args| args.loaded_executable = echo);
    all.push(Object::Executable(executable.unwrap().executable));

    let input = toy().ints(client, &[1, 2]);
    let given = toy().ints(client, &[1, 2]);
    all.extend([input, given].map(Object::Buffer));
    let mut take = |outputs: Vec<Buffer>, event| {
        all.extend(outputs.into_iter().map(Object::Buffer));
        all.push(Object::Event(event));
    };
    let (outputs, event) = toy().execute(echo, &[input], 1).unwrap();
    let ready = outputs[0];
    take(outputs, event);
    let (outputs, event) = toy().execute(donate, &[given], 1).unwrap();
    take(outputs, event);
    let (outputs, event) = toy().execute(later, &[ready], 1).unwrap();
    let pending = outputs[0];
    toy().on_ready(event, called, null_mut()).unwrap();
    take(outputs, event);
    // Create objects that depend on the pending output: its event, a copy, a bitcast, and a read.
    all.push(Object::Event(toy().ready_event(pending)));
    let copy =
        toy().ask::<slot::PJRT_Buffer_CopyToDevice>(|args| (args.buffer, args.dst_device) = (pending, devices[1]));
    all.push(Object::Buffer(copy.unwrap().dst_buffer));
    let dims = [8i64];
    let cast = toy().ask::<slot::PJRT_Buffer_Bitcast>(|args| {
        (args.buffer, args.element_type) = (pending, PJRT_Buffer_Type::PJRT_Buffer_Type_U8);
        (args.dims, args.num_dims, args.device_layout) = (dims.as_ptr(), 1, null_mut());
    });
    all.push(Object::Buffer(cast.unwrap().out_buffer));
    all.push(Object::Event(toy().read_into(pending, to, 8).unwrap().0));

    // Create an alias that the framework never fulfills, and a donation whose callback it never calls.
    let shape = fixture::DIMS;
    let alias = toy().ask::<slot::PJRT_Client_CreateAliasBuffer>(|args| {
        (args.client, args.memory) = (client, memories[0]);
        (args.shape_dims, args.shape_num_dims, args.shape_element_type) = (shape.as_ptr(), 1, fixture::S32);
        args.shape_layout = null_mut();
    });
    all.push(Object::Buffer(alias.unwrap().alias_buffer));
    let waits = toy().ints(client, &[5, 6]);
    let donated = toy().ask::<slot::PJRT_Buffer_DonateWithControlDependency>(|args| args.buffer = waits).unwrap();
    all.extend([waits, donated.out_buffer].map(Object::Buffer));

    // Create buffers in memory that the framework lends or that belongs to another library.
    let (buffer, done) = toy().put_as(client, &crate::framework::pair(), lent.as_ptr(), None, 2, 2).unwrap();
    all.extend([Object::Buffer(buffer), Object::Event(done)]);
    let view = toy().ask::<slot::PJRT_Client_CreateViewOfDeviceBuffer>(|args| {
        (args.client, args.device, args.memory) = (client, null_mut(), memories[2]);
        args.device_buffer_ptr = lent.as_ptr().cast_mut().cast();
        (args.dims, args.num_dims, args.element_type) = (shape.as_ptr(), 1, fixture::S32);
        args.layout = null_mut();
        args.on_delete_callback = Some(released);
        args.on_delete_callback_arg = std::ptr::from_ref(viewed).cast_mut().cast();
        args.stream = 0;
    });
    all.push(Object::Buffer(view.unwrap().buffer));

    // Create two buffers without data. One is retrieved, and the other stays with its manager.
    let mut specs = [fixture::shape_spec(), fixture::shape_spec()];
    let manager = toy().ask::<slot::PJRT_Client_CreateBuffersForAsyncHostToDevice>(|args| {
        (args.client, args.memory, args.num_device_layouts) = (client, memories[0], 0);
        (args.shape_specs, args.num_shape_specs) = (specs.as_mut_ptr(), 2);
    });
    let manager = manager.unwrap().transfer_manager;
    all.extend([Object::Buffer(fixture::retrieve(manager)), Object::Manager(manager)]);

    all.extend([Object::Error(fixture::error()), Object::Topology(fixture::topology("pair"))]);
    all.extend([Object::Event(fixture::event()), Object::Event(fixture::ready())]);
    all.push(Object::Context(toy().ask::<slot::PJRT_ExecuteContext_Create>(|_| {}).unwrap().context));
    let tracked = toy().ask::<slot::PJRT_Device_CreateAsyncTrackingEvent>(|args| {
        (args.device, args.description_size) = (devices[0], 0);
    });
    all.push(Object::Tracked(tracked.unwrap().event));
    all
}

fn shuffle<T>(all: &mut [T], random: &mut Random) {
    for i in (1..all.len()).rev() {
        all.swap(i, random.below(i + 1));
    }
}

/// Memory that the framework lends. It is aligned for 32-bit integers.
static LENT: [u64; 1] = [0x0000_0002_0000_0001];

fn lent() -> &'static [u8] {
    unsafe { crate::framework::slice(LENT.as_ptr().cast::<u8>(), 8) }
}

fn one_life(seed: u64) {
    let mut random = Random::new(seed);
    let name = format!("order {seed:05}");
    let client = toy().client(&[NamedValue::new("name", name.as_str())]).unwrap();
    let viewed = AtomicUsize::new(0);
    // The destination outlives all objects, as PJRT requires.
    let mut to = [0u8; 8];
    let mut all = objects(client, seed, lent(), &viewed, to.as_mut_ptr());
    shuffle(&mut all, &mut random);
    // The pending execution ends before one of the destroy calls, or after all of them.
    let ends = random.below(all.len() + 1);
    let finish = || {
        let gate = format!("order-{seed}");
        if seed.is_multiple_of(3) { abandon_gate(&gate) } else { open_gate(&gate) }
    };
    // Destroy some objects on other threads, as frameworks with garbage collectors do.
    struct Anywhere(Object);
    unsafe impl Send for Anywhere {}
    let count = all.len();
    for (i, object) in all.into_iter().enumerate() {
        if i == ends {
            finish();
        }
        if random.below(4) == 0 {
            let object = Anywhere(object);
            let destroy = move || {
                let Anywhere(object) = { object };
                object.destroy();
            };
            std::thread::spawn(destroy).join().unwrap();
        } else {
            object.destroy();
        }
    }
    if ends == count {
        finish();
    }
    // The execution ends on a thread of the toy device, which releases the client afterwards.
    let closed = format!("{name} is closed");
    let start = std::time::Instant::now();
    while notes(&closed).is_empty() {
        assert!(start.elapsed().as_secs() < 20, "{name} is never closed");
        std::thread::yield_now();
    }
    assert_eq!(notes(&closed).len(), 1);
    assert_eq!(viewed.load(Ordering::SeqCst), 1, "the memory was not given back once");
}

#[test]
fn everything_is_destroyed_in_any_order() {
    const LIVES: usize = 300;
    let before = CALLED.load(Ordering::SeqCst);
    for seed in 0..LIVES {
        one_life(seed as u64);
    }
    // The callback of each pending event is called, regardless of which objects were destroyed before.
    let start = std::time::Instant::now();
    while CALLED.load(Ordering::SeqCst) < before + LIVES {
        assert!(start.elapsed().as_secs() < 20, "a callback was not called");
        std::thread::yield_now();
    }
    assert_eq!(CALLED.load(Ordering::SeqCst), before + LIVES);
}

#[test]
fn endless_operations_block_nothing() {
    for seed in 0..50 {
        let name = format!("endless {seed:03}");
        let client = toy().client(&[NamedValue::new("name", name.as_str())]).unwrap();
        let launch_id = 1000 + i32::try_from(seed).unwrap();
        let endless = toy().compile(client, &format!("op=endless\nin=s32[2]\ngate={name}")).unwrap();
        let input = toy().ints(client, &[1, 2]);
        let mut options = crate::framework::execute_options(&[]);
        options.launch_id = launch_id;
        let (mut output, mut event) = (null_mut(), null_mut());
        let (arguments, outputs) = ([(&raw const input)], [(&raw mut output)]);
        let answer = toy().ask::<slot::PJRT_LoadedExecutable_Execute>(|args| {
            (args.executable, args.options, args.execute_device) = (endless, &raw mut options, null_mut());
            (args.argument_lists, args.num_devices, args.num_args) = (arguments.as_ptr(), 1, 1);
            (args.output_lists, args.device_complete_events) = (outputs.as_ptr(), &raw mut event);
        });
        answer.map(drop).unwrap();
        let device = toy().devices(client)[1];
        let copy =
            toy().ask::<slot::PJRT_Buffer_CopyToDevice>(|args| (args.buffer, args.dst_device) = (output, device));
        let mut to = [0u8; 8];
        let read = toy().read_into(output, to.as_mut_ptr(), 8).unwrap().0;
        assert!(!toy().is_ready(event) && !toy().is_ready(read));
        assert!(!toy().is_deleted(output));
        let mut all = [
            Object::Client(client),
            Object::Loaded(endless),
            Object::Buffer(input),
            Object::Buffer(output),
            Object::Buffer(copy.unwrap().dst_buffer),
            Object::Event(event),
            Object::Event(read),
        ];
        shuffle(&mut all, &mut Random::new(seed));
        for object in all {
            object.destroy();
        }
        // The pending operations keep the client alive. It is freed when the device gives up on them.
        assert_eq!(notes(&format!("{name} is closed")).len(), 0);
        crate::toy::give_up(launch_id);
        assert_eq!(notes(&format!("{name} is closed")).len(), 1);
    }
}
