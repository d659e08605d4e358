//! Tests reads that continue after the framework's call has returned.

use std::sync::{Arc, Mutex};

use device_plugin::features::{AsyncReads, Features};
use device_plugin::*;
use device_plugin_testing::Exclusive;
use pjrt_sys::*;

use crate::framework::Framework;
use crate::transfers::tiled;

struct Reads;

impl DevicePlugin for Reads {
    const NAME: &'static str = "reads";
    type Backend = Reader;
}

/// A device that copies to the host only when the test allows it.
struct Reader;

/// A read that has begun: the device's own clone of the buffer, the destination, and the completer of the read.
type Begun = (Arc<[u8]>, HostDestination, Completer);
static BEGUN: Mutex<Vec<Begun>> = Mutex::new(Vec::new());
/// A lock that each test holds, because the tests share `BEGUN`.
static EXCLUSIVE: Exclusive = Exclusive::new();

fn next() -> Begun {
    BEGUN.lock().unwrap().remove(0)
}

impl Backend for Reader {
    const FEATURES: Features<Self> = Features::none().async_reads();

    device_plugin_testing::unit_device!("Reader");
    device_plugin_testing::host_memory!();
    device_plugin_testing::no_programs!();
}

impl AsyncReads for Reader {
    fn begin_read(&self, buffer: &Self::Buffer, to: HostDestination) -> Result<Event> {
        if buffer[0] == 13 {
            return Err(Error::new(ErrorCode::DATA_LOSS, "an unlucky byte"));
        }
        let (event, completer) = Event::pending();
        BEGUN.lock().unwrap().push((Arc::clone(buffer), to, completer));
        Ok(event)
    }
}

fn reads() -> Framework {
    Framework(raw::api::<Reads>())
}

fn shape() -> Shape {
    Shape::new(ElementType::U8, [2, 2])
}

#[test]
fn event_awaits_copy() {
    let _turn = EXCLUSIVE.turn();
    let client = reads().client(&[]).unwrap();
    let buffer = reads().put(client, &shape(), &[1, 2, 3, 4], 0).unwrap();
    let mut out = [0u8; 4];
    let (event, size) = reads().read_into(buffer, out.as_mut_ptr(), 4).unwrap();
    assert_eq!((size, reads().is_ready(event)), (4, false));
    // The framework may destroy its objects while the read is in progress.
    reads().destroy(&[buffer]);
    reads().destroy_client(client);
    let (bytes, mut to, completer) = next();
    to.bytes().copy_from_slice(&bytes);
    // The device completes the read while the destination still exists. The event of the read must wait until the
    // destination is dropped.
    completer.complete(Ok(()));
    assert!(!reads().is_ready(event));
    std::thread::spawn(move || drop(to)).join().unwrap();
    assert_eq!(reads().wait(event), Ok(()));
    assert_eq!(out, [1, 2, 3, 4]);
}

#[test]
fn read_errors() {
    let _turn = EXCLUSIVE.turn();
    let client = reads().client(&[]).unwrap();
    let mut out = [0u8; 4];
    let unlucky = reads().put(client, &shape(), &[13, 0, 0, 0], 0).unwrap();
    let (event, _) = reads().read_into(unlucky, out.as_mut_ptr(), 4).unwrap();
    assert_eq!(reads().wait(event).unwrap_err().message, "an unlucky byte");
    let buffer = reads().put(client, &shape(), &[1, 2, 3, 4], 0).unwrap();
    let (event, _) = reads().read_into(buffer, out.as_mut_ptr(), 4).unwrap();
    let (_, to, completer) = next();
    drop(to);
    assert!(!reads().is_ready(event));
    completer.complete(Err(Error::new(ErrorCode::DATA_LOSS, "a cable")));
    assert_eq!(reads().wait(event).unwrap_err().message, "a cable");
    // If the device drops the destination and the completer, the read fails.
    let (event, _) = reads().read_into(buffer, out.as_mut_ptr(), 4).unwrap();
    drop(next());
    assert_eq!(reads().wait(event).unwrap_err().code, ErrorCode::CANCELLED);
    reads().destroy(&[unlucky, buffer]);
    reads().destroy_client(client);
}

#[test]
fn reordered_and_partial_reads_are_synchronous() {
    let _turn = EXCLUSIVE.turn();
    let client = reads().client(&[]).unwrap();
    let buffer = reads().put(client, &shape(), &[1, 2, 3, 4], 0).unwrap();
    let (order, mut out) = ([0i64, 1], [0u8; 4]);
    let mut layout = tiled(&order);
    let args = reads().ask::<slot::PJRT_Buffer_ToHostBuffer>(|args| {
        (args.src, args.host_layout) = (buffer, &raw mut layout);
        (args.dst, args.dst_size) = (out.as_mut_ptr().cast(), 4);
    });
    reads().wait(args.unwrap().event).unwrap();
    assert_eq!(out, [1, 3, 2, 4]);
    let mut two = [0u8; 2];
    let args = reads().ask::<slot::PJRT_Buffer_CopyRawToHost>(|args| {
        (args.buffer, args.dst) = (buffer, two.as_mut_ptr().cast());
        (args.offset, args.transfer_size) = (1, 2);
    });
    reads().wait(args.unwrap().event).unwrap();
    assert_eq!(two, [2, 3]);
    assert!(BEGUN.lock().unwrap().is_empty());
    reads().destroy(&[buffer]);
    reads().destroy_client(client);
}
