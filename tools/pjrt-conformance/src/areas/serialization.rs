//! Cases for serialized executables.

use pjrt::{CompileOptions, Device, DeviceAssignment, Function, LoadOptions, SerializedExecutable, Upload};

use crate::case::Profiles;
use crate::context::floats;
use crate::foreign::{self, Maker};
use crate::program::add_one;
use crate::stop::Stop;
use crate::suite::Suite;

/// The two functions that serialize an executable and that load a serialized executable.
pub(super) const SERIALIZE: &[Function] =
    &[Function::PJRT_Executable_Serialize, Function::PJRT_Executable_DeserializeAndLoad];

pub(crate) fn declare(suite: &mut Suite) {
    let clause = "pjrt_c_api.h, PJRT_Executable_Serialize and PJRT_Executable_DeserializeAndLoad: the same plugin can \
                  load what it serialized";
    suite
        .case(
            "executables.serialize.round_trip",
            clause,
            "JAX's persistent compilation cache loads executables from disk",
        )
        .profiles(Profiles::JAX)
        .functions(SERIALIZE)
        .check(|cx| {
            let bytes = cx.add_one(2)?.executable().serialize()?;
            let loaded = cx.client()?.deserialize_and_load(&bytes)?;
            let input = cx.floats(&[1.0, 2.0])?;
            ensure_eq!(floats(&loaded.execute(&[&input])?[0])?, vec![2.0, 3.0], "result of the loaded executable");
            Ok(())
        });
    suite
        .case("executables.serialize.loaded_twice", clause, "a cache may load the same entry several times")
        .profiles(Profiles::JAX)
        .functions(SERIALIZE)
        .check(|cx| {
            let bytes = cx.add_one(2)?.executable().serialize()?;
            let (first, second) =
                (cx.client()?.deserialize_and_load(&bytes)?, cx.client()?.deserialize_and_load(&bytes)?);
            let input = cx.floats(&[1.0, 2.0])?;
            drop(first);
            ensure_eq!(
                floats(&second.execute(&[&input])?[0])?,
                vec![2.0, 3.0],
                "result after the other executable was destroyed"
            );
            Ok(())
        });
    suite
        .case("executables.serialize.own_program", clause, "a cache contains many programs")
        .profiles(Profiles::JAX)
        .functions(SERIALIZE)
        .check(|cx| {
            let (two, three) = (cx.add_one(2)?.executable().serialize()?, cx.add_one(3)?.executable().serialize()?);
            for (bytes, data) in [(two, vec![1.0, 2.0]), (three, vec![1.0, 2.0, 3.0])] {
                let loaded = cx.client()?.deserialize_and_load(&bytes)?;
                let expected: Vec<f32> = data.iter().map(|x| x + 1.0).collect();
                ensure_eq!(floats(&loaded.execute(&[&cx.floats(&data)?])?[0])?, expected, "result");
            }
            Ok(())
        });
    suite
        .case("executables.serialize.original_dropped", clause, "the cache outlives the original executable")
        .profiles(Profiles::JAX)
        .functions(SERIALIZE)
        .check(|cx| {
            let executable = cx.add_one(2)?;
            let bytes = executable.executable().serialize()?.as_bytes().to_vec();
            drop(executable);
            let loaded = cx.client()?.deserialize_and_load(&SerializedExecutable::from_bytes(bytes)?)?;
            let input = cx.floats(&[1.0, 2.0])?;
            ensure_eq!(floats(&loaded.execute(&[&input])?[0])?, vec![2.0, 3.0], "result");
            Ok(())
        });
    suite
        .case(
            "executables.serialize.other_client",
            clause,
            "a process loads executables from the cache of an earlier process",
        )
        .profiles(Profiles::JAX)
        .functions(SERIALIZE)
        .isolated()
        .check(|cx| {
            let bytes = {
                let client = cx.new_client()?;
                let program = crate::program::for_plugin(&add_one(2), cx.plugin())?;
                client.compile(&program, &CompileOptions::default())?.executable().serialize()?
            };
            let client = cx.new_client()?;
            let loaded = client.deserialize_and_load(&bytes)?;
            let input = client.buffer_from_host(&[1.0f32, 2.0], &[2])?;
            ensure_eq!(floats(&loaded.execute(&[&input])?[0])?, vec![2.0, 3.0], "result");
            Ok(())
        });
    suite
        .case(
            "executables.serialize.other_device",
            "pjrt_c_api.h, PJRT_Executable_DeserializeAndLoad_Args: overridden_serialized_compile_options replace those of \
             the executable",
            "a process of a cluster loads a cached executable for its own device",
        )
        .profiles(Profiles::JAX)
        .functions(SERIALIZE)
        .devices(2)
        .check(|cx| {
            let devices = cx.devices(2)?;
            let bytes = cx.add_one(2)?.executable().serialize()?;
            let mut options = CompileOptions::default();
            options.device_assignment = DeviceAssignment::new(1, 1, vec![i64::from(devices[1].id()?)]);
            let loaded = cx
                .client()?
                .deserialize_and_load_with(&bytes, &LoadOptions::new().with_overridden_compile_options(options))?;
            let ids: Vec<i32> = loaded.addressable_devices().iter().map(Device::id).collect::<Result<_, _>>()?;
            ensure_eq!(ids, vec![devices[1].id()?], "devices of the loaded executable");
            let input = cx.client()?.upload(Upload::of(&[1.0f32, 2.0]).dims(&[2]).to(&devices[1]))?;
            ensure_eq!(floats(&loaded.execute(&[&input])?[0])?, vec![2.0, 3.0], "result");
            Ok(())
        });
    for name in ["truncated", "extended", "altered", "empty"] {
        suite
            .case(
                format!("executables.serialize.refused[bytes={name}]"),
                "pjrt_c_api.h, PJRT_Executable_DeserializeAndLoad: returns an error for bytes that it cannot load",
                "a full disk truncates cache entries; if loading them crashes, the user must delete the cache by hand",
            )
            .functions(SERIALIZE)
            .isolated()
            .check(move |cx| {
                let payload = cx.add_one(2)?.executable().serialize()?.payload().to_vec();
                let mut bytes = payload.clone();
                match name {
                    "truncated" => bytes.truncate(bytes.len() / 2),
                    "extended" => bytes.extend([0xff; 16]),
                    "altered" => bytes.iter_mut().skip(4).step_by(7).for_each(|byte| *byte ^= 0x55),
                    _ => bytes.clear(),
                }
                match crate::raw::load_bytes(cx.client()?, &bytes)? {
                    Err(_) => Ok(()),
                    // A plugin may ignore bytes after the end of the executable.
                    Ok(()) if name == "extended" => Ok(()),
                    Ok(()) => Err(Stop::Fail(format!("the plugin loaded {name} bytes"))),
                }
            });
    }
    for (name, maker) in [("device_plugin", Maker::DevicePlugin), ("xla", Maker::Xla)] {
        suite
            .case(
                format!("executables.serialize.another_plugin[maker={name}]"),
                "pjrt_c_api.h, PJRT_Executable_DeserializeAndLoad: returns an error for bytes that it cannot load, such as \
                 an executable for another platform",
                "a cache that two plugins share must not end the process, or run a program for another device",
            )
            .profiles(Profiles::JAX)
            .functions(SERIALIZE)
            .isolated()
            .check(move |cx| {
                let program = crate::program::for_plugin(&add_one(2), cx.plugin())?;
                let bytes = foreign::executable(maker, &program, "pjrt_conformance", "1.0");
                match crate::raw::load_bytes(cx.client()?, &bytes)? {
                    Err(_) => Ok(()),
                    Ok(()) => fail!("the plugin loaded an executable of the platform pjrt_conformance"),
                }
            });
    }
}
