//! The SDK drops the backend after all buffers, also if its own deferred work holds the last references to both.

use std::sync::{Arc, Condvar, Mutex};

use device_plugin::*;
use device_plugin_testing::Exclusive;
use pjrt_sys::*;

use crate::framework::Framework;

struct Slow;

impl DevicePlugin for Slow {
    const NAME: &'static str = "slow";
    type Backend = Device;
}

/// A device whose uploads end when the test allows it.
struct Device;

/// Device memory.
struct Memory(Vec<u8>);

/// What the device records.
struct Records {
    upload: Option<Completer>,
    /// What has been dropped, in order.
    dropped: Vec<&'static str>,
}

static RECORDS: Mutex<Records> = Mutex::new(Records { upload: None, dropped: Vec::new() });
static CHANGED: Condvar = Condvar::new();
static EXCLUSIVE: Exclusive = Exclusive::new();

fn record(dropped: &'static str) {
    RECORDS.lock().unwrap().dropped.push(dropped);
    CHANGED.notify_all();
}

impl Drop for Memory {
    fn drop(&mut self) {
        record("memory");
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        record("device");
    }
}

impl Backend for Device {
    type Buffer = Arc<Memory>;

    device_plugin_testing::unit_device!("Slow");
    device_plugin_testing::no_programs!();

    fn buffer_from_host(&self, host: HostArray<'_>, _: Placement) -> Result<Arc<Memory>> {
        Ok(Arc::new(Memory(host.into_bytes())))
    }

    fn ready(&self, _: &Arc<Memory>) -> Event {
        let (event, completer) = Event::pending();
        RECORDS.lock().unwrap().upload = Some(completer);
        event
    }

    fn read(&self, buffer: &Arc<Memory>, to: &mut [u8]) -> Result<()> {
        to.copy_from_slice(&buffer.0);
        Ok(())
    }
}

/// Uploads an array, starts deferred work with the buffer, destroys everything, and then completes the upload. Returns
/// what was dropped, in order.
fn dropped(buffers: usize, start: impl FnOnce(&Framework, *mut PJRT_Client, *mut PJRT_Buffer)) -> Vec<&'static str> {
    let _turn = EXCLUSIVE.turn();
    let plugin = Framework(raw::api::<Slow>());
    RECORDS.lock().unwrap().dropped.clear();
    let client = plugin.client(&[]).unwrap();
    let buffer = plugin.put(client, &Shape::new(ElementType::U8, [2]), &[3, 4], 0).unwrap();
    start(&plugin, client, buffer);
    plugin.destroy(&[buffer]);
    plugin.destroy_client(client);
    let upload = RECORDS.lock().unwrap().upload.take().unwrap();
    upload.complete(Ok(()));
    let all = |records: &mut Records| records.dropped.len() < buffers + 1;
    CHANGED.wait_while(RECORDS.lock().unwrap(), all).unwrap().dropped.clone()
}

#[test]
fn deferred_read() {
    let mut bytes = [0; 2];
    let to = bytes.as_mut_ptr();
    let dropped = dropped(1, |plugin, _, buffer| {
        let (event, _) = plugin.read_into(buffer, to, 2).unwrap();
        plugin.destroy_event(event);
    });
    assert_eq!((dropped, bytes), (vec!["memory", "device"], [3, 4]));
}

#[test]
fn deferred_copy() {
    let dropped = dropped(2, |plugin, client, buffer| {
        let device = plugin.devices(client)[0];
        let copy =
            plugin.ask::<slot::PJRT_Buffer_CopyToDevice>(|args| (args.buffer, args.dst_device) = (buffer, device));
        plugin.destroy(&[copy.unwrap().dst_buffer]);
    });
    assert_eq!(dropped, ["memory", "memory", "device"]);
}
