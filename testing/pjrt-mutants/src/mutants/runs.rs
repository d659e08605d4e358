//! Faults of runs: outputs, donation, completion and several devices.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use pjrt_sys::{PJRT_Buffer, PJRT_Error_Code, PJRT_ExecuteOptions, PJRT_LoadedExecutable, slot};

use crate::device::{Answer, Shared, ask, error, leaked, list, read_at, ready_event, settable_event, write_at};
use crate::mutant::Mutant;

/// Returns the number of outputs of an executable.
fn outputs(executable: *mut PJRT_LoadedExecutable) -> usize {
    let inner = ask::<slot::PJRT_LoadedExecutable_GetExecutable>(|args| args.loaded_executable = executable);
    let Some(inner) = inner else { return 0 };
    let count = ask::<slot::PJRT_Executable_NumOutputs>(|args| args.executable = inner.executable);
    ask::<slot::PJRT_Executable_Destroy>(|args| args.executable = inner.executable);
    count.map_or(0, |count| count.num_outputs)
}

/// Returns a changed copy of a run's options, or `options` itself if the caller's struct is shorter than in this
/// crate's header.
fn change_options(
    options: *mut PJRT_ExecuteOptions,
    change: impl Fn(&mut PJRT_ExecuteOptions),
) -> *mut PJRT_ExecuteOptions {
    let size: usize = read_at(options.cast_const().cast(), 0);
    if size < size_of::<PJRT_ExecuteOptions>() {
        return options;
    }
    let mut copy: PJRT_ExecuteOptions = read_at(options.cast_const(), 0);
    change(&mut copy);
    leaked([copy])
}

/// A slot through which two threads exchange the outputs of their runs. It contains the address of the executable, and
/// the output that the other thread takes.
type Exchange = Mutex<Option<(usize, Shared<PJRT_Buffer>)>>;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant::new(
        "data.first_two_outputs_swapped",
        "PJRT_LoadedExecutable_Execute: outputs in the program's order",
        |device| {
            device.after::<slot::PJRT_LoadedExecutable_Execute>(|args| {
                if outputs(args.executable) < 2 {
                    return;
                }
                for places in list(args.output_lists, args.num_devices) {
                    let pair: [*mut PJRT_Buffer; 2] = read_at(places.cast_const().cast(), 0);
                    write_at(places, 0, pair[1]);
                    write_at(places, 1, pair[0]);
                }
            });
        },
    ),
    Mutant::new(
        "data.last_output_is_first_again",
        "PJRT_LoadedExecutable_Execute: a buffer for each output",
        |device| {
            device.after::<slot::PJRT_LoadedExecutable_Execute>(|args| {
                let count = outputs(args.executable);
                for places in list(args.output_lists, args.num_devices) {
                    if count > 1 {
                        let first: *mut PJRT_Buffer = read_at(places.cast_const(), 0);
                        write_at(places, count - 1, first);
                    }
                }
            });
        },
    ),
    Mutant::new("data.outputs_null", "PJRT_LoadedExecutable_Execute: fills output_lists", |device| {
        device.after::<slot::PJRT_LoadedExecutable_Execute>(|args| {
            if outputs(args.executable) > 0 {
                for places in list(args.output_lists, args.num_devices) {
                    write_at(places, 0, std::ptr::null_mut());
                }
            }
        });
    }),
    Mutant::new(
        "buffers.donation_ignored",
        "PJRT_LoadedExecutable_Execute: a donated argument is consumed",
        |device| {
            device.before::<slot::PJRT_LoadedExecutable_Execute>(|args| {
                let all: Vec<i64> = (0..args.num_args).filter_map(|at| i64::try_from(at).ok()).collect();
                args.options = change_options(args.options, |options| {
                    options.num_non_donatable_input_indices = all.len();
                    options.non_donatable_input_indices = leaked(all.clone());
                });
            });
        },
    ),
    Mutant::new(
        "buffers.kept_argument_donated",
        "non_donatable_input_indices: listed arguments are not consumed",
        |device| {
            device.before::<slot::PJRT_LoadedExecutable_Execute>(|args| {
                args.options = change_options(args.options, |options| options.num_non_donatable_input_indices = 0);
            });
        },
    ),
    Mutant::new("buffers.first_kept_argument_only", "non_donatable_input_indices: a list of any length", |device| {
        device.before::<slot::PJRT_LoadedExecutable_Execute>(|args| {
            args.options = change_options(args.options, |options| {
                let count = &mut options.num_non_donatable_input_indices;
                *count = (*count).min(1);
            });
        });
    }),
    Mutant::new(
        "collectives.done_event_never_ready",
        "device_complete_events: ready when the run has ended",
        |device| {
            device.after::<slot::PJRT_LoadedExecutable_Execute>(|args| {
                if !args.device_complete_events.is_null() {
                    write_at(args.device_complete_events, 0, settable_event());
                }
            });
        },
    ),
    Mutant::new("transfers.done_event_is_early", "device_complete_events: ready when the run has ended", |device| {
        device.after::<slot::PJRT_LoadedExecutable_Execute>(|args| {
            if !args.device_complete_events.is_null() {
                for at in 0..args.num_devices {
                    write_at(args.device_complete_events, at, ready_event());
                }
            }
        });
    }),
    Mutant::new(
        "collectives.done_events_null",
        "device_complete_events: receives an event for each device",
        |device| {
            device.after::<slot::PJRT_LoadedExecutable_Execute>(|args| {
                if !args.device_complete_events.is_null() {
                    for at in 0..args.num_devices {
                        write_at(args.device_complete_events, at, std::ptr::null_mut());
                    }
                }
            });
        },
    ),
    Mutant::new("collectives.outputs_of_devices_swapped", "output_lists: a list for each device, in order", |device| {
        device.after::<slot::PJRT_LoadedExecutable_Execute>(|args| {
            if args.num_devices > 1 && outputs(args.executable) > 0 {
                let lists = list(args.output_lists, 2);
                let pair: [*mut PJRT_Buffer; 2] =
                    [read_at(lists[0].cast_const(), 0), read_at(lists[1].cast_const(), 0)];
                write_at(lists[0], 0, pair[1]);
                write_at(lists[1], 0, pair[0]);
            }
        });
    }),
    Mutant::new("collectives.one_device_only", "num_devices: runs on each device of the program", |device| {
        device.replace::<slot::PJRT_LoadedExecutable_Execute>(|call| {
            if call.args.num_devices > 2 {
                return error(PJRT_Error_Code::PJRT_Error_Code_INTERNAL, "at most two devices");
            }
            call.pass()
        });
    }),
    Mutant::new(
        "transfers.run_does_not_wait",
        "PJRT_LoadedExecutable_Execute: waits for arguments that are not ready",
        |device| {
            device.replace::<slot::PJRT_LoadedExecutable_Execute>(|call| {
                let pending = list(call.args.argument_lists, call.args.num_devices).into_iter().any(|arguments| {
                    list(arguments, call.args.num_args).into_iter().any(|buffer| {
                        let event = ask::<slot::PJRT_Buffer_ReadyEvent>(|args| args.buffer = buffer);
                        let ready =
                            event.and_then(|found| ask::<slot::PJRT_Event_IsReady>(|args| args.event = found.event));
                        event.inspect(|found| {
                            ask::<slot::PJRT_Event_Destroy>(|args| args.event = found.event);
                        });
                        ready.is_some_and(|ready| !ready.is_ready.get())
                    })
                });
                if pending {
                    std::thread::sleep(Duration::from_millis(1));
                    return error(PJRT_Error_Code::PJRT_Error_Code_FAILED_PRECONDITION, "an argument is not ready");
                }
                call.pass()
            });
        },
    ),
    Mutant::new(
        "threads.results_of_threads_swapped",
        "PJRT: several threads may run a program at the same time",
        |device| {
            let exchange: Exchange = Mutex::new(None);
            let running = AtomicUsize::new(0);
            device.replace::<slot::PJRT_LoadedExecutable_Execute>(move |call| {
                let others = running.fetch_add(1, Ordering::SeqCst);
                let answer = call.pass();
                if others > 0 && answer.is_success() && outputs(call.args.executable) == 1 && call.args.num_devices == 1
                {
                    let places: *mut *mut PJRT_Buffer = read_at(call.args.output_lists, 0);
                    let own: *mut PJRT_Buffer = read_at(places.cast_const(), 0);
                    let lock = || exchange.lock().unwrap_or_else(PoisonError::into_inner);
                    let executable = call.args.executable.addr();
                    let mut shared = lock();
                    match shared.take() {
                        Some((other, result)) if other == executable => {
                            write_at(places, 0, result.get());
                            *shared = Some((0, Shared(own)));
                        }
                        None => {
                            *shared = Some((executable, Shared(own)));
                            drop(shared);
                            std::thread::sleep(Duration::from_micros(300));
                            if let Some((_, result)) = lock().take() {
                                write_at(places, 0, result.get());
                            }
                        }
                        other => *shared = other,
                    }
                }
                running.fetch_sub(1, Ordering::SeqCst);
                answer
            });
        },
    ),
    Mutant::new("limits.arguments_256", "PJRT: only memory limits the number of arguments", |device| {
        device.replace::<slot::PJRT_LoadedExecutable_Execute>(|call| {
            if call.args.num_args > 256 {
                return error(PJRT_Error_Code::PJRT_Error_Code_RESOURCE_EXHAUSTED, "too many arguments");
            }
            call.pass()
        });
    }),
    Mutant::new("data.outputs_above_64_refused", "PJRT_LoadedExecutable_Execute: any number of outputs", |device| {
        device.replace::<slot::PJRT_LoadedExecutable_Execute>(|call| {
            if outputs(call.args.executable) > 64 {
                return error(PJRT_Error_Code::PJRT_Error_Code_RESOURCE_EXHAUSTED, "too many outputs");
            }
            call.pass()
        });
    }),
    Mutant::new(
        "buffers.deleted_executable_runs",
        "PJRT_LoadedExecutable_Delete: the executable cannot run afterwards",
        |device| {
            device.skip::<slot::PJRT_LoadedExecutable_Delete>();
        },
    ),
    Mutant::new(
        "buffers.deleted_executable_not_reported",
        "PJRT_LoadedExecutable_IsDeleted: whether it was deleted",
        |device| {
            device.after::<slot::PJRT_LoadedExecutable_IsDeleted>(|args| args.is_deleted = false.into());
        },
    ),
    Mutant::new("leaks.loaded_executables", "PJRT_LoadedExecutable_Destroy: frees the executable", |device| {
        device.skip::<slot::PJRT_LoadedExecutable_Destroy>();
    }),
    Mutant::new("leaks.executables", "PJRT_Executable_Destroy: frees the executable", |device| {
        device.skip::<slot::PJRT_Executable_Destroy>();
    }),
];
