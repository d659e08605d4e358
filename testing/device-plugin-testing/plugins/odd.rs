//! A plugin with a fault that the environment variable `ODD_PLUGIN` selects, for the tests of `pjrt doctor` and `pjrt
//! conform`.
#![allow(missing_debug_implementations, reason = "a test plugin")]
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use device_plugin::support::OperationRule;
use device_plugin::{
    Backend, ClientOptions, DevicePlugin, Error, HostArray, Manifest, Placement, Result, SupportTable, device_plugin,
};

/// The plugin type, which `#[device_plugin]` exports.
pub struct Odd;

#[device_plugin(export)]
impl DevicePlugin for Odd {
    const NAME: &'static str = "odd";
    type Backend = OddDevice;

    fn manifest(mut manifest: Manifest) -> Manifest {
        let operations = [("stablehlo.dot_general".to_owned(), OperationRule::of_types(["f32"]))].into();
        manifest.supported_programs = Some(SupportTable { complete: true, operations, ..SupportTable::default() });
        manifest
    }

    fn initialize() -> Result<()> {
        match mode().as_str() {
            "hang_in_initialize" => hang(),
            "fail_in_initialize" => Err(Error::failed_precondition("no driver is installed")),
            _ => Ok(()),
        }
    }
}

fn mode() -> String {
    std::env::var("ODD_PLUGIN").unwrap_or_default()
}

/// Returns whether no process has called this function before. The file `ODD_FILE` records the first call.
fn first_time() -> bool {
    let path = std::env::var_os("ODD_FILE").expect("the test names a file");
    std::fs::File::options().write(true).create_new(true).open(path).is_ok()
}

fn hang() -> ! {
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Starts two processes that would outlive this process: one in its process group and one in a new session. They and
/// this process keep the pipe `ODD_PIPE` open, so that its reader notices when the last of them has ended.
#[allow(clippy::zombie_processes, reason = "the test checks that these processes do not outlive the command")]
fn start_children() {
    let path = std::env::var_os("ODD_PIPE").expect("the test names a pipe");
    let mut pipe = std::fs::File::options().write(true).open(path).expect("the pipe opens");
    for program in [&["sleep", "1000"][..], &["setsid", "--fork", "sleep", "1000"]] {
        let copy = pipe.try_clone().expect("a second handle");
        let started = Command::new(program[0]).args(&program[1..]).stdin(Stdio::null()).stdout(copy).spawn();
        started.expect("the program starts");
    }
    writeln!(pipe, "ready").expect("the pipe has a reader");
    std::mem::forget(pipe);
}

/// A device in host memory that cannot run programs.
pub struct OddDevice;

impl Backend for OddDevice {
    device_plugin_testing::one_device!("odd");
    device_plugin_testing::no_programs!();

    type Buffer = std::sync::Arc<[u8]>;

    fn buffer_from_host(&self, host: HostArray<'_>, _: Placement) -> Result<Self::Buffer> {
        Ok(host.into_bytes().into())
    }

    /// Reads a buffer. If it has five bytes, fails in the way that `ODD_PLUGIN` selects.
    fn read(&self, buffer: &Self::Buffer, to: &mut [u8]) -> Result<()> {
        to.copy_from_slice(buffer);
        match mode().as_str() {
            "abort_in_read" if buffer.len() == 5 => {
                eprintln!("odd: the copy failed");
                std::process::abort()
            }
            "exit_in_read" if buffer.len() == 5 => std::process::exit(0),
            "hang_in_read" if buffer.len() == 5 => hang(),
            "children_in_read" if buffer.len() == 5 => {
                start_children();
                hang()
            }
            "wrong_in_read" if buffer.len() == 5 => to[2] = !to[2],
            "rarely_wrong_in_read" if buffer.len() == 5 && first_time() => to[2] = !to[2],
            _ => {}
        }
        Ok(())
    }

    fn create(_: &ClientOptions) -> Result<Self> {
        match mode().as_str() {
            "abort" => {
                eprintln!("odd: the device does not answer");
                std::process::abort()
            }
            "exit" => std::process::exit(0),
            "hang" => hang(),
            "children" => {
                start_children();
                Ok(Self)
            }
            "children_hang" => {
                start_children();
                hang()
            }
            "panic" => panic!("of the test"),
            "noise" => {
                for line in 0..200_000 {
                    println!("noise {line} on the standard output");
                }
                Ok(Self)
            }
            _ => Ok(Self),
        }
    }
}
