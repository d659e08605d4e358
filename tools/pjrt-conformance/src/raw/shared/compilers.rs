//! The compiler of a client and of its topology. A compilation takes long, so these functions have a kind of their own.

use pjrt::raw::AsRaw;
use pjrt::{CompileOptions, Function, Program, TopologyDescription};
use pjrt_sys::{PJRT_Executable, PJRT_LoadedExecutable, PJRT_Program, slot};

use super::kind::{End, Kind, LEN, Operation, Owned, With, ask, drop_all, operation, sized};
use crate::case::Profiles;
use crate::program;
use crate::stop::Stop;

/// The inputs of the compiler.
pub(crate) struct Inputs {
    program: Program,
    options: Vec<u8>,
    topology: TopologyDescription,
    /// The serialized executable of `program`, or empty bytes if the plugin does not serialize.
    serialized: Vec<u8>,
}

pub(crate) const COMPILER: Kind<Inputs> = Kind {
    name: "shared.compiler",
    why: "servers compile and load programs from many threads",
    profiles: Profiles::FRAMEWORKS,
    compiles: false,
    operations: &[
        operation!([PJRT_Client_Compile, PJRT_LoadedExecutable_Destroy], |on| {
            let mut program = raw(on);
            let args = ask::<slot::PJRT_Client_Compile>(on.plugin(), |args| {
                (args.client, args.program) = (on.client.as_raw(), &raw mut program);
                (args.compile_options, args.compile_options_size) =
                    (on.extra.options.as_ptr().cast(), on.extra.options.len());
            })?;
            destroy_loaded(on, args.executable)
        }),
        operation!([PJRT_Compile, PJRT_Executable_Destroy], |on| compile(on).map(|_| "compiled".to_owned())),
        operation!([PJRT_Compile, PJRT_Client_Load, PJRT_LoadedExecutable_Destroy, PJRT_Executable_Destroy], |on| {
            let executable = compile(on)?;
            let args = ask::<slot::PJRT_Client_Load>(on.plugin(), |args| {
                (args.client, args.executable) = (on.client.as_raw(), executable.as_raw());
                (args.compile_options, args.compile_options_size) =
                    (on.extra.options.as_ptr().cast(), on.extra.options.len());
            })?;
            destroy_loaded(on, args.loaded_executable)
        }),
        operation!([PJRT_Executable_DeserializeAndLoad, PJRT_LoadedExecutable_Destroy], |on| {
            let bytes = &on.extra.serialized;
            if bytes.is_empty() {
                return Err(Stop::Unsupported("the plugin does not serialize executables".to_owned()));
            }
            let args = ask::<slot::PJRT_Executable_DeserializeAndLoad>(on.plugin(), |args| {
                args.client = on.client.as_raw();
                (args.serialized_executable, args.serialized_executable_size) = (bytes.as_ptr().cast(), bytes.len());
            })?;
            destroy_loaded(on, args.loaded_executable)
        }),
    ],
    make: |cx, objects| {
        let serialized = objects.loaded.executable().serialize();
        Ok(Inputs {
            program: program::for_plugin(&program::add_one(LEN.into()), cx.plugin())?,
            options: CompileOptions::default().encode(),
            topology: objects.client.topology()?,
            serialized: serialized.map(|bytes| bytes.payload().to_vec()).unwrap_or_default(),
        })
    },
    end: End::Never,
    finish: drop_all,
};

/// Returns the program as a C struct, which refers to the program's bytes.
fn raw(on: &With<Inputs>) -> PJRT_Program {
    let mut program = sized::<PJRT_Program>(on.plugin());
    let source = &on.extra.program;
    (program.code, program.code_size) = (source.code().as_ptr().cast_mut().cast(), source.code().len());
    (program.format, program.format_size) = (source.format().as_ptr().cast(), source.format().len());
    program
}

fn compile(on: &With<Inputs>) -> Result<Owned<PJRT_Executable>, Stop> {
    let mut program = raw(on);
    let args = ask::<slot::PJRT_Compile>(on.plugin(), |args| {
        (args.topology, args.program) = (on.extra.topology.as_raw(), &raw mut program);
        (args.compile_options, args.compile_options_size) = (on.extra.options.as_ptr().cast(), on.extra.options.len());
        args.client = on.client.as_raw();
    })?;
    Owned::new(on.plugin(), args.executable, |plugin, executable| {
        ask::<slot::PJRT_Executable_Destroy>(plugin, |args| args.executable = executable).map(drop)
    })
}

fn destroy_loaded(on: &With<Inputs>, executable: *mut PJRT_LoadedExecutable) -> super::kind::Answer {
    ask::<slot::PJRT_LoadedExecutable_Destroy>(on.plugin(), |args| args.executable = executable)?;
    Ok("loaded".to_owned())
}
