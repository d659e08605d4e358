//! Tests a device that accepts uploads in several pieces, and whose arrays may be smaller than their static shapes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier, Mutex, MutexGuard, mpsc};
use std::time::Duration;

use device_plugin::features::{DynamicShapes, Features, PiecewiseUploads};
use device_plugin::*;
use device_plugin_testing::Exclusive;
use expect_test::expect;
use pjrt_sys::*;

use crate::framework::{Answer, Buffer, Client, Framework, garbage, slice};
use crate::transfers::tiled;

struct Pieces;

impl DevicePlugin for Pieces {
    const NAME: &'static str = "pieces";
    type Backend = Board;
}

/// A device whose programs return the rows of their argument before the first row that starts with zero.
struct Board;

/// Offsets and lengths of the uploaded pieces, in the order of the calls.
static SEEN: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());
/// A barrier for uploads of pieces that begin with 9. Such an upload waits at the barrier twice.
static GATE: Mutex<Option<Arc<Barrier>>> = Mutex::new(None);
/// Whether the outputs of programs have only static dimensions.
static STATIC: AtomicBool = AtomicBool::new(false);
/// A lock that each test holds, because the tests share the statics above.
static EXCLUSIVE: Exclusive = Exclusive::new();

fn turn() -> MutexGuard<'static, ()> {
    let turn = EXCLUSIVE.turn();
    SEEN.lock().unwrap().clear();
    STATIC.store(false, Ordering::Relaxed);
    turn
}

#[derive(Clone)]
struct Memory {
    bytes: Arc<Mutex<Vec<u8>>>,
    /// The dynamic number of rows, if it is known.
    rows: Option<i64>,
}

impl Backend for Board {
    type Buffer = Memory;

    const FEATURES: Features<Self> = Features::none().piecewise_uploads().dynamic_shapes();

    device_plugin_testing::unit_device!("Board");
    device_plugin_testing::one_program!("until zero", shape());

    fn buffer_from_host(&self, host: HostArray<'_>, _: Placement) -> Result<Memory> {
        Ok(Memory { bytes: Arc::new(Mutex::new(host.into_bytes())), rows: None })
    }

    fn read(&self, buffer: &Memory, to: &mut [u8]) -> Result<()> {
        let bytes = buffer.bytes.lock().unwrap();
        to.copy_from_slice(&bytes[..to.len()]);
        Ok(())
    }

    fn execute(&self, _: &Arc<()>, launch: &mut Launch<'_, Self>) -> Result<Event> {
        let input = launch.inputs[0].clone();
        let rows = input.bytes.lock().unwrap().chunks(2).take_while(|row| row[0] != 0).count();
        // For an array that begins with 7, the backend reports a number of rows that is out of bounds.
        let lies = input.bytes.lock().unwrap()[0] == 7;
        let rows = (!STATIC.load(Ordering::Relaxed)).then_some(if lies { 5 } else { rows as i64 });
        launch.outputs.push(Memory { rows, ..input })?;
        Ok(Event::ready())
    }
}

impl PiecewiseUploads for Board {
    fn transfer_data(&self, buffer: &Memory, offset: usize, bytes: &[u8]) -> Result<()> {
        if bytes[0] == 13 {
            return Err(Error::new(ErrorCode::DATA_LOSS, "an unlucky byte"));
        }
        if bytes[0] == 9 {
            let gate = GATE.lock().unwrap().clone().unwrap();
            gate.wait();
            gate.wait();
        }
        buffer.bytes.lock().unwrap()[offset..offset + bytes.len()].copy_from_slice(bytes);
        SEEN.lock().unwrap().push((offset, bytes.len()));
        Ok(())
    }
}

impl DynamicShapes for Board {
    fn is_dynamic(&self, buffer: &Memory) -> bool {
        buffer.rows.is_some()
    }

    fn is_dynamic_output(&self, (): &(), output: usize) -> bool {
        assert_eq!(output, 0);
        !STATIC.load(Ordering::Relaxed)
    }

    fn dynamic_dimensions(&self, buffer: &Memory, shape: &Shape) -> Vec<(usize, i64)> {
        assert_eq!(shape, &self::shape());
        buffer.rows.map(|rows| (0, rows)).into_iter().collect()
    }
}

fn pieces() -> Framework {
    Framework(raw::api::<Pieces>())
}

fn shape() -> Shape {
    Shape::new(ElementType::U8, [4, 2])
}

fn arriving(client: Client) -> (*mut PJRT_AsyncHostToDeviceTransferManager, Buffer) {
    let shape = shape();
    let mut spec = garbage::<PJRT_ShapeSpec>();
    (spec.dims, spec.num_dims) = (shape.dimensions.as_ptr(), 2);
    spec.element_type = PJRT_Buffer_Type(ElementType::U8.as_raw());
    let manager = pieces().ask::<slot::PJRT_Client_CreateBuffersForAsyncHostToDevice>(|args| {
        (args.client, args.memory) = (client, pieces().memories(client)[0]);
        (args.shape_specs, args.num_shape_specs, args.num_device_layouts) = (&raw mut spec, 1, 0);
    });
    let manager = manager.unwrap().transfer_manager;
    let buffer = pieces().ask::<slot::PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer>(|args| {
        (args.transfer_manager, args.buffer_index) = (manager, 0);
    });
    (manager, buffer.unwrap().buffer_out)
}

fn send(manager: *mut PJRT_AsyncHostToDeviceTransferManager, offset: i64, piece: &[u8], last: bool) -> Answer {
    let args = pieces().ask::<slot::PJRT_AsyncHostToDeviceTransferManager_TransferData>(|args| {
        (args.transfer_manager, args.buffer_index) = (manager, 0);
        (args.data, args.offset) = (piece.as_ptr().cast(), offset);
        (args.transfer_size, args.is_last_transfer) = (piece.len() as i64, last.into());
    })?;
    pieces().wait(args.done_with_h2d_transfer)
}

fn destroy(manager: *mut PJRT_AsyncHostToDeviceTransferManager) {
    let args = |args: &mut PJRT_AsyncHostToDeviceTransferManager_Destroy_Args| args.transfer_manager = manager;
    pieces().ask::<slot::PJRT_AsyncHostToDeviceTransferManager_Destroy>(args).unwrap();
}

fn is_ready(buffer: Buffer) -> bool {
    let event = pieces().ready_event(buffer);
    let ready = pieces().is_ready(event);
    pieces().destroy_event(event);
    ready
}

#[test]
fn writes_pieces_on_arrival() {
    let _turn = turn();
    let client = pieces().client(&[]).unwrap();
    let (manager, buffer) = arriving(client);
    send(manager, 6, &[7, 8], false).unwrap();
    send(manager, 0, &[1, 2, 3], false).unwrap();
    assert_eq!(*SEEN.lock().unwrap(), [(6, 2), (0, 3)]);
    assert!(!is_ready(buffer));
    send(manager, 3, &[4, 5, 6], true).unwrap();
    assert_eq!(pieces().read(buffer).unwrap(), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(send(manager, 0, &[1], false).unwrap_err().code, ErrorCode::FAILED_PRECONDITION);
    destroy(manager);
    pieces().destroy(&[buffer]);
    pieces().destroy_client(client);
}

#[test]
fn buffer_awaits_concurrent_pieces() {
    let _turn = turn();
    let client = pieces().client(&[]).unwrap();
    let (manager, buffer) = arriving(client);
    let gate = Arc::new(Barrier::new(2));
    *GATE.lock().unwrap() = Some(Arc::clone(&gate));
    let address = manager.expose_provenance();
    let slow =
        std::thread::spawn(move || send(std::ptr::with_exposed_provenance_mut(address), 0, &[9, 9, 9, 9], false));
    gate.wait();
    send(manager, 4, &[1, 2, 3, 4], true).unwrap();
    assert!(!is_ready(buffer));
    gate.wait();
    slow.join().unwrap().unwrap();
    assert_eq!(pieces().read(buffer).unwrap(), [9, 9, 9, 9, 1, 2, 3, 4]);
    destroy(manager);
    pieces().destroy(&[buffer]);
    pieces().destroy_client(client);
}

#[test]
fn failed_piece_fails_buffer() {
    let _turn = turn();
    let client = pieces().client(&[]).unwrap();
    let (manager, buffer) = arriving(client);
    send(manager, 0, &[1, 2], false).unwrap();
    assert_eq!(send(manager, 2, &[13], false).unwrap_err().message, "an unlucky byte");
    assert_eq!(pieces().read(buffer).unwrap_err().message, "an unlucky byte");
    assert_eq!(send(manager, 3, &[1, 2], true).unwrap_err().code, ErrorCode::FAILED_PRECONDITION);
    destroy(manager);
    pieces().destroy(&[buffer]);
    // An upload of the whole array does not use `transfer_data`.
    let whole = pieces().put(client, &shape(), &[5; 8], 0).unwrap();
    assert_eq!(pieces().read(whole).unwrap(), [5; 8]);
    pieces().destroy(&[whole]);
    pieces().destroy_client(client);
}

fn unpadded(buffer: Buffer) -> Answer<Vec<i64>> {
    let args = pieces().ask::<slot::PJRT_Buffer_UnpaddedDimensions>(|args| args.buffer = buffer)?;
    let again = pieces().ask::<slot::PJRT_Buffer_UnpaddedDimensions>(|args| args.buffer = buffer)?;
    assert_eq!(args.unpadded_dims, again.unpadded_dims, "pointers stay as long as the buffer");
    Ok(unsafe { slice(args.unpadded_dims, args.num_dims) }.to_vec())
}

fn dynamic(buffer: Buffer) -> Answer<Vec<usize>> {
    let args = pieces().ask::<slot::PJRT_Buffer_DynamicDimensionIndices>(|args| args.buffer = buffer)?;
    Ok(unsafe { slice(args.dynamic_dim_indices, args.num_dynamic_dims) }.to_vec())
}

#[test]
fn output_has_dynamic_size() {
    let _turn = turn();
    let client = pieces().client(&[]).unwrap();
    let program = pieces().compile(client, "any").unwrap();
    for (given, rows) in [([1, 2, 3, 4, 0, 0, 5, 6], 2), ([0; 8], 0), ([1; 8], 4)] {
        let input = pieces().put(client, &shape(), &given, 0).unwrap();
        assert_eq!((unpadded(input).unwrap(), dynamic(input).unwrap()), (vec![4, 2], vec![]));
        let (outputs, event) = pieces().execute(program, &[input], 1).unwrap();
        pieces().wait(event).unwrap();
        let output = outputs[0];
        let bound = pieces().ask::<slot::PJRT_Buffer_Dimensions>(|args| args.buffer = output).unwrap();
        assert_eq!(unsafe { slice(bound.dims, bound.num_dims) }, [4, 2]);
        assert_eq!((unpadded(output).unwrap(), dynamic(output).unwrap()), (vec![rows as i64, 2], vec![0]));
        assert_eq!(pieces().read(output).unwrap(), given[..rows * 2]);
        // Read the array in a layout that the host specifies, too.
        let (order, mut out) = ([0i64, 1], vec![0u8; rows * 2]);
        let mut layout = tiled(&order);
        let read = pieces().ask::<slot::PJRT_Buffer_ToHostBuffer>(|args| {
            (args.src, args.host_layout) = (output, &raw mut layout);
            (args.dst, args.dst_size) = (out.as_mut_ptr().cast(), out.len());
        });
        // The destination of an array without bytes may be null. In that case, the call only requests the size and
        // returns no event.
        let event = read.unwrap().event;
        if !event.is_null() {
            pieces().wait(event).unwrap();
        }
        let columns: Vec<u8> = (0..2).flat_map(|column| (0..rows).map(move |row| given[row * 2 + column])).collect();
        assert_eq!(out, columns);
        pieces().destroy(&[input, output]);
    }
    // If the backend reports extents that contradict the shape, the call fails.
    let input = pieces().put(client, &shape(), &[7; 8], 0).unwrap();
    let (outputs, event) = pieces().execute(program, &[input], 1).unwrap();
    pieces().wait(event).unwrap();
    let fault = unpadded(outputs[0]).unwrap_err();
    assert_eq!(fault.code, ErrorCode::INTERNAL, "{fault:?}");
    expect!["DynamicShapes::dynamic_dimensions returned the extent 5 for dimension 0 of u8[4,2]"]
        .assert_eq(&fault.message);
    pieces().destroy(&[input, outputs[0]]);
    pieces().destroy_loaded(program);
    pieces().destroy_client(client);
}

/// The extents of an array without dynamic dimensions are known before its data arrives.
#[test]
fn static_array_is_not_awaited() {
    let _turn = turn();
    let client = pieces().client(&[]).unwrap();
    let (manager, buffer) = arriving(client);
    assert_eq!((unpadded(buffer).unwrap(), dynamic(buffer).unwrap()), (vec![4, 2], vec![]));
    send(manager, 0, &[1; 8], true).unwrap();
    assert_eq!(pieces().read(buffer).unwrap(), [1; 8]);
    destroy(manager);
    pieces().destroy(&[buffer]);
    pieces().destroy_client(client);
}

#[test]
fn pending_dynamic_array_is_read_when_ready() {
    let _turn = turn();
    let client = pieces().client(&[]).unwrap();
    let program = pieces().compile(client, "any").unwrap();
    for (room, order) in [(8, None), (8, Some([0i64, 1])), (3, None)] {
        let (manager, input) = arriving(client);
        let (outputs, event) = pieces().execute(program, &[input], 1).unwrap();
        let mut out = [9u8; 8];
        let read = {
            // The framework frees the layout before the data arrives.
            let mut order = order;
            let mut layout = order.as_mut().map(|order| tiled(order));
            let read = pieces().ask::<slot::PJRT_Buffer_ToHostBuffer>(|args| {
                (args.src, args.dst, args.dst_size) = (outputs[0], out.as_mut_ptr().cast(), room);
                args.host_layout = layout.as_mut().map_or(std::ptr::null_mut(), |layout| &raw mut *layout);
            });
            read.unwrap().event
        };
        assert!(!pieces().is_ready(read));
        send(manager, 0, &[1, 2, 3, 4, 0, 0, 5, 6], true).unwrap();
        pieces().wait(event).unwrap();
        match (pieces().wait(read), order) {
            (Err(fault), _) => {
                assert_eq!(room, 3, "{fault:?}");
                expect!["PJRT_Buffer_ToHostBuffer: dst_size is 3, but u8[2,2] needs 4 bytes"].assert_eq(&fault.message);
            }
            (Ok(()), None) => assert_eq!(out, [1, 2, 3, 4, 9, 9, 9, 9]),
            (Ok(()), Some(_)) => assert_eq!(out, [1, 3, 2, 4, 9, 9, 9, 9]),
        }
        destroy(manager);
        pieces().destroy(&[input, outputs[0]]);
    }
    pieces().destroy_loaded(program);
    pieces().destroy_client(client);
}

/// Runs a call that must not wait for data. Returns `None` if it does not return.
fn at_once<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (done, came) = mpsc::channel();
    std::thread::spawn(move || done.send(call()));
    came.recv_timeout(Duration::from_secs(20)).ok()
}

#[test]
fn pending_static_output_is_not_awaited() {
    let _turn = turn();
    STATIC.store(true, Ordering::Relaxed);
    let client = pieces().client(&[]).unwrap();
    let program = pieces().compile(client, "any").unwrap();
    let (manager, input) = arriving(client);
    let (outputs, event) = pieces().execute(program, &[input], 1).unwrap();
    let address = outputs[0].expose_provenance();
    let extents = at_once(move || {
        let buffer = std::ptr::with_exposed_provenance_mut(address);
        (unpadded(buffer).unwrap(), dynamic(buffer).unwrap())
    });
    assert!(!is_ready(outputs[0]));
    send(manager, 0, &[1, 2, 3, 4, 0, 0, 5, 6], true).unwrap();
    pieces().wait(event).unwrap();
    assert_eq!(extents, Some((vec![4, 2], vec![])));
    assert_eq!(pieces().read(outputs[0]).unwrap(), [1, 2, 3, 4, 0, 0, 5, 6]);
    destroy(manager);
    pieces().destroy(&[input, outputs[0]]);
    pieces().destroy_loaded(program);
    pieces().destroy_client(client);
}

/// A thread may fulfill an alias with an output before it sends the data from which the output is computed.
#[test]
fn fulfilling_with_pending_output_does_not_wait() {
    let _turn = turn();
    let client = pieces().client(&[]).unwrap();
    let program = pieces().compile(client, "any").unwrap();
    for is_static in [false, true] {
        STATIC.store(is_static, Ordering::Relaxed);
        let (manager, input) = arriving(client);
        let (outputs, event) = pieces().execute(program, &[input], 1).unwrap();
        let shape = shape();
        let alias = pieces().ask::<slot::PJRT_Client_CreateAliasBuffer>(|args| {
            (args.client, args.memory) = (client, pieces().memories(client)[0]);
            (args.shape_dims, args.shape_num_dims) = (shape.dimensions.as_ptr(), 2);
            args.shape_element_type = PJRT_Buffer_Type(ElementType::U8.as_raw());
            args.shape_layout = std::ptr::null_mut();
        });
        let alias = alias.unwrap();
        let [client, buffer, token] = [
            client.expose_provenance(),
            outputs[0].expose_provenance(),
            alias.fulfill_alias_buffer_cb.expose_provenance(),
        ];
        let fulfilled = at_once(move || {
            let fulfill = pieces().ask::<slot::PJRT_Client_FulfillAliasBuffer>(|args| {
                args.client = std::ptr::with_exposed_provenance_mut(client);
                args.buffer = std::ptr::with_exposed_provenance_mut(buffer);
                args.fulfill_alias_buffer_cb = std::ptr::with_exposed_provenance_mut(token);
                args.status_code = PJRT_Error_Code(0);
            });
            fulfill.map(drop)
        });
        assert!(!is_ready(alias.alias_buffer));
        send(manager, 0, &[1, 2, 3, 4, 0, 0, 5, 6], true).unwrap();
        pieces().wait(event).unwrap();
        fulfilled.expect("the call returns before the data arrives").unwrap();
        match pieces().read(alias.alias_buffer) {
            Ok(bytes) => assert!(is_static && bytes == [1, 2, 3, 4, 0, 0, 5, 6], "{bytes:?}"),
            Err(fault) => assert!(!is_static && fault.code == ErrorCode::UNIMPLEMENTED, "{fault:?}"),
        }
        destroy(manager);
        pieces().destroy(&[input, outputs[0], alias.alias_buffer]);
    }
    pieces().destroy_loaded(program);
    pieces().destroy_client(client);
}
