//! Tests backends whose answers contradict each other. Each contradiction causes an error that names the wrong value.
//! The framework never receives such values, because frameworks end the process when they do.

use device_plugin::features::{BufferAddresses, Features};
use device_plugin::*;
use pjrt_sys::slot;
use recorded_messages::assert_message;

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
        assert_message!("slips::devices", slip, fault.message);
    }
}

#[test]
fn rejects_contradictory_programs() {
    for (slip, code) in [
        ("negative", ErrorCode::INTERNAL),
        ("huge", ErrorCode::INTERNAL),
        ("kind", ErrorCode::INVALID_ARGUMENT),
        ("donated", ErrorCode::INTERNAL),
    ] {
        let client = client(slip).unwrap();
        let fault = table().compile(client, "slip").expect_err(slip);
        assert_eq!(fault.code, code, "{slip}: {fault:?}");
        assert_message!("slips::programs", slip, fault.message);
        table().destroy_client(client);
    }
}

#[test]
fn host_memory_must_be_complete() {
    for slip in ["short bytes", "no bytes", ""] {
        let client = client(slip).unwrap();
        let buffer = table().ints(client, &[1, 2]);
        let asked = table().ask::<slot::PJRT_Buffer_OpaqueDeviceMemoryDataPointer>(|args| args.buffer = buffer);
        match (asked, slip) {
            (Ok(args), "") => assert!(!args.device_memory_ptr.is_null()),
            (Err(fault), "short bytes" | "no bytes") => {
                assert_message!("slips::host_memory", slip, fault.message);
            }
            (asked, _) => panic!("{slip}: {:?}", asked.map(|args| args.device_memory_ptr)),
        }
        // A read that copies the data works in any case.
        assert_eq!(table().read_ints(buffer).unwrap(), [1, 2]);
        table().destroy(&[buffer]);
        table().destroy_client(client);
    }
}
