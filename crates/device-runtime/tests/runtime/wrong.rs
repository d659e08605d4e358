//! Drivers that contradict themselves. The errors name the contradiction.

use std::sync::{Arc, Mutex};

use device_plugin::{
    ClientOptions, CompileOptions, Compiled, DeviceInfo, DevicePlugin, ElementType, Error, ErrorCode, ExecutableInfo,
    Program, Result, Shape, device_plugin,
};
use device_runtime::{Driver, DriverDevice, DriverMemory, HostSource, HostTarget, LaunchRequest, QueueId, Runtime};
use expect_test::expect;
use pjrt::{Client, Upload};

use crate::fixture::limited;

struct Plugin;

#[device_plugin]
impl DevicePlugin for Plugin {
    const NAME: &'static str = "wrong";
    type Backend = Runtime<Wrong>;
}

/// The contradiction.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(i64)]
enum Case {
    None,
    NoDevice,
    SameIds,
    NotAddressable,
    SameKinds,
    NoOtherMemory,
    NoLimit,
    AliasOfNoArgument,
    HugeScratch,
    FailsAtEachCall,
    PanicsAtEachCall,
}

const CASES: [Case; 11] = [
    Case::None,
    Case::NoDevice,
    Case::SameIds,
    Case::NotAddressable,
    Case::SameKinds,
    Case::NoOtherMemory,
    Case::NoLimit,
    Case::AliasOfNoArgument,
    Case::HugeScratch,
    Case::FailsAtEachCall,
    Case::PanicsAtEachCall,
];

/// A driver of the host's memory, whose operations end before their call returns. Its programs add 1 to two bytes.
struct Wrong(Case);

type Memory = Mutex<Vec<u8>>;

impl Wrong {
    fn call(&self) -> Result<()> {
        assert!(self.0 != Case::PanicsAtEachCall, "{}", crate::dummy::driver::PANIC);
        match self.0 {
            Case::FailsAtEachCall => Err(Error::new(ErrorCode::DATA_LOSS, "the driver is broken")),
            _ => Ok(()),
        }
    }
}

impl Driver for Wrong {
    type Memory = Memory;
    type Executable = ();
    type Prepared = (Arc<Memory>, Arc<Memory>);
    type Completion = ();

    const MAX_IN_FLIGHT: usize = 0;

    fn open(options: &ClientOptions) -> Result<Self> {
        let case = options.int("case")?.unwrap_or_default();
        CASES.into_iter().find(|known| *known as i64 == case).map(Self).ok_or_else(|| Error::internal("no case"))
    }

    fn devices(&self) -> Vec<DriverDevice> {
        let mut device = DriverDevice::new(DeviceInfo::new(0, "wrong"), 1 << 20);
        let other = DriverMemory::new("pinned_host", 1 << 20);
        match self.0 {
            Case::NoDevice => return Vec::new(),
            Case::SameIds => return vec![device.clone(), device],
            Case::NotAddressable => device.info.addressable = false,
            Case::SameKinds => device.other_memories = vec![DriverMemory::new("device", 1)],
            Case::NoOtherMemory => device.other_memories = vec![other],
            Case::NoLimit => device.memory_limit = 0,
            _ => {}
        }
        vec![device]
    }

    fn allocate(&self, _: usize, bytes: usize) -> Result<Memory> {
        Ok(Mutex::new(vec![0; bytes]))
    }

    fn copy_from_host(&self, _: QueueId, from: &HostSource, to: &Arc<Memory>, _: &[Arc<()>]) -> Result<()> {
        self.call()?;
        to.lock().unwrap()[..from.len()].copy_from_slice(from);
        Ok(())
    }

    fn copy_to_host(&self, _: QueueId, from: &Arc<Memory>, to: &HostTarget, _: &[Arc<()>]) -> Result<()> {
        self.call()?;
        to.write(0, &from.lock().unwrap());
        Ok(())
    }

    fn copy(&self, _: QueueId, _: (usize, &Arc<Memory>), _: &Arc<Memory>, _: usize, _: &[Arc<()>]) -> Result<()> {
        Err(Error::unimplemented("no copies between memories"))
    }

    fn compile(&self, _: &Program, _: &CompileOptions) -> Result<Compiled<()>> {
        let shape = Shape::new(ElementType::U8, [2]);
        let info = ExecutableInfo::new("add_one", [shape.clone()], [shape]);
        Ok(Compiled::new((), info.donating([0])))
    }

    fn scratch_bytes(&self, (): &()) -> usize {
        if self.0 == Case::HugeScratch { usize::MAX } else { 0 }
    }

    fn output_alias(&self, (): &(), _: usize) -> Option<usize> {
        (self.0 == Case::AliasOfNoArgument).then_some(3)
    }

    fn prepare(&self, _: &Arc<()>, request: &LaunchRequest<'_, Self>) -> Result<Self::Prepared> {
        self.call()?;
        Ok((Arc::clone(&request.inputs[0]), Arc::clone(&request.outputs[0])))
    }

    fn launch(&self, _: QueueId, (input, output): Self::Prepared, _: &[Arc<()>]) {
        let sums: Vec<_> = input.lock().unwrap()[..2].iter().map(|byte| byte + 1).collect();
        output.lock().unwrap()[..2].copy_from_slice(&sums);
    }

    fn wait(&self, (): &()) -> Result<()> {
        self.call()
    }
}

/// Uploads, runs a program and reads its output.
fn use_device(client: &Client) -> Result<Vec<u8>, pjrt::Error> {
    let device = client.addressable_devices()?.remove(0);
    for memory in device.memories()? {
        client.upload(Upload::of::<u8>(&[]).to(&memory))?.wait()?;
    }
    let x = client.upload(Upload::of(&[1u8, 2]).to(&device))?;
    let program = client.compile(&Program::mlir("add one"), &CompileOptions::default())?;
    program.execute(&[&x])?[0].to_host::<u8>()
}

#[test]
fn errors_name_the_contradiction() {
    limited(|| {
        let mut found = String::new();
        for case in CASES {
            let plugin = pjrt::Plugin::from_static(Plugin::api()).unwrap();
            let client = plugin.client(&pjrt::ClientOptions::new().with("case", case as i64));
            let result = client.and_then(|client| use_device(&client));
            let result =
                result.map_or_else(|error| format!("{:?} {}", error.code(), error.message()), |x| format!("{x:?}"));
            found += &format!("{case:?}: {result}\n");
        }
        expect![[r#"
            None: [2, 3]
            NoDevice: INTERNAL the backend lists no devices
            SameIds: INTERNAL the backend lists two devices with the id 0
            NotAddressable: INTERNAL device 0 is not addressable; the runtime supports devices of one process only
            SameKinds: INTERNAL device 0 has two memories of the kind "device"
            NoOtherMemory: UNIMPLEMENTED allocation of 0 bytes on device 0: cannot allocate 256 bytes in the other memory 0 of device 0, because the driver does not implement Driver::allocate_other
            NoLimit: INTERNAL the memory "device" of device 0 has a limit of 0 bytes
            AliasOfNoArgument: INTERNAL Driver::output_alias returns argument 3 for output 0, but the program has 1 arguments
            HugeScratch: RESOURCE_EXHAUSTED temporary memory of a launch: 18446744073709551615 bytes needed in the memory "device" of device 0, but 1048064 of 1048576 bytes are free: the limit is reached
            FailsAtEachCall: DATA_LOSS copy of 2 bytes from the host to device 0: the driver is broken
            PanicsAtEachCall: INTERNAL PJRT_Client_BufferFromHostBuffer: the plugin panicked: a panic on purpose
        "#]].assert_eq(&found);
    });
}
