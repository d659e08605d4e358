//! Tests the extension for collectives between hosts. Only TPU plugins provide this extension, so the tests implement
//! it themselves. Each simulated device is a thread.

#![allow(clippy::multiple_unsafe_ops_per_block, clippy::undocumented_unsafe_blocks, reason = "a C plugin, in Rust")]
#![allow(clippy::disallowed_methods, reason = "a C plugin, in Rust")]

use std::collections::{BTreeMap, HashMap};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicIsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex};
use std::thread;
use std::time::Duration;

use expect_test::{Expect, expect};

use crate::plain::Plain;
use crate::table_extensions::assert_missing;
use pjrt::extensions::{
    CollectiveReduction, CollectiveRun, CollectiveScope, Collectives, Communicator, Megascale, MegascaleContext,
    Processes,
};
use pjrt::raw::AsRaw;
use pjrt::{ErrorCode, ErrorKind, Plugin, StaticApi};
use pjrt_sys::*;

/// Number of objects of the extension that exist.
static LIVE: AtomicIsize = AtomicIsize::new(0);
/// Each test holds this lock, because the tests share the counter `LIVE`.
static TEST: Mutex<()> = Mutex::new(());

/// The elements that devices sent, by operation id and by rank.
static SENT: Mutex<BTreeMap<i64, HashMap<usize, Vec<i32>>>> = Mutex::new(BTreeMap::new());
static ARRIVED: Condvar = Condvar::new();

#[derive(Clone, Copy)]
struct Rank {
    rank: usize,
    size: usize,
}

fn own<T, U>(object: T) -> *mut U {
    LIVE.fetch_add(1, SeqCst);
    Box::into_raw(Box::new(object)).cast()
}

unsafe fn free<T, U>(object: *mut U) {
    LIVE.fetch_sub(1, SeqCst);
    drop(unsafe { Box::from_raw(object.cast::<T>()) });
}

unsafe extern "C" fn context(args: *mut PJRT_Megascale_CreateDefaultClientContext_Args) -> *mut PJRT_Error {
    unsafe { (*args).client_context = own(()) };
    null_mut()
}

unsafe extern "C" fn delete(args: *mut PJRT_Megascale_DeleteClientContext_Args) -> *mut PJRT_Error {
    unsafe { free::<(), _>((*args).client_context) };
    null_mut()
}

unsafe extern "C" fn create(args: *mut PJRT_Megascale_CreateMegascaleCollectives_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    let info = unsafe { &*args.processes_info };
    let address = |index| {
        let (text, size) = unsafe { (*info.addresses.add(index), *info.address_sizes.add(index)) };
        unsafe { std::slice::from_raw_parts(text.cast::<u8>(), size) }
    };
    assert_eq!((info.num_addresses, address(0), address(1)), (2, &b"a:1"[..], &b"host:2"[..]));
    assert_eq!((info.num_slice_indexes, info.num_devices_per_process), (2, 1));
    assert_eq!(unsafe { std::slice::from_raw_parts(info.slice_indexes, 2) }, [0, 1]);
    assert!(info.per_slice_indexes.is_null() && info.num_per_slice_indexes == 0);
    assert_eq!(args.dcn_topology_size, 3);
    args.collectives = own(());
    null_mut()
}

unsafe extern "C" fn destroy(args: *mut PJRT_Collectives_Destroy_Args) -> *mut PJRT_Error {
    unsafe { free::<(), _>((*args).collectives) };
    null_mut()
}

unsafe extern "C" fn communicators(args: *mut PJRT_Collectives_CreateCommunicators_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    // If the test passes clique ids, create one communicator too few, to test that `pjrt` checks the number of
    // communicators.
    let missing = usize::from(!args.clique_ids.is_null());
    let ranks = unsafe { std::slice::from_raw_parts(args.rank_ids, args.num_device_ranks - missing) };
    let rank = |rank: &i64| own(Rank { rank: usize::try_from(*rank).unwrap(), size: args.num_device_ids });
    let list: Vec<*mut PJRT_Collectives_Communicator> = ranks.iter().map(rank).collect();
    (args.communicators, args.num_communicators) = (list.as_ptr().cast_mut(), list.len());
    args.communicators_holder = own(list);
    args.communicators_holder_deleter = Some(free_list);
    null_mut()
}

unsafe extern "C" fn free_list(list: *mut PJRT_Collectives_Communicators) {
    unsafe { free::<Vec<*mut PJRT_Collectives_Communicator>, _>(list) };
}

unsafe extern "C" fn leave(args: *mut PJRT_Collectives_Communicator_Destroy_Args) -> *mut PJRT_Error {
    unsafe { free::<Rank, _>((*args).communicator) };
    null_mut()
}

unsafe extern "C" fn describe(args: *mut PJRT_Collectives_Communicator_ToString_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    let Rank { rank, size } = unsafe { *args.communicator.cast::<Rank>() };
    let text = format!("rank {rank} of {size}");
    (args.str_, args.str_size) = (text.as_ptr().cast(), text.len());
    args.str_holder = own(text);
    args.str_holder_deleter = Some(free_text);
    null_mut()
}

unsafe extern "C" fn free_text(text: *mut PJRT_Collectives_ToString_Holder) {
    unsafe { free::<String, _>(text) };
}

/// Parts of the caller's memory: the address and the size in bytes of each part. An operation may use this memory until
/// its event is ready.
struct Lent(Vec<(*mut c_void, usize)>);

unsafe impl Send for Lent {}

impl Lent {
    fn read(&self) -> Vec<i32> {
        let part = |(data, size): &(*mut c_void, usize)| unsafe { std::slice::from_raw_parts(data.cast(), size / 4) };
        self.0.iter().flat_map(part).copied().collect()
    }

    fn write(self, results: &[i32]) {
        let mut results = results.iter();
        for (data, size) in self.0 {
            let part: &mut [i32] = unsafe { std::slice::from_raw_parts_mut(data.cast(), size / 4) };
            part.iter_mut().for_each(|item| *item = *results.next().unwrap());
        }
        assert!(results.next().is_none(), "more results than the caller has room for");
    }
}

/// Returns the function table of a plugin without collectives.
fn plain() -> PJRT_Api {
    unsafe { *Plain::api().as_raw() }
}

/// Starts an operation on another thread, and returns its event. `results` computes the received elements from the
/// elements that all ranks sent. If the timeout is zero, the operation fails.
fn start(
    communicator: *mut PJRT_Collectives_Communicator,
    run: *mut PJRT_Collectives_CpuExecutor,
    (send, receive): (Lent, Lent),
    results: impl FnOnce(Rank, &HashMap<usize, Vec<i32>>) -> Vec<i32> + Send + 'static,
) -> *mut PJRT_Event {
    let (device, run) = unsafe { (*communicator.cast::<Rank>(), &*run) };
    assert_eq!((run.run_id, run.num_local_participants), (7, 3));
    assert_eq!(unsafe { std::slice::from_raw_parts(run.global_device_ids, 3) }, DEVICES);
    let mut args = PJRT_Event_Create_Args::new();
    assert!(unsafe { plain().PJRT_Event_Create.unwrap()(&raw mut args) }.is_null());
    let (event, id, has_time) = (args.event.expose_provenance(), run.op_id, run.timeout_in_ns > 0);
    thread::spawn(move || {
        let mut args = PJRT_Event_Set_Args::new();
        args.event = std::ptr::with_exposed_provenance_mut(event);
        if has_time {
            let mut sent = SENT.lock().unwrap();
            sent.entry(id).or_default().insert(device.rank, send.read());
            ARRIVED.notify_all();
            let sent = ARRIVED.wait_while(sent, |sent| sent[&id].len() < device.size).unwrap();
            receive.write(&results(device, &sent[&id]));
        } else {
            args.error_code = PJRT_Error_Code::PJRT_Error_Code_DEADLINE_EXCEEDED;
            (args.error_message, args.error_message_size) = (c"late".as_ptr(), 4);
        }
        assert!(unsafe { plain().PJRT_Event_Set.unwrap()(&raw mut args) }.is_null());
    });
    args.event
}

/// Reduces the arrays of all devices elementwise. `sent` contains the array of each rank.
fn combine(sent: &HashMap<usize, Vec<i32>>, reduction: PJRT_Collectives_ReductionKind) -> Vec<i32> {
    type Kind = PJRT_Collectives_ReductionKind;
    let combine = |a: i32, b: i32| match reduction {
        Kind::PJRT_COLLECTIVES_REDUCTION_SUM => a + b,
        Kind::PJRT_COLLECTIVES_REDUCTION_PRODUCT => a * b,
        Kind::PJRT_COLLECTIVES_REDUCTION_MIN => a.min(b),
        _ => a.max(b),
    };
    let lists: Vec<&Vec<i32>> = sent.values().collect();
    (0..lists[0].len()).map(|index| lists.iter().map(|list| list[index]).reduce(combine).unwrap()).collect()
}

fn in_order(size: usize, sent: &HashMap<usize, Vec<i32>>) -> impl Iterator<Item = &Vec<i32>> {
    (0..size).map(|rank| &sent[&rank])
}

/// Defines a function of the extension with one send buffer and one receive buffer. Their sizes in elements are `$sent`
/// and `$received` times `count`.
macro_rules! operation {
    ($name:ident, $Args:ident, $sent:expr, $received:expr, $results:expr) => {
        unsafe extern "C" fn $name(args: *mut $Args) -> *mut PJRT_Error {
            let args = unsafe { &mut *args };
            assert!(args.primitive_type == PJRT_Buffer_Type::PJRT_Buffer_Type_S32);
            let unit = 4 * args.count;
            assert_eq!((args.send_buffer_size, args.recv_buffer_size), ($sent * unit, $received * unit));
            let send = Lent(vec![(args.send_buffer_ptr, args.send_buffer_size)]);
            let receive = Lent(vec![(args.recv_buffer_ptr, args.recv_buffer_size)]);
            let results = $results(&*args);
            args.event = start(args.communicator, args.cpu_executor, (send, receive), results);
            null_mut()
        }
    };
}

type Sent = HashMap<usize, Vec<i32>>;

operation!(
    all_reduce,
    PJRT_Collectives_Communicator_AllReduce_Args,
    1,
    1,
    |args: &PJRT_Collectives_Communicator_AllReduce_Args| {
        let kind = args.reduction_kind;
        move |_, sent: &Sent| combine(sent, kind)
    }
);
operation!(
    reduce_scatter,
    PJRT_Collectives_Communicator_ReduceScatter_Args,
    3,
    1,
    |args: &PJRT_Collectives_Communicator_ReduceScatter_Args| {
        let (kind, count) = (args.reduction_kind, args.count);
        move |device: Rank, sent: &Sent| combine(sent, kind)[device.rank * count..][..count].to_vec()
    }
);
operation!(
    all_gather,
    PJRT_Collectives_Communicator_AllGather_Args,
    1,
    3,
    |_: &PJRT_Collectives_Communicator_AllGather_Args| {
        |device: Rank, sent: &Sent| in_order(device.size, sent).flatten().copied().collect()
    }
);
operation!(
    permute,
    PJRT_Collectives_Communicator_CollectivePermute_Args,
    1,
    1,
    |args: &PJRT_Collectives_Communicator_CollectivePermute_Args| {
        let source = args.has_source_rank.get().then_some(args.source_rank);
        let targets = unsafe { std::slice::from_raw_parts(args.target_ranks, args.num_target_ranks) }.to_vec();
        let count = args.count;
        move |device: Rank, sent: &Sent| {
            assert_eq!(targets, TARGETS[device.rank]);
            source.map_or_else(|| vec![0; count], |source| sent[&usize::try_from(source).unwrap()].clone())
        }
    }
);

unsafe extern "C" fn all_to_all(args: *mut PJRT_Collectives_Communicator_AllToAll_Args) -> *mut PJRT_Error {
    let args = unsafe { &mut *args };
    let parts = |data: *mut *mut c_void, sizes: *const usize, len: usize| {
        Lent((0..len).map(|part| unsafe { (*data.add(part), *sizes.add(part)) }).collect())
    };
    let send = parts(args.send_buffers_ptrs, args.send_buffers_sizes, args.num_send_buffers);
    let receive = parts(args.recv_buffers_ptrs, args.recv_buffers_sizes, args.num_recv_buffers);
    let count = args.count;
    assert!(send.0.len() == 3 && receive.0.len() == 3 && send.0.iter().all(|(_, size)| *size == 4 * count));
    args.event = start(args.communicator, args.cpu_executor, (send, receive), move |device, sent| {
        in_order(device.size, sent).flat_map(|list| list[device.rank * count..][..count].to_vec()).collect()
    });
    null_mut()
}

/// Creates a plugin with the collectives and megascale extensions. `change` modifies the collectives extension and the
/// function table before the plugin is created.
fn changed(change: impl FnOnce(&mut PJRT_Collectives_Extension, &mut PJRT_Api)) -> Plugin {
    let mut table = plain();
    let mut collectives = PJRT_Collectives_Extension::new();
    collectives.base.type_ = PJRT_Collectives_Extension::TYPE;
    collectives.collectives_destroy = Some(destroy);
    collectives.collectives_create_communicators = Some(communicators);
    collectives.communicator_destroy = Some(leave);
    collectives.communicator_all_reduce = Some(all_reduce);
    collectives.communicator_reduce_scatter = Some(reduce_scatter);
    collectives.communicator_all_gather = Some(all_gather);
    collectives.communicator_collective_permute = Some(permute);
    collectives.communicator_all_to_all = Some(all_to_all);
    collectives.communicator_to_string = Some(describe);
    change(&mut collectives, &mut table);
    let mut megascale = PJRT_Megascale_Extension::new();
    megascale.base.type_ = PJRT_Megascale_Extension::TYPE;
    megascale.base.next = (&raw mut *Box::leak(Box::new(collectives))).cast();
    megascale.create_default_client_context = Some(context);
    megascale.delete_client_context = Some(delete);
    megascale.create_megascale_collectives = Some(create);
    table.extension_start = (&raw mut *Box::leak(Box::new(megascale))).cast();
    Plugin::from_static(unsafe { StaticApi::new(Box::leak(Box::new(table))) }).unwrap()
}

const DEVICES: [i64; 3] = [10, 20, 30];
/// Target ranks of each rank: rank 0 sends to ranks 1 and 2, rank 1 sends to rank 0, and rank 2 sends nothing.
const TARGETS: [&[i64]; 3] = [&[1, 2], &[0], &[]];
const PROCESSES: Processes<'_> =
    Processes { addresses: &["a:1", "host:2"], slice_indexes: &[0, 1], per_slice_indexes: &[], devices_per_process: 1 };

fn run(op_id: i64, timeout: Duration) -> CollectiveRun {
    let scope = CollectiveScope::CrossReplica;
    CollectiveRun { run_id: 7, num_local_participants: 3, scope, op_id, timeout }
}

fn connect(plugin: &Plugin) -> MegascaleContext {
    plugin.extension::<Megascale>().unwrap().default_context().unwrap()
}

fn collectives(plugin: &Plugin) -> Collectives {
    connect(plugin).collectives(&PROCESSES, Some(b"dcn")).unwrap()
}

/// Runs `operation` once for each communicator, each time on a separate thread. Returns the results in the order of the
/// ranks.
fn on_all(
    communicators: &mut [Communicator],
    op_id: i64,
    operation: impl Fn(&mut Communicator, usize, &CollectiveRun) -> Result<Vec<i32>, pjrt::Error> + Sync,
) -> Vec<Vec<i32>> {
    let operation = &operation;
    thread::scope(|scope| {
        let start = |(rank, communicator)| {
            scope.spawn(move || operation(communicator, rank, &run(op_id, Duration::from_secs(60))).unwrap())
        };
        let threads: Vec<_> = communicators.iter_mut().enumerate().map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn devices_exchange_elements() {
    let _test = TEST.lock().unwrap();
    let plugin = changed(|_, _| {});
    let collectives = collectives(&plugin);
    let mut all = collectives.communicators(&DEVICES, None, &[0, 1, 2]).unwrap();
    assert_eq!((all[2].size(), all[2].description().unwrap().as_str()), (3, "rank 2 of 3"));
    assert!(!collectives.as_raw().is_null() && !all[0].as_raw().is_null());
    drop(collectives);
    // Rank r sends the elements r, r + 10, r + 20 and so on.
    let data =
        |rank: usize, len: i32| (0..len).map(|item| i32::try_from(rank).unwrap() + 10 * item).collect::<Vec<_>>();

    for (id, reduction, expected) in [
        (1, CollectiveReduction::Sum, [3, 33]),
        (2, CollectiveReduction::Product, [0, 10 * 11 * 12]),
        (3, CollectiveReduction::Min, [0, 10]),
        (4, CollectiveReduction::Max, [2, 12]),
    ] {
        let results = on_all(&mut all, id, |device, rank, run| device.all_reduce(data(rank, 2), reduction, run));
        assert_eq!(results, [expected; 3], "{reduction:?}");
    }
    let results =
        on_all(&mut all, 5, |device, rank, run| device.reduce_scatter(data(rank, 6), CollectiveReduction::Sum, run));
    assert_eq!(results, [[3, 33], [63, 93], [123, 153]]);
    let results = on_all(&mut all, 6, |device, rank, run| device.all_gather(data(rank, 2), run));
    assert_eq!(results, [[0, 10, 1, 11, 2, 12]; 3]);
    let results = on_all(&mut all, 7, |device, rank, run| {
        let targets: [&[usize]; 3] = [&[1, 2], &[0], &[]];
        // Rank 2 has no source, so it ignores the elements from rank 0 and receives zeros.
        device.collective_permute(data(rank, 2), [Some(1), Some(0), None][rank], targets[rank], run)
    });
    assert_eq!(results, [[1, 11], [0, 10], [0, 0]]);
    let results = on_all(&mut all, 8, |device, rank, run| device.all_to_all(data(rank, 3), run));
    assert_eq!(results, [[0, 1, 2], [10, 11, 12], [20, 21, 22]]);
    let results = on_all(&mut all, 9, |device, _, run| device.all_gather(Vec::new(), run));
    assert_eq!(results, [[0i32; 0]; 3]);
    drop(all);
    assert_eq!(LIVE.load(SeqCst), 0);
}

#[test]
fn wrong_arguments_are_rejected() {
    let _test = TEST.lock().unwrap();
    let plugin = changed(|_, _| {});
    let refused = |error: pjrt::Error, expected: Expect| {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        expected.assert_eq(&error.to_string());
    };
    let wrong = Processes { slice_indexes: &[0], ..PROCESSES };
    refused(
        connect(&plugin).collectives(&wrong, None).unwrap_err(),
        expect!["the length of `slice_indexes` is 1, but there are 2 processes"],
    );
    let wrong = Processes { per_slice_indexes: &[0, 1, 2], ..PROCESSES };
    refused(
        connect(&plugin).collectives(&wrong, None).unwrap_err(),
        expect!["the length of `per_slice_indexes` is 3, but there are 2 processes"],
    );
    let collectives = collectives(&plugin);
    refused(
        collectives.communicators(&DEVICES, None, &[3]).unwrap_err(),
        expect!["rank 3 is not the position of one of 3 devices"],
    );
    let mut communicator = collectives.communicators(&DEVICES, None, &[1]).unwrap().remove(0);
    let run = run(20, Duration::ZERO);
    let sum = CollectiveReduction::Sum;
    refused(
        communicator.reduce_scatter(vec![1, 2], sum, &run).unwrap_err(),
        expect!["2 elements cannot be divided among 3 devices"],
    );
    refused(
        communicator.all_to_all(vec![1, 2, 3, 4], &run).unwrap_err(),
        expect!["4 elements cannot be divided among 3 devices"],
    );
    refused(
        communicator.collective_permute(vec![1], Some(3), &[], &run).unwrap_err(),
        expect!["rank 3 is not the position of one of 3 devices"],
    );
    refused(
        communicator.collective_permute(vec![1], None, &[0, 9], &run).unwrap_err(),
        expect!["rank 9 is not the position of one of 3 devices"],
    );
    drop((communicator, collectives));
    assert_eq!(LIVE.load(SeqCst), 0);
}

#[test]
fn failures_free_all_objects() {
    let _test = TEST.lock().unwrap();
    // The operation fails after the call that starts it.
    let plugin = changed(|_, _| {});
    let mut communicator = collectives(&plugin).communicators(&DEVICES, None, &[1]).unwrap().remove(0);
    let error = communicator.all_gather(vec![1], &run(30, Duration::ZERO)).unwrap_err();
    assert_eq!(error.code(), ErrorCode::DEADLINE_EXCEEDED, "{error}");
    drop(communicator);

    // The plugin returns fewer communicators than ranks.
    let error = collectives(&plugin).communicators(&DEVICES, Some(&[b"clique"]), &[0, 1]).unwrap_err();
    expect!["PJRT_Collectives_CreateCommunicators: it returned 1 of 2 communicators"].assert_eq(&error.to_string());

    // The extension lacks a function. If a destroy function is missing, `pjrt` does not create the object.
    let plugin = changed(|functions, _| functions.collectives_destroy = None);
    assert_missing(
        connect(&plugin).collectives(&PROCESSES, None),
        expect![
            "PJRT_Collectives_Destroy: UNIMPLEMENTED: the plugin has API 0.117 and lacks this function in its PJRT_Collectives_Extension"
        ],
    );
    let plugin = changed(|functions, _| functions.communicator_destroy = None);
    assert_missing(
        collectives(&plugin).communicators(&DEVICES, None, &[0]),
        expect![
            "PJRT_Collectives_Communicator_Destroy: UNIMPLEMENTED: the plugin has API 0.117 and lacks this function in its PJRT_Collectives_Extension"
        ],
    );
    let plugin = changed(|functions, _| functions.communicator_all_to_all = None);
    let mut communicator = collectives(&plugin).communicators(&DEVICES, None, &[0]).unwrap().remove(0);
    let missing = communicator.all_to_all(vec![1, 2, 3], &run(31, Duration::ZERO));
    assert_missing(
        missing,
        expect![
            "PJRT_Collectives_Communicator_AllToAll: UNIMPLEMENTED: the plugin has API 0.117 and lacks this function in its PJRT_Collectives_Extension"
        ],
    );
    drop(communicator);

    // If the plugin lacks a function that is needed to wait for the event, the operation is not started.
    let plugin = changed(|_, table| table.PJRT_Event_IsReady = None);
    let mut communicator = collectives(&plugin).communicators(&DEVICES, None, &[0]).unwrap().remove(0);
    let error = communicator.all_gather(vec![1], &run(32, Duration::ZERO)).unwrap_err();
    assert_eq!((error.kind(), error.function()), (ErrorKind::Unsupported, Some("PJRT_Event_IsReady")), "{error}");
    drop(communicator);
    assert_eq!(LIVE.load(SeqCst), 0);
}
