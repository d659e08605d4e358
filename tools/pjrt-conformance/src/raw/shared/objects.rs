//! Errors and events.

use std::sync::mpsc::channel;

use pjrt::Function;

use super::kind::{End, Kind, Operation, drop_all, operation};
use crate::case::Profiles;
use crate::raw::{Failure, RawEvent, failing_compile};
use crate::stop::Stop;

pub(crate) const ERROR: Kind<Failure> = Kind {
    name: "shared.error",
    why: "an error is copied to every thread that waits for an operation",
    profiles: Profiles::FULL,
    compiles: false,
    operations: &[
        operation!([PJRT_Error_Message], |on| Ok(on.extra.message().0)),
        operation!([PJRT_Error_GetCode], |on| Ok(format!("{:?}", on.extra.code()))),
        operation!([PJRT_Error_ForEachPayload], |on| Ok(format!("{:?}", on.extra.payloads()))),
    ],
    make: |_, objects| failing_compile(&objects.client),
    end: End::Never,
    finish: drop_all,
};

pub(crate) const EVENT: Kind<RawEvent> = Kind {
    name: "shared.event",
    why: "several threads of a framework wait for the same result",
    profiles: Profiles::FRAMEWORKS,
    compiles: false,
    operations: &[
        // Whether an event is ready may change during a round.
        operation!([PJRT_Event_IsReady], |on| on.extra.is_ready().map(|_| String::new())),
        operation!([PJRT_Event_IsReady, PJRT_Event_Error], |on| {
            // The error of an event may be read only after the event is ready.
            if on.extra.is_ready()? {
                on.extra.error()??;
            }
            Ok(String::new())
        }),
        operation!([PJRT_Event_Await], |on| on.extra.wait()?.map(|()| String::new()).map_err(Stop::from)),
        operation!([PJRT_Event_OnReady], |on| {
            let (send, receive) = channel();
            on.extra.on_ready(move |result| {
                // Ignore the error. The receiver waits for the first message only.
                let _ = send.send(result.is_ok());
            })?;
            Ok(format!("{:?}", receive.recv()))
        }),
    ],
    make: |_, objects| RawEvent::of_buffer(&objects.buffer),
    end: End::Never,
    finish: drop_all,
};

pub(crate) const SET_EVENT: Kind<RawEvent> = Kind {
    name: "set.event",
    why: "threads wait for an event while another thread makes it ready",
    profiles: Profiles::JAX,
    make: |_, objects| RawEvent::create(&objects.plugin),
    end: End::Completed(Function::PJRT_Event_Set, |on| on.extra.set(0, "")),
    finish: |on| {
        ensure!(on.extra.is_ready()?, "the event is not ready after PJRT_Event_Set");
        drop_all(on)
    },
    ..EVENT
};
