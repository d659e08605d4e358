//! Cases for events: waiting, callbacks, destruction and errors.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;

use pjrt::{ErrorCode, Function};

use crate::case::Profiles;
use crate::context::Context;
use crate::raw::RawEvent;
use crate::stop::Stop;
use crate::suite::Suite;

/// The functions that create an event of the caller and make it ready.
const SETTABLE: &[Function] = &[Function::PJRT_Event_Create, Function::PJRT_Event_Set];

pub(crate) fn declare(suite: &mut Suite) {
    ready(suite);
    settable(suite);
    failed(suite);
    destruction(suite);
}

/// Starts a run that takes some time, and returns the ready event of its output.
fn of_run(cx: &Context) -> Result<RawEvent, Stop> {
    let executable = cx.compile(&crate::program::main(
        "%x: tensor<256x256xf32>",
        "tensor<256x256xf32>",
        "  %y = stablehlo.dot_general %x, %x, contracting_dims = [1] x [0] : \
         (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  return %y : tensor<256x256xf32>",
    ))?;
    let input = cx.client()?.buffer_from_host(&vec![0.5f32; 256 * 256], &[256, 256])?;
    let outputs = executable.execute(&[&input])?;
    outputs.first().map_or_else(|| Err(Stop::Fail("the run has no output".to_owned())), RawEvent::of_buffer)
}

fn ready(suite: &mut Suite) {
    let clause = "pjrt_c_api.h, PJRT_Event_Await: blocks the calling thread until event is ready, then returns the \
                  error status (with nullptr indicating no error)";
    suite
        .case("events.ready.await_returns", clause, "every framework waits for results in this way")
        .profiles(Profiles::MINIMAL)
        .check(|cx| {
            let event = of_run(cx)?;
            event.wait()??;
            ensure!(event.is_ready()?, "an event is not ready after PJRT_Event_Await returned");
            Ok(())
        });
    suite
        .case("events.ready.await_twice", clause, "several parts of a framework wait for the same event")
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let event = of_run(cx)?;
            event.wait()??;
            event.wait()??;
            Ok(())
        });
    suite
        .case(
            "events.ready.stays_ready",
            "pjrt_c_api.h, PJRT_Event_IsReady: whether the event is ready; an event stays ready",
            "frameworks poll events",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let event = of_run(cx)?;
            while !event.is_ready()? {
                std::thread::yield_now();
            }
            for _ in 0..100 {
                ensure!(event.is_ready()?, "an event that was ready is no longer ready");
            }
            event.wait()??;
            Ok(())
        });
    suite
        .case(
            "events.ready.error_after_ready",
            "pjrt_c_api.h, PJRT_Event_Error: should only be called if PJRT_Event_IsReady returns true; returns null if \
             there is no error",
            "frameworks read the status of an event that they polled",
        )
        .profiles(Profiles::FRAMEWORKS)
        .functions(&[Function::PJRT_Event_Error])
        .check(|cx| {
            let event = of_run(cx)?;
            event.wait()??;
            event.error()??;
            event.error()??;
            Ok(())
        });
    suite
        .case("events.ready.concurrent_waiters", clause, "several threads of a framework wait for the same result")
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let event = of_run(cx)?;
            let results: Vec<_> = std::thread::scope(|scope| {
                let waiters: Vec<_> =
                    (0..8).map(|_| scope.spawn(|| event.wait().map(|result| result.is_ok()))).collect();
                waiters.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
            });
            for result in results {
                let fine = result.map_err(|_| Stop::Fail("a waiter panicked".to_owned()))??;
                ensure!(fine, "a waiter received an error");
            }
            Ok(())
        });
    suite
        .case(
            "events.ready.concurrent_events",
            "pjrt_c_api.h, PJRT_Buffer_ReadyEvent: several threads may ask for events of one buffer at the same time",
            "several threads of a framework wait for the same result, each with an event of its own",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let executable = cx.add_one(1000)?;
            let input = cx.floats(&[1.0; 1000])?;
            for _ in 0..100 {
                let outputs = executable.execute(&[&input])?;
                let ready = || RawEvent::of_buffer(&outputs[0])?.wait().map(|result| result.is_ok());
                let results: Vec<_> = std::thread::scope(|scope| {
                    let waiters: Vec<_> = (0..4).map(|_| scope.spawn(ready)).collect();
                    waiters.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
                });
                for result in results {
                    let fine = result.map_err(|_| Stop::Fail("a waiter panicked".to_owned()))??;
                    ensure!(fine, "a waiter received an error");
                }
            }
            Ok(())
        });
    suite
        .case(
            "events.ready.foreign_thread",
            clause,
            "the thread that waits is often not the thread that started the run",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let event = of_run(cx)?;
            let result = std::thread::spawn(move || event.wait().map(|result| result.is_ok())).join();
            ensure!(result.map_err(|_| Stop::Fail("the waiter panicked".to_owned()))??, "the waiter received an error");
            Ok(())
        });
    suite
        .case("events.ready.of_upload", clause, "JAX waits for the events of uploaded arrays")
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let buffer = cx.floats(&[1.0; 100])?;
            let (first, second) = (RawEvent::of_buffer(&buffer)?, RawEvent::of_buffer(&buffer)?);
            first.wait()??;
            second.wait()??;
            Ok(())
        });
    let clause = "pjrt_c_api.h, PJRT_Event_OnReady: registers callback to be called once event is ready, with the \
                  error (or nullptr) and user_arg";
    suite
        .case(
            "events.callback.called_once",
            clause,
            "frameworks free memory in the callback, so a second call corrupts the heap",
        )
        .profiles(Profiles::MINIMAL)
        .check(|cx| {
            let event = of_run(cx)?;
            let count = Arc::new(AtomicUsize::new(0));
            let (send, receive) = channel();
            let counted = count.clone();
            event.on_ready(move |result| {
                counted.fetch_add(1, SeqCst);
                let _ = send.send(result.is_ok());
            })?;
            ensure_eq!(receive.recv(), Ok(true), "whether the callback reported success");
            event.wait()??;
            ensure_eq!(count.load(SeqCst), 1, "number of calls");
            Ok(())
        });
    suite
        .case(
            "events.callback.registered_late",
            clause,
            "an event may be ready before a framework registers its callback",
        )
        .profiles(Profiles::MINIMAL)
        .check(|cx| {
            let event = of_run(cx)?;
            event.wait()??;
            let (send, receive) = channel();
            event.on_ready(move |result| {
                let _ = send.send(result.is_ok());
            })?;
            ensure_eq!(receive.recv(), Ok(true), "whether the callback reported success");
            Ok(())
        });
    for count in [2usize, 16, 100] {
        suite
            .case(
                format!("events.callback.several[count={count}]"),
                clause,
                "several parts of a framework register callbacks with one event",
            )
            .profiles(Profiles::FRAMEWORKS)
            .check(move |cx| {
                let event = of_run(cx)?;
                let (send, receive) = channel();
                for at in 0..count {
                    let send = send.clone();
                    event.on_ready(move |_| {
                        let _ = send.send(at);
                    })?;
                }
                drop(send);
                let mut called: Vec<usize> = receive.iter().collect();
                called.sort_unstable();
                ensure_eq!(called, (0..count).collect::<Vec<_>>(), "callbacks that were called");
                Ok(())
            });
    }
    suite
        .case(
            "events.callback.reentrant",
            clause,
            "JAX starts further work in a callback, and registers callbacks there",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let event = Arc::new(of_run(cx)?);
            let (send, receive) = channel();
            let inner = event.clone();
            event.on_ready(move |_| {
                let ready = inner.is_ready();
                let again = send.clone();
                let registered = inner.on_ready(move |_| {
                    let _ = again.send(Ok(true));
                });
                if let Err(stop) = ready.and_then(|ready| registered.map(|()| ready)) {
                    let _ = send.send(Err(stop));
                }
            })?;
            ensure!(receive.recv().unwrap_or(Ok(false))?, "the callback that another callback registered did not run");
            Ok(())
        });
    suite
        .case("events.callback.beside_waiter", clause, "a callback and a waiting thread use the same event")
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let event = of_run(cx)?;
            let (send, receive) = channel();
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| event.wait().map(|result| result.is_ok()));
                let registered = event.on_ready(move |_| {
                    let _ = send.send(());
                });
                let fine = waiter.join().map_err(|_| Stop::Fail("the waiter panicked".to_owned()))??;
                registered?;
                ensure!(fine, "the waiter received an error");
                ensure!(receive.recv().is_ok(), "the callback did not run");
                Ok(())
            })
        });
}

fn settable(suite: &mut Suite) {
    let clause = "pjrt_c_api.h: PJRT_Event_Create creates an event that is not ready; PJRT_Event_Set makes it ready";
    let why = "JAX creates events for transfers whose data arrives later";
    suite.case("events.settable.not_ready_at_first", clause, why).profiles(Profiles::JAX).functions(SETTABLE).check(
        |cx| {
            let event = RawEvent::create(cx.plugin())?;
            ensure!(!event.is_ready()?, "a new event is ready");
            event.set(0, "")?;
            ensure!(event.is_ready()?, "an event that was set is not ready");
            event.wait()??;
            Ok(())
        },
    );
    suite.case("events.settable.wakes_waiter", clause, why).profiles(Profiles::JAX).functions(SETTABLE).check(|cx| {
        let event = RawEvent::create(cx.plugin())?;
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| event.wait().map(|result| result.is_ok()));
            let set = event.set(0, "");
            let fine = waiter.join().map_err(|_| Stop::Fail("the waiter panicked".to_owned()))??;
            set?;
            ensure!(fine, "the waiter received an error");
            Ok(())
        })
    });
    suite.case("events.settable.calls_back", clause, why).profiles(Profiles::JAX).functions(SETTABLE).check(|cx| {
        let event = RawEvent::create(cx.plugin())?;
        let (send, receive) = channel();
        event.on_ready(move |result| {
            let _ = send.send(result.is_ok());
        })?;
        ensure!(receive.try_recv().is_err(), "the callback ran before the event was set");
        event.set(0, "")?;
        ensure_eq!(receive.recv(), Ok(true), "whether the callback reported success");
        Ok(())
    });
    suite
        .case("events.settable.callbacks_in_any_order", clause, why)
        .profiles(Profiles::JAX)
        .functions(SETTABLE)
        .check(|cx| {
            let event = RawEvent::create(cx.plugin())?;
            let (send, receive) = channel();
            let late = send.clone();
            event.on_ready(move |_| {
                let _ = send.send(1);
            })?;
            event.set(0, "")?;
            event.on_ready(move |_| {
                let _ = late.send(2);
            })?;
            let mut called: Vec<i32> = receive.iter().collect();
            called.sort_unstable();
            ensure_eq!(called, vec![1, 2], "callbacks that were called");
            Ok(())
        });
    suite.case("events.settable.other_thread", clause, why).profiles(Profiles::JAX).functions(SETTABLE).check(|cx| {
        let event = Arc::new(RawEvent::create(cx.plugin())?);
        let setter = event.clone();
        let set = std::thread::spawn(move || setter.set(0, ""));
        event.wait()??;
        set.join().map_err(|_| Stop::Fail("the setter panicked".to_owned()))??;
        Ok(())
    });
}

fn failed(suite: &mut Suite) {
    let clause = "pjrt_c_api.h, PJRT_Event_Await and PJRT_Event_Error: return the error of the event";
    let why = "if an error is lost, the framework uses a wrong result";
    for code in [
        ErrorCode::CANCELLED,
        ErrorCode::INVALID_ARGUMENT,
        ErrorCode::RESOURCE_EXHAUSTED,
        ErrorCode::INTERNAL,
        ErrorCode::DATA_LOSS,
    ] {
        suite
            .case(
                format!("events.failed.code[code={}]", code.name().unwrap_or("none").to_ascii_lowercase()),
                clause,
                why,
            )
            .profiles(Profiles::JAX)
            .functions(SETTABLE)
            .check(move |cx| {
                let event = RawEvent::create(cx.plugin())?;
                event.set(code.as_raw(), "the reason")?;
                ensure!(event.is_ready()?, "a failed event is not ready");
                let Err(failure) = event.wait()? else { fail!("PJRT_Event_Await lost the error") };
                ensure_eq!(failure.code(), Some(code.as_raw()), "code of PJRT_Event_Await");
                ensure!(failure.message().0.contains("the reason"), "the message is {:?}", failure.message().0);
                let Err(failure) = event.error()? else { fail!("PJRT_Event_Error lost the error") };
                ensure_eq!(failure.code(), Some(code.as_raw()), "code of PJRT_Event_Error");
                Ok(())
            });
    }
    suite
        .case(
            "events.failed.callback",
            "pjrt_c_api.h, PJRT_Event_OnReady: the callback owns the error that it receives",
            why,
        )
        .profiles(Profiles::JAX)
        .functions(SETTABLE)
        .check(|cx| {
            let event = RawEvent::create(cx.plugin())?;
            let (send, receive) = channel();
            for _ in 0..3 {
                let send = send.clone();
                event.on_ready(move |result| {
                    // Each callback owns an error object of its own, and destroys it here.
                    let _ = send.send(result.err().and_then(|failure| failure.code()));
                })?;
            }
            drop(send);
            event.set(ErrorCode::ABORTED.as_raw(), "the reason")?;
            ensure_eq!(
                receive.iter().collect::<Vec<_>>(),
                vec![Some(ErrorCode::ABORTED.as_raw()); 3],
                "codes of the callbacks"
            );
            Ok(())
        });
    suite.case("events.failed.await_twice", clause, why).profiles(Profiles::JAX).functions(SETTABLE).check(|cx| {
        let event = RawEvent::create(cx.plugin())?;
        event.set(ErrorCode::UNAVAILABLE.as_raw(), "the reason")?;
        for _ in 0..3 {
            let Err(failure) = event.wait()? else { fail!("PJRT_Event_Await lost the error") };
            ensure_eq!(failure.code(), Some(ErrorCode::UNAVAILABLE.as_raw()), "code");
        }
        Ok(())
    });
    suite
        .case("events.failed.message_is_exact", clause, "users read the message")
        .profiles(Profiles::JAX)
        .functions(SETTABLE)
        .check(|cx| {
            let event = RawEvent::create(cx.plugin())?;
            let message = "ünïcode, a % sign, and\na second line";
            event.set(ErrorCode::INTERNAL.as_raw(), message)?;
            let Err(failure) = event.wait()? else { fail!("PJRT_Event_Await lost the error") };
            ensure!(failure.message().0.contains(message), "the message is {:?}", failure.message().0);
            Ok(())
        });
}

fn destruction(suite: &mut Suite) {
    let clause = "pjrt_c_api.h, PJRT_Event_Destroy: frees the event; it is safe to call it before the event is ready";
    suite
        .case("events.destroy.before_ready", clause, "frameworks drop events that they do not need")
        .profiles(Profiles::MINIMAL)
        .check(|cx| {
            for _ in 0..20 {
                drop(of_run(cx)?);
            }
            Ok(())
        });
    suite
        .case(
            "events.destroy.pending_callback_runs",
            "XLA, pjrt_c_api_wrapper_impl.cc: a registered callback is called even if the event is destroyed before it \
             is ready",
            "JAX destroys the event directly after PJRT_Event_OnReady, and frees memory in the callback",
        )
        .profiles(Profiles::MINIMAL)
        .check(|cx| {
            let event = of_run(cx)?;
            let (send, receive) = channel();
            event.on_ready(move |result| {
                let _ = send.send(result.is_ok());
            })?;
            drop(event);
            ensure_eq!(receive.recv(), Ok(true), "whether the callback of a destroyed event ran");
            Ok(())
        });
    suite
        .case(
            "events.destroy.within_callback",
            clause,
            "the closure of a C++ callback owns the event, and destroys it in the callback",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let event = Arc::new(of_run(cx)?);
            let (send, receive) = channel();
            let inner = event.clone();
            event.on_ready(move |_| {
                drop(inner);
                let _ = send.send(());
            })?;
            drop(event);
            ensure!(receive.recv().is_ok(), "the callback did not run");
            Ok(())
        });
    suite
        .case("events.destroy.settable_never_set", clause, "a framework may abandon a transfer before it begins")
        .profiles(Profiles::JAX)
        .functions(SETTABLE)
        .check(|cx| {
            drop(RawEvent::create(cx.plugin())?);
            Ok(())
        });
    suite
        .case("events.destroy.other_thread", clause, "garbage collectors destroy objects on their own threads")
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let event = of_run(cx)?;
            std::thread::spawn(move || drop(event)).join().map_err(|_| Stop::Fail("the thread panicked".to_owned()))
        });
    suite
        .case(
            "events.destroy.after_buffer",
            "pjrt_c_api.h, PJRT_Buffer_ReadyEvent: the caller owns the event; it outlives the buffer",
            "the buffer is often freed while its event is pending",
        )
        .profiles(Profiles::FRAMEWORKS)
        .check(|cx| {
            let buffer = cx.floats(&[1.0; 10])?;
            let event = RawEvent::of_buffer(&buffer)?;
            drop(buffer);
            // The header does not specify whether the operation succeeds, but the event must become ready.
            let _ = event.wait()?;
            Ok(())
        });
}
