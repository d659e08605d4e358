//! Cases for errors: codes, messages, payloads, and the rejection of invalid requests.

use pjrt::{CompileOptions, ElementType, ErrorCode, Function, NamedValue, Program, Value};

use crate::case::Profiles;
use crate::context::{Context, shape};
use crate::raw::{compile_followed_by, default_assignment, execute_unchecked, failing_compile};
use crate::stop::Stop;
use crate::suite::Suite;

pub(crate) fn declare(suite: &mut Suite) {
    objects(suite);
    programs(suite);
    lookups(suite);
    arguments(suite);
    buffers(suite);
}

fn objects(suite: &mut Suite) {
    let clause = "pjrt_c_api.h, PJRT_Error_Message: the message lives as long as the error";
    suite
        .case("errors.object.message", clause, "users learn the reason of an error only from its message")
        .profiles(Profiles::MINIMAL)
        .check(|cx| {
            let failure = failing_compile(cx.client()?)?;
            ensure!(!failure.message().0.is_empty(), "the message is empty");
            Ok(())
        });
    suite
        .case("errors.object.message_is_stable", clause, "frameworks read the message more than once")
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let failure = failing_compile(cx.client()?)?;
            let (first, second) = (failure.message(), failure.message());
            ensure_eq!(second, first, "message and address that the second call returned");
            Ok(())
        });
    suite
        .case(
            "errors.object.code",
            "pjrt_c_api.h, PJRT_Error_GetCode: returns one of the codes of PJRT_Error_Code, from 1 to 16",
            "frameworks translate codes to exceptions",
        )
        .profiles(Profiles::MINIMAL)
        .check(|cx| {
            let code = failing_compile(cx.client()?)?.code();
            ensure!(code.is_some_and(|code| (1..=16).contains(&code)), "the code is {code:?}");
            Ok(())
        });
    suite
        .case("errors.object.several_alive", clause, "errors of several threads exist at the same time")
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let failures: Vec<_> = (0..10).map(|_| failing_compile(cx.client()?)).collect::<Result<_, _>>()?;
            let message = failures.first().map(|failure| failure.message().0);
            ensure!(failures.iter().all(|failure| Some(failure.message().0) == message), "the messages differ");
            Ok(())
        });
    suite
        .case(
            "errors.object.payloads",
            "pjrt_c_api.h, PJRT_Error_ForEachPayload: calls the visitor for each payload",
            "JAX reads the error's origin from payloads",
        )
        .functions(&[Function::PJRT_Error_ForEachPayload])
        .check(|cx| {
            let failure = failing_compile(cx.client()?)?;
            ensure!(failure.payloads().is_some(), "PJRT_Error_ForEachPayload failed");
            Ok(())
        });
}

fn refused(result: Result<impl Sized, pjrt::Error>, what: &str) -> Result<(), Stop> {
    match result {
        Ok(_) => Err(Stop::Fail(format!("the plugin accepted {what}"))),
        Err(error) if error.message().is_empty() => Err(Stop::Fail(format!("the error about {what} has no message"))),
        Err(_) => Ok(()),
    }
}

fn programs(suite: &mut Suite) {
    let clause = "pjrt_c_api.h, PJRT_Client_Compile: returns an error for a program that it cannot compile";
    let texts: [(&str, &str, &[u8]); 7] = [
        ("empty", "mlir", b""),
        ("not_mlir", "mlir", b"hello"),
        ("truncated_bytecode", "mlir", b"ML\xefR\x0dStableHLO_v1.0.0\0"),
        ("binary_zeros", "mlir", &[0; 64]),
        ("unknown_format", "no_such_format", b"module {}"),
        ("empty_hlo", "hlo", b"\xff\xff\xff"),
        ("no_main", "mlir", b"module { func.func @one() { return } func.func @two() { return } }"),
    ];
    for (name, format, code) in texts {
        suite
            .case(
                format!("errors.program.refused[program={name}]"),
                clause,
                "a crash of the compiler ends the user's session",
            )
            .profiles(Profiles::FRAMEWORKS)
            .check(move |cx| {
                refused(
                    cx.client()?.compile(&Program::new(format, code), &CompileOptions::default()),
                    "a program that is not valid",
                )
            });
    }
    for (end, last) in [("brace", "}"), ("comment", "} // the last line")] {
        suite
            .case(
                format!("errors.program.ends_at_code_size[end={end}]"),
                "pjrt_c_api.h, PJRT_Program: `code` has `code_size` bytes, and need not end with a zero byte",
                "a compiler that reads on reads memory that does not belong to the program, and may crash",
            )
            .profiles(Profiles::FULL)
            .check(move |cx| {
                let text =
                    format!("func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{ return %x : tensor<2xf32> {last}");
                match compile_followed_by(cx.client()?, &text, " is long\n@@@ this is not part of the program")? {
                    Ok(()) => Ok(()),
                    Err(failure) => fail!("the plugin reads beyond the program: {}", failure.message().0),
                }
            });
    }
    suite
        .case(
            "errors.program.refused_at_code_size",
            "pjrt_c_api.h, PJRT_Program: `code` has `code_size` bytes, and need not end with a zero byte",
            "a compiler that reads on reads memory that does not belong to the program, and may crash",
        )
        .profiles(Profiles::FULL)
        .check(|cx| match compile_followed_by(cx.client()?, "hello", "_world @@@")? {
            Ok(()) => fail!("the plugin compiled text that is not a program"),
            Err(failure) => {
                let (message, _) = failure.message();
                ensure!(!message.contains("_world"), "the plugin reads beyond the program: {message}");
                Ok(())
            }
        });
    let bad_types = "func.func @main(%x: tensor<2xf32>) -> tensor<3xf32> {\n  return %x : tensor<2xf32>\n}";
    suite
        .case("errors.program.wrong_return_type", clause, "a crash of the compiler ends the user's session")
        .profiles(Profiles::FRAMEWORKS)
        .check(move |cx| {
            refused(cx.client()?.compile(&Program::mlir(bad_types), &CompileOptions::default()), "a wrong return type")
        });
    let custom = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = stablehlo.custom_call @pjrt_conformance_no_such_target(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %y : tensor<2xf32>
}";
    suite
        .case("errors.program.unknown_custom_call", clause, "users often forget to load a library of custom calls")
        .profiles(Profiles::FRAMEWORKS)
        .check(move |cx| match cx.compile(custom) {
            Err(_) => Ok(()),
            Ok(executable) => {
                let input = cx.floats(&[1.0, 2.0])?;
                let run = executable.execute(&[&input]);
                refused(
                    run.and_then(|outputs| outputs.iter().try_for_each(pjrt::Buffer::wait)),
                    "an unknown custom call",
                )
            }
        });
    suite
        .case("errors.program.works_afterwards", clause, "a user corrects the program and continues")
        .profiles(Profiles::MINIMAL)
        .check(|cx| {
            for _ in 0..5 {
                drop(failing_compile(cx.client()?)?);
            }
            let input = cx.floats(&[1.0])?;
            let outputs = cx.add_one(1)?.execute(&[&input])?;
            ensure_eq!(
                outputs[0].download().start::<f32>()?.wait()?,
                vec![2.0],
                "result of a valid program after failed compilations"
            );
            Ok(())
        });
    suite
        .case(
            "errors.options.garbage",
            "pjrt_c_api.h, PJRT_Client_Compile: compile_options is a serialized CompileOptionsProto",
            "a newer framework may send options that an older plugin cannot read",
        )
        .check(|cx| {
            let program = crate::program::for_plugin(&crate::program::add_one(2), cx.plugin())?;
            refused(
                cx.client()?.compile_with_raw_options(&program, b"\xff\xff\xff\xff"),
                "compile options that are not a CompileOptionsProto",
            )
        });
    for (name, replicas, partitions) in [("too_many_replicas", 1000, 1), ("too_many_partitions", 1, 1000)] {
        suite
            .case(
                format!("errors.options.refused[options={name}]"),
                clause,
                "a program for more devices than the client has must not run on fewer devices",
            )
            .profiles(Profiles::FRAMEWORKS)
            .check(move |cx| {
                let options = CompileOptions::default().with_num_replicas(replicas).with_num_partitions(partitions);
                let compiled = cx.compile_with(&crate::program::add_one(2), &options);
                ensure!(compiled.is_err(), "the plugin compiled for more devices than the client has");
                Ok(())
            });
    }
}

fn lookups(suite: &mut Suite) {
    for id in [-1, 1_000_000, i32::MAX, i32::MIN] {
        for (name, clause) in [
            ("device", "pjrt_c_api.h, PJRT_Client_LookupDevice: returns an error if no device has the id"),
            (
                "addressable_device",
                "pjrt_c_api.h, PJRT_Client_LookupAddressableDevice: returns an error if no device has the local id",
            ),
        ] {
            suite
                .case(
                    format!("errors.lookup.{name}[id={id}]"),
                    clause,
                    "with a wrong id, the plugin must not read outside its list of devices",
                )
                .profiles(Profiles::FRAMEWORKS)
                .check(move |cx| {
                    let client = cx.client()?;
                    let found =
                        if name == "device" { client.lookup_device(id) } else { client.lookup_addressable_device(id) };
                    refused(found, "an id that no device has")
                });
        }
    }
    suite
        .case(
            "errors.lookup.every_device",
            "pjrt_c_api.h, PJRT_Client_LookupDevice: returns the device with the id",
            "frameworks find devices by their id",
        )
        .profiles(Profiles::MINIMAL)
        .check(|cx| {
            let client = cx.client()?;
            for device in client.devices()? {
                let id = device.id()?;
                ensure_eq!(client.lookup_device(id)?.id()?, id, "id of the device that was found");
            }
            Ok(())
        });
    suite
        .case(
            "errors.lookup.every_local_id",
            "pjrt_c_api.h, PJRT_Client_LookupAddressableDevice: returns the device with the local hardware id",
            "frameworks find the devices of a process by their local ids",
        )
        .profiles(Profiles::JAX)
        .functions(&[Function::PJRT_Client_LookupAddressableDevice])
        .check(|cx| {
            let client = cx.client()?;
            for device in client.addressable_devices()? {
                let (id, local) = (device.id()?, device.local_hardware_id()?);
                if local < 0 {
                    return Err(Stop::Skip(format!("device {id} has no local hardware id")));
                }
                ensure_eq!(
                    client.lookup_addressable_device(local)?.id()?,
                    id,
                    "id of the device with the local id {local}"
                );
            }
            Ok(())
        });
    // Name, number of replicas, number of partitions, and size of the assignment's memory in elements.
    let assignments = [
        ("zero", 0, 1, 1),
        ("negative", -1, 1, 1),
        ("too_many", 4096, 1, 4096),
        ("small_buffer", 1, 1, 0),
        ("overflow", i32::MAX, i32::MAX, 8),
    ];
    for (name, replicas, partitions, room) in assignments {
        suite
            .case(
                format!("errors.lookup.default_assignment[case={name}]"),
                "pjrt_c_api.h, PJRT_Client_DefaultDeviceAssignment: returns an error if the client has too few devices \
                 for the replicas and partitions, if one of their numbers is not positive, or if default_assignment_size \
                 is smaller than their product",
                "a wrong number of replicas must not end the process",
            )
            .functions(&[Function::PJRT_Client_DefaultDeviceAssignment])
            .isolated()
            .check(move |cx| match default_assignment(cx.client()?, replicas, partitions, room)? {
                Err(failure) => {
                    ensure!(!failure.message().0.is_empty(), "the error about this assignment has no message");
                    Ok(())
                }
                Ok(()) => fail!("the plugin assigned {replicas} replicas of {partitions} partitions to {room} numbers"),
            });
    }
}

fn arguments(suite: &mut Suite) {
    let clause = "pjrt_c_api.h, PJRT_LoadedExecutable_Execute: num_args is the number of the program's arguments; XLA \
                  returns INVALID_ARGUMENT otherwise";
    for (name, count) in [("none", 0usize), ("too_few", 1), ("too_many", 3)] {
        suite
            .case(
                format!("errors.arguments.count[count={name}]"),
                clause,
                "a plugin that reads an argument that does not exist has undefined behaviour",
            )
            .profiles(Profiles::FRAMEWORKS)
            .check(move |cx| {
                let executable = cx.compile(&crate::program::binary("add", "tensor<2xf32>"))?;
                let buffer = cx.floats(&[1.0, 2.0])?;
                let outcome = execute_unchecked(&executable, &vec![&buffer; count], 1)?;
                ended(outcome, "a wrong number of arguments")
            });
    }
    suite
        .case(
            "errors.arguments.size",
            "XLA: rejects an argument whose size differs from the parameter's with INVALID_ARGUMENT",
            "a program that expects a larger buffer reads beyond the end of this one",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let executable = cx.add_one(1024)?;
            let buffer = cx.floats(&[1.0, 2.0])?;
            ended(execute_unchecked(&executable, &[&buffer], 1)?, "an argument of the wrong size")
        });
    suite
        .case(
            "errors.arguments.deleted",
            "pjrt_c_api.h, PJRT_Buffer_Delete: the buffer cannot be used afterwards",
            "a run that reads deleted memory computes wrong results",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let executable = cx.add_one(2)?;
            let buffer = cx.floats(&[1.0, 2.0])?;
            buffer.delete()?;
            ended(execute_unchecked(&executable, &[&buffer], 1)?, "a deleted argument")
        });
}

type Outcome = Result<Vec<pjrt::Buffer>, crate::raw::Failure>;

/// Checks that an execution failed. Either the call must return an error, or every output must have an error.
fn ended(outcome: Outcome, what: &str) -> Result<(), Stop> {
    match outcome {
        Err(failure) => {
            ensure!(!failure.message().0.is_empty(), "the error about {what} has no message");
            Ok(())
        }
        Ok(outputs) => {
            let failed = outputs.iter().all(|output| output.wait().is_err());
            ensure!(failed, "the plugin ran the program with {what}");
            Ok(())
        }
    }
}

fn buffers(suite: &mut Suite) {
    let clause = "pjrt_c_api.h, PJRT_Client_CreateErrorBuffer: creates a buffer whose uses return the error";
    let functions = [Function::PJRT_Client_CreateErrorBuffer];
    let error_buffer = |cx: &Context| -> Result<pjrt::Buffer, Stop> {
        let shape = shape(ElementType::F32, &[2]);
        Ok(cx.memory()?.buffer(&shape).error(ErrorCode::DATA_LOSS, "the reason")?)
    };
    let lost = |result: Result<Vec<f32>, pjrt::Error>| match result {
        Ok(_) => Err(Stop::Fail("the error was lost".to_owned())),
        Err(error) => {
            ensure!(error.message().contains("the reason"), "the message is {:?}", error.message());
            Ok(())
        }
    };
    suite
        .case(
            "errors.buffer.read",
            clause,
            "in asynchronous programs, an error reaches the user through the results that depend on it",
        )
        .profiles(Profiles::JAX)
        .functions(&functions)
        .check(move |cx| {
            let buffer = error_buffer(cx)?;
            lost(buffer.download().start::<f32>().and_then(pjrt::HostRead::wait))
        });
    suite
        .case("errors.buffer.ready_event", clause, "jax.block_until_ready raises the error")
        .profiles(Profiles::JAX)
        .functions(&functions)
        .check(move |cx| {
            let buffer = error_buffer(cx)?;
            match buffer.wait() {
                Ok(()) => Err(Stop::Fail("the event of an error buffer is ready without an error".to_owned())),
                Err(error) => {
                    ensure_eq!(error.code(), ErrorCode::DATA_LOSS, "code");
                    Ok(())
                }
            }
        });
    suite
        .case("errors.buffer.execute", clause, "a run with a failed argument must fail, and compute nothing")
        .profiles(Profiles::JAX)
        .functions(&functions)
        .check(move |cx| {
            let buffer = error_buffer(cx)?;
            match cx.add_one(2)?.execute(&[&buffer]) {
                Err(error) => lost(Err(error)),
                Ok(outputs) => lost(outputs[0].download().start::<f32>().and_then(pjrt::HostRead::wait)),
            }
        });
    suite
        .case("errors.buffer.query", clause, "frameworks query the shape of a failed array")
        .profiles(Profiles::JAX)
        .functions(&functions)
        .check(move |cx| {
            let buffer = error_buffer(cx)?;
            ensure_eq!(buffer.shape()?, &shape(ElementType::F32, &[2]), "shape");
            Ok(())
        });
    suite
        .case(
            "errors.buffer.payload",
            "pjrt_c_api.h, PJRT_Client_CreateErrorBuffer: payload has num_payload named values",
            "JAX attaches the origin of an error to it",
        )
        .functions(&functions)
        .check(|cx| {
            let api = cx.plugin().api_version();
            if api.minor < 106 {
                return Err(Stop::Unsupported(format!("payloads came with API 0.106; the plugin has {api}")));
            }
            let shape = shape(ElementType::F32, &[2]);
            let payload = [NamedValue::new("origin", Value::String("host 3".to_owned()))];
            let buffer = cx.memory()?.buffer(&shape).error_with_payload(ErrorCode::ABORTED, "the reason", &payload)?;
            let Err(error) = buffer.wait() else { fail!("the error was lost") };
            let found = error.payloads().iter().any(|(key, value)| key == "origin" && value == b"host 3");
            ensure!(found, "the payloads are {:?}", error.payloads());
            Ok(())
        });
}
