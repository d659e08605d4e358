//! Faults of events and their callbacks.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pjrt_sys::{PJRT_Error_Code, slot};

use crate::device::{Answer, Trampoline, ask, call_back, error, intercept, ready_event, set, settable_event, wait};
use crate::mutant::Mutant;

/// A lock that mutants hold during a call or a callback, so that other calls block.
static LOCK: Mutex<()> = Mutex::new(());

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_ready(event: *mut pjrt_sys::PJRT_Event) -> bool {
    ask::<slot::PJRT_Event_IsReady>(|args| args.event = event).is_some_and(|args| args.is_ready.get())
}

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant::new("events.await_returns_early", "PJRT_Event_Await: blocks until the event is ready", |device| {
        device.skip::<slot::PJRT_Event_Await>();
    }),
    Mutant::new("events.await_loses_error", "PJRT_Event_Await: returns the error of the event", |device| {
        device.replace::<slot::PJRT_Event_Await>(|call| {
            let _lost = call.pass();
            Answer::SUCCESS
        });
    }),
    Mutant::new("events.await_only_once", "PJRT_Event_Await: any number of waiters wait for an event", |device| {
        let awaited: Arc<Mutex<HashSet<usize>>> = Arc::default();
        let destroyed = awaited.clone();
        device.replace::<slot::PJRT_Event_Await>(move |call| {
            if !lock(&awaited).insert(call.args.event.addr()) {
                return error(PJRT_Error_Code::PJRT_Error_Code_FAILED_PRECONDITION, "a thread has waited already");
            }
            call.pass()
        });
        device.before::<slot::PJRT_Event_Destroy>(move |args| {
            lock(&destroyed).remove(&args.event.addr());
        });
    }),
    Mutant::new(
        "events.await_excludes_set",
        "PJRT_Event_Set: another thread sets an event that a thread awaits",
        |device| {
            device.replace::<slot::PJRT_Event_Await>(|call| {
                let _held = lock(&LOCK);
                call.pass()
            });
            device.replace::<slot::PJRT_Event_Set>(|call| {
                let _held = lock(&LOCK);
                call.pass()
            });
        },
    ),
    Mutant::new("events.is_always_ready", "PJRT_Event_IsReady: whether the event is ready", |device| {
        device.after::<slot::PJRT_Event_IsReady>(|args| args.is_ready = true.into());
    }),
    Mutant::new("events.is_never_ready", "PJRT_Event_IsReady: whether the event is ready", |device| {
        device.after::<slot::PJRT_Event_IsReady>(|args| args.is_ready = false.into());
    }),
    Mutant::new("events.does_not_stay_ready", "PJRT_Event_IsReady: an event that is ready stays ready", |device| {
        let calls = AtomicUsize::new(0);
        device.after::<slot::PJRT_Event_IsReady>(move |args| {
            let call = calls.fetch_add(1, Ordering::Relaxed);
            args.is_ready = (args.is_ready.get() && call % 8 != 7).into();
        });
    }),
    Mutant::new("events.error_query_loses_error", "PJRT_Event_Error: returns the error of the event", |device| {
        device.skip::<slot::PJRT_Event_Error>();
    }),
    Mutant::new("events.callback_runs_twice", "PJRT_Event_OnReady: the callback is called once", |device| {
        device.replace::<slot::PJRT_Event_OnReady>(|call| {
            let answer = call.pass();
            if answer.is_success() { call.pass() } else { answer }
        });
    }),
    Mutant::new(
        "events.callback_never_runs",
        "PJRT_Event_OnReady: the callback is called when the event is ready",
        |device| {
            device.skip::<slot::PJRT_Event_OnReady>();
        },
    ),
    Mutant::new(
        "events.callback_runs_early",
        "PJRT_Event_OnReady: the callback is called once the event is ready",
        |device| {
            device.replace::<slot::PJRT_Event_OnReady>(|call| {
                call_back(call.args.callback, call.args.user_arg, std::ptr::null_mut());
                Answer::SUCCESS
            });
        },
    ),
    Mutant::new("events.callback_receives_no_error", "PJRT_Event_OnReady: the callback receives the error", |device| {
        device.before::<slot::PJRT_Event_OnReady>(|args| {
            intercept(args, |_, callback| callback(std::ptr::null_mut()));
        });
    }),
    Mutant::new(
        "events.callback_receives_wrong_argument",
        "PJRT_Event_OnReady: the callback receives user_arg",
        |device| {
            device.before::<slot::PJRT_Event_OnReady>(|args| args.user_arg = std::ptr::null_mut());
        },
    ),
    Mutant::new(
        "events.one_callback_for_each_event",
        "PJRT_Event_OnReady: an event has any number of callbacks",
        |device| {
            let registered: Arc<Mutex<HashSet<usize>>> = Arc::default();
            let destroyed = registered.clone();
            device.replace::<slot::PJRT_Event_OnReady>(move |call| {
                if lock(&registered).insert(call.args.event.addr()) { call.pass() } else { Answer::SUCCESS }
            });
            device.before::<slot::PJRT_Event_Destroy>(move |args| {
                lock(&destroyed).remove(&args.event.addr());
            });
        },
    ),
    Mutant::new(
        "events.callback_ends_with_event",
        "PJRT_Event_Destroy: the callbacks of an event that is destroyed before it is ready are called",
        |device| {
            let live: Arc<Mutex<HashMap<usize, Arc<AtomicBool>>>> = Arc::default();
            let destroyed = live.clone();
            device.before::<slot::PJRT_Event_OnReady>(move |args| {
                let gone = lock(&live).entry(args.event.addr()).or_default().clone();
                intercept(args, move |error, callback| {
                    if !gone.load(Ordering::SeqCst) {
                        callback(error);
                    }
                });
            });
            device.before::<slot::PJRT_Event_Destroy>(move |args| {
                if let Some(gone) = lock(&destroyed).remove(&args.event.addr()) {
                    gone.store(!is_ready(args.event), Ordering::SeqCst);
                }
            });
        },
    ),
    Mutant::new(
        "events.callback_runs_under_lock",
        "PJRT_Event_OnReady: the callback may call functions of the plugin",
        |device| {
            device.replace::<slot::PJRT_Event_OnReady>(|call| {
                let trampoline: Trampoline = Box::new(|error, callback| {
                    let _held = lock(&LOCK);
                    callback(error);
                });
                intercept(&mut call.args, trampoline);
                call.pass()
            });
            device.before::<slot::PJRT_Event_IsReady>(|_| drop(lock(&LOCK)));
            device.before::<slot::PJRT_Event_Destroy>(|_| drop(lock(&LOCK)));
        },
    ),
    Mutant::new("events.new_event_is_ready", "PJRT_Event_Create: the new event is not ready", |device| {
        device.after::<slot::PJRT_Event_Create>(|args| set(args.event, PJRT_Error_Code(0), ""));
    }),
    Mutant::new("events.set_loses_error", "PJRT_Event_Set: the event fails with error_code", |device| {
        device.before::<slot::PJRT_Event_Set>(|args| args.error_code = PJRT_Error_Code(0));
    }),
    Mutant::new("events.set_loses_message", "PJRT_Event_Set: the event fails with error_message", |device| {
        device.before::<slot::PJRT_Event_Set>(|args| args.error_message_size = 0);
    }),
    Mutant::new("events.set_has_no_effect", "PJRT_Event_Set: makes the event ready", |device| {
        device.skip::<slot::PJRT_Event_Set>();
    }),
    Mutant::new("events.destroy_waits", "PJRT_Event_Destroy: may be called before the event is ready", |device| {
        device.before::<slot::PJRT_Event_Destroy>(|args| wait(args.event));
    }),
    Mutant::new("leaks.events", "PJRT_Event_Destroy: frees the event", |device| {
        device.skip::<slot::PJRT_Event_Destroy>();
    }),
    Mutant::new(
        "transfers.buffer_is_ready_early",
        "PJRT_Buffer_ReadyEvent: ready when the buffer's contents are",
        |device| {
            device.after::<slot::PJRT_Buffer_ReadyEvent>(|args| args.event = ready_event());
        },
    ),
    Mutant::new(
        "events.buffer_is_never_ready",
        "PJRT_Buffer_ReadyEvent: ready when the buffer's contents are",
        |device| {
            device.after::<slot::PJRT_Buffer_ReadyEvent>(|args| args.event = settable_event());
        },
    ),
    Mutant::new("events.buffer_has_no_event", "PJRT_Buffer_ReadyEvent: returns an event", |device| {
        device.after::<slot::PJRT_Buffer_ReadyEvent>(|args| args.event = std::ptr::null_mut());
    }),
];
