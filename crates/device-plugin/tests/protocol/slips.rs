//! Tests backends whose answers contradict each other. Each contradiction causes an error that names the wrong value.
//! The framework never receives such values, because frameworks end the process when they do.

use device_plugin::features::{BufferAddresses, Features};
use device_plugin::*;
use expect_test::expect;
use pjrt_sys::slot;

use crate::framework::{Answer, Client, Framework, pair};

struct Slips;

impl DevicePlugin for Slips {
    const NAME: &'static str = "slips";
    type Backend = Careless;
}

/// A backend with two devices and one fault, which the option `slip` selects.
struct Careless(String);

fn table() -> Framework {
    Framework(raw::api::<Slips>())
}

fn client(slip: &str) -> Answer<Client> {
    table().client(&[NamedValue::new("slip", slip)])
}

impl Backend for Careless {
    const FEATURES: Features<Self> = Features::none().buffer_addresses();

    device_plugin_testing::host_memory!();
    device_plugin_testing::echo_executions!(());

    fn create(options: &ClientOptions) -> Result<Self> {
        match options.get("slip") {
            Some(Value::String(slip)) => Ok(Self(slip.clone())),
            other => Err(Error::invalid_argument(format!("option slip is {other:?}"))),
        }
    }

    fn devices(&self) -> Vec<DeviceInfo> {
        let mut devices = vec![DeviceInfo::new(0, "Careless"), DeviceInfo::new(1, "Careless")];
        match self.0.as_str() {
            "none" => devices.clear(),
            "twin" => devices[1].id = 0,
            "elsewhere" => devices[1].process_index = 3,
            _ => {}
        }
        devices
    }

    fn memories(&self) -> Vec<MemoryInfo> {
        let memory = |kind: &str, id, devices: &[i32]| MemoryInfo::new(kind, id, devices);
        match self.0.as_str() {
            "no name" => vec![memory("", 0, &[0, 1])],
            "two numbers" => vec![memory("device", 0, &[0]), memory("device", 1, &[1])],
            "one number" => vec![memory("device", 0, &[0, 1]), memory("pinned_host", 0, &[0, 1])],
            "two of a kind" => vec![memory("device", 0, &[0, 1]), memory("device", 0, &[1])],
            "stranger" => vec![memory("device", 0, &[0, 7])],
            "nobody's" => vec![memory("device", 0, &[0, 1]), memory("host", 1, &[])],
            "bare device" => vec![memory("device", 0, &[0])],
            _ => vec![memory("device", 0, &[0, 1]).on_host()],
        }
    }

    fn compile(&self, _: &Program, _: &CompileOptions) -> Result<Compiled<()>> {
        let mut info = ExecutableInfo::new("slip", [pair()], [pair()]);
        match self.0.as_str() {
            "negative" => info.outputs = vec![Shape::new(ElementType::F32, [2, -4])],
            "huge" => info.parameters = vec![Shape::new(ElementType::F32, [i64::MAX, 4])],
            "kind" => info.output_memory_kinds = vec!["hbm".to_owned()],
            "donated" => info.donated = vec![3],
            _ => {}
        }
        Ok(Compiled::new((), info))
    }
}

impl BufferAddresses for Careless {
    fn host_bytes<'a>(&self, buffer: &'a Self::Buffer) -> Option<&'a [u8]> {
        match self.0.as_str() {
            "short bytes" => buffer.get(1..),
            "no bytes" => None,
            _ => Some(buffer),
        }
    }
}

#[test]
fn rejects_contradictory_devices() {
    let mut messages = String::new();
    for slip in [
        "none",
        "twin",
        "elsewhere",
        "no name",
        "two numbers",
        "one number",
        "two of a kind",
        "stranger",
        "nobody's",
        "bare device",
    ] {
        let fault = client(slip).expect_err(slip);
        assert_eq!(fault.code, ErrorCode::INTERNAL, "{slip}: {fault:?}");
        messages += &format!("{slip}: {}\n", fault.message);
    }
    expect![[r#"
        none: the backend lists no devices
        twin: the backend lists two devices with the id 0
        elsewhere: device 1 is addressable and belongs to process 3, but Distributed::process_index is 0
        no name: memory 0 of kind "" has an empty kind; frameworks choose memories by kind
        two numbers: memory 1 of kind "device" shares only one of kind and kind_id with an earlier memory; give each kind one kind_id
        one number: memory 1 of kind "pinned_host" shares only one of kind and kind_id with an earlier memory; give each kind one kind_id
        two of a kind: memory 1 of kind "device" is the second memory of that kind on a device; give it another kind
        stranger: memory 0 of kind "device" is attached to the unknown device 7
        nobody's: memory 1 of kind "host" is not attached to any device
        bare device: the backend lists no memory for the addressable device 1
    "#]].assert_eq(&messages);
}

#[test]
fn rejects_contradictory_programs() {
    let mut messages = String::new();
    for (slip, code) in [
        ("negative", ErrorCode::INTERNAL),
        ("huge", ErrorCode::INTERNAL),
        ("kind", ErrorCode::INVALID_ARGUMENT),
        ("donated", ErrorCode::INTERNAL),
    ] {
        let client = client(slip).unwrap();
        let fault = table().compile(client, "slip").expect_err(slip);
        assert_eq!(fault.code, code, "{slip}: {fault:?}");
        messages += &format!("{slip}: {}\n", fault.message);
        table().destroy_client(client);
    }
    expect![[r#"
        negative: the backend returned contradictory values: f32[2,-4] has negative extents or exceeds the address space
        huge: the backend returned contradictory values: f32[9223372036854775807,4] has negative extents or exceeds the address space
        kind: device 0 has no memory of kind "hbm"; it has device
        donated: the backend returned contradictory values: the donated parameter 3 does not exist
    "#]].assert_eq(&messages);
}

#[test]
fn host_memory_must_be_complete() {
    let mut messages = String::new();
    for slip in ["short bytes", "no bytes", ""] {
        let client = client(slip).unwrap();
        let buffer = table().ints(client, &[1, 2]);
        let asked = table().ask::<slot::PJRT_Buffer_OpaqueDeviceMemoryDataPointer>(|args| args.buffer = buffer);
        match (asked, slip) {
            (Ok(args), "") => assert!(!args.device_memory_ptr.is_null()),
            (Err(fault), "short bytes" | "no bytes") => {
                messages += &format!("{slip}: {}\n", fault.message);
            }
            (asked, _) => panic!("{slip}: {:?}", asked.map(|args| args.device_memory_ptr)),
        }
        // A read that copies the data works in any case.
        assert_eq!(table().read_ints(buffer).unwrap(), [1, 2]);
        table().destroy(&[buffer]);
        table().destroy_client(client);
    }
    expect![[r#"
        short bytes: BufferAddresses::host_bytes returned 7 bytes for s32[2] in memory of kind "device", which is on_host
        no bytes: PJRT_Buffer_OpaqueDeviceMemoryDataPointer: the memory is on_host, but the backend does not list Features::buffer_addresses, or both host_bytes and device_pointer returned None
    "#]].assert_eq(&messages);
}
