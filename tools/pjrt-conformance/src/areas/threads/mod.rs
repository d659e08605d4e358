//! Cases for several threads that use the same objects at the same time.

mod on_threads;
mod race;

use pjrt::extensions::Ffi;
use pjrt::{CompileOptions, ExecuteOptions, Function, Input};

use self::on_threads::on_threads;
use self::race::Race;
use crate::case::Profiles;
use crate::context::{extension, floats};
use crate::raw::{register_counter, shared};
use crate::stop::Stop;
use crate::suite::Suite;

/// Returns the cases for objects that several threads share.
fn races() -> Vec<Box<dyn Race>> {
    vec![
        Box::new(shared::CLIENT),
        Box::new(shared::COMPILER),
        Box::new(shared::DEVICE),
        Box::new(shared::DESCRIPTION),
        Box::new(shared::MEMORY),
        Box::new(shared::TOPOLOGY),
        Box::new(shared::EXECUTABLE),
        Box::new(shared::LOADED_EXECUTABLE),
        Box::new(shared::DELETED_EXECUTABLE),
        Box::new(shared::CONTEXT),
        Box::new(shared::USER_DATA),
        Box::new(shared::REGISTRY),
        Box::new(shared::BUFFER),
        Box::new(shared::DELETED_BUFFER),
        Box::new(shared::REFERENCES),
        Box::new(shared::RAW_BUFFER),
        Box::new(shared::LAYOUT),
        Box::new(shared::ABI_VERSIONS),
        Box::new(shared::TRANSFER_MANAGER),
        Box::new(shared::LITERAL),
        Box::new(shared::BUFFER_ERROR),
        Box::new(shared::METADATA),
        Box::new(shared::STREAM),
        Box::new(shared::EVENT),
        Box::new(shared::SET_EVENT),
        Box::new(shared::ERROR),
        Box::new(shared::CALLBACKS),
    ]
}

/// Declares a case for each kind of shared object. The cases check only that other threads make no difference, so a
/// call that always fails is accepted. The cases of other areas check the results of single calls.
fn shared(suite: &mut Suite) {
    let clause =
        "PJRT: several threads may call all functions for one object at the same time, except while it is destroyed";
    for race in races() {
        suite
            .case(format!("threads.{}", race.name()), clause, race.why())
            .profiles(race.profiles())
            // A race may damage memory that later cases would use.
            .isolated()
            .check(move |cx| race.run(cx));
    }
}

pub(crate) fn declare(suite: &mut Suite) {
    shared(suite);
    let clause = "PJRT: all functions may be called from several threads at the same time";
    for count in [2usize, 8, 32] {
        suite
            .case(
                format!("threads.execute.one_program[threads={count}]"),
                clause,
                "servers run one program from many threads",
            )
            .profiles(Profiles::FRAMEWORKS)
            .check(move |cx| {
                let executable = cx.add_one(64)?;
                let client = cx.client()?.clone();
                on_threads(count, |at| {
                    for round in 0..20u8 {
                        let value = f32::from(u8::try_from(at).unwrap_or(0)) * 100.0 + f32::from(round);
                        let input = client.buffer_from_host(&[value; 64], &[64])?;
                        let outputs = executable.execute(&[&input])?;
                        ensure!(floats(&outputs[0])? == [value + 1.0; 64], "thread {at} received another result");
                    }
                    Ok(())
                })
            });
    }
    suite
        .case("threads.compile.different_programs", clause, "servers compile from many threads")
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let programs: Vec<_> = (1..=8)
                .map(|len| crate::program::for_plugin(&crate::program::add_one(len), cx.plugin()))
                .collect::<Result<_, _>>()?;
            let client = cx.client()?.clone();
            on_threads(8, |at| {
                let executable = client.compile(&programs[at], &CompileOptions::default())?;
                let input = client.buffer_from_host(&vec![1.0f32; at + 1], &[i64::try_from(at + 1).unwrap_or(0)])?;
                ensure!(
                    floats(&executable.execute(&[&input])?[0])? == vec![2.0; at + 1],
                    "thread {at} received another result"
                );
                Ok(())
            })
        });
    suite
        .case(
            "threads.register.handlers",
            "pjrt: registrations for the whole process are made one at a time",
            "libraries register custom calls when Python imports them, on any thread",
        )
        .profiles(Profiles::JAX)
        .extension(5)
        .functions(&[Function::PJRT_FFI_Register_Handler])
        .isolated()
        .check(|cx| {
            let (ffi, client) = (extension::<Ffi>(cx)?, cx.client()?.clone());
            on_threads(8, |at| {
                (0..2000).try_for_each(|round| register_counter(&ffi, &client, &format!("threads_{at}_{round}")))
            })
        });
    suite
        .case("threads.donate.while_used", clause, "one thread may donate an array that others read")
        .profiles(Profiles::FULL)
        .check(|cx| {
            let executable = cx.compile(
                "func.func public @main(%x: tensor<64xf32> {tf.aliasing_output = 0 : i32}) -> tensor<64xf32> {
  %y = stablehlo.add %x, %x : tensor<64xf32>
  return %y : tensor<64xf32>
}",
            )?;
            let client = cx.client()?.clone();
            on_threads(4, |_| {
                for _ in 0..25 {
                    let input = client.buffer_from_host(&[1.0f32; 64], &[64])?;
                    let read = input.download().start::<f32>()?;
                    let run = executable.execute_with([Input::Donate(input)], &ExecuteOptions::new())?;
                    ensure!(
                        read.wait()? == [1.0; 64] && floats(&run.outputs[0])? == [2.0; 64],
                        "a donated array was read after it changed"
                    );
                }
                Ok(())
            })
        });
    suite
        .case("threads.transfer.parallel_uploads", clause, "data loaders upload from many threads")
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let client = cx.client()?.clone();
            on_threads(8, |at| {
                let value = f32::from(u8::try_from(at).unwrap_or(0));
                for len in [1usize, 1000, 50_000] {
                    let buffer = client.buffer_from_host(&vec![value; len], &[i64::try_from(len).unwrap_or(0)])?;
                    ensure!(floats(&buffer)?.iter().all(|found| *found == value), "thread {at} received other data");
                }
                Ok(())
            })
        });
    suite
        .case(
            "threads.order.results_of_one_thread",
            "PJRT: runs of one thread on one device see the results of earlier ones",
            "training loops depend on it",
        )
        .profiles(Profiles::MINIMAL)
        .check(|cx| {
            let executable = cx.add_one(1)?;
            let mut buffer = cx.floats(&[0.0])?;
            for _ in 0..200 {
                buffer = executable
                    .execute(&[&buffer])?
                    .into_iter()
                    .next()
                    .ok_or_else(|| Stop::Fail("the run has no output".to_owned()))?;
            }
            ensure_eq!(floats(&buffer)?, vec![200.0], "result of 200 runs in a row");
            Ok(())
        });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use pjrt::Function;

    use super::races;
    use crate::matching::selects;

    /// Functions that no case of this area calls, by pattern, with the reason.
    const OTHERS: &[(&str, &[&str])] = &[
        ("initializes the plugin before any other call", &["PJRT_Plugin_Initialize"]),
        (
            "creates an object without using another one",
            &[
                "PJRT_Client_Create",
                "PJRT_Event_Create",
                "PJRT_ExecuteContext_Create",
                "PJRT_TopologyDescription_Create",
                "PJRT_TopologyDescription_Deserialize",
                "PJRT_*AbiVersion_FromProto",
            ],
        ),
        ("destroys an object after all other calls for it", &["PJRT_*_Destroy"]),
        (
            "takes the buffer from its only owner; in XLA's plugins, so does a bitcast",
            &["PJRT_Buffer_DonateWithControlDependency", "PJRT_Buffer_Bitcast"],
        ),
        ("the order of the chunks is that of the calls", &["PJRT_CopyToDeviceStream_AddChunk"]),
        ("writes memory that the other calls read", &["PJRT_RawBuffer_CopyRawHostToDevice"]),
        (
            "needs a second client, with which each call communicates",
            &["PJRT_Transfers_PJRT_Client_*", "PJRT_Buffer_CopyToRemoteDevice"],
        ),
    ];

    /// Extensions that no plugin has on which the cases can be tried.
    const WITHOUT_PLUGIN: &[&str] = &[
        "PJRT_Collectives_Extension",
        "PJRT_Custom_Partitioner_Extension",
        "PJRT_Gpu_Custom_Call",
        "PJRT_MultiSlice_Extension",
        "PJRT_Megascale_Extension",
        "PJRT_PhaseCompile_Extension",
        "PJRT_TpuExecutable_Extension",
        "PJRT_TpuTopology_Extension",
        "PJRT_Triton_Extension",
        "PJRT_Xla_Transform_Extension",
    ];

    #[test]
    fn every_function_is_called_or_has_a_reason() {
        let called: BTreeSet<Function> = races().iter().flat_map(|race| race.functions()).collect();
        let without_plugin =
            |function: &Function| function.extension().is_some_and(|extension| WITHOUT_PLUGIN.contains(&extension));
        let mut unused: BTreeSet<&str> = OTHERS.iter().flat_map(|(_, patterns)| *patterns).copied().collect();
        for function in Function::ALL {
            let others: Vec<&str> = OTHERS
                .iter()
                .flat_map(|(_, patterns)| *patterns)
                .copied()
                .filter(|pattern| {
                    if pattern.contains('*') { selects(pattern, function.name()) } else { *pattern == function.name() }
                })
                .collect();
            for pattern in &others {
                unused.remove(pattern);
            }
            // Operations destroy the objects that they create.
            let destroys = others.iter().all(|pattern| *pattern == "PJRT_*_Destroy");
            assert!(
                called.contains(function) && destroys && !without_plugin(function)
                    || !called.contains(function) && (!others.is_empty() || without_plugin(function)),
                "{function}: add an operation to `raw/shared`, or the reason why no case calls the function"
            );
        }
        assert!(unused.is_empty(), "{unused:?} match no function");
    }
}
