//! The functions of `PJRT_Device` that reset memory statistics, poison executions and create tracking events.

use crate::abi::table::entry::entries;
use crate::abi::table::ffi_read;
use crate::contain::drop_contained;
use crate::features::FeatureCalls;

/// The object behind a `PJRT_AsyncTrackingEvent*`: the value that the backend returned.
type Tracked = Box<dyn Send + Sync>;

entries! {
    PJRT_Device_ClearMemoryStats(args, device) {
        device.client::<P>()?.backend.clear_memory_stats(device.index)
    }

    PJRT_Device_PoisonExecution(args, device) {
        // SAFETY: V3 (arrays and text).
        let error = unsafe { ffi_read::error_with_payload(
            (args.error_code.0, args.error_message, args.error_message_size), args.payload, args.num_payload
        ) }?;
        let client = device.client::<P>()?;
        // The backend has not received launches that wait for their arguments, so the SDK poisons these launches
        // itself.
        let poisoned = client.deferred.poison(device.index, args.launch_id, &error)
            || client.backend.poison_execution(device.index, args.launch_id, error)?;
        args.poisoned = poisoned.into();
        Ok(())
    }

    PJRT_Device_CreateAsyncTrackingEvent(args, device) {
        // SAFETY: V3 (arrays and text).
        let description = unsafe { ffi_read::text(args.description, args.description_size, "description") }?;
        let tracked: Tracked = device.client::<P>()?.backend.track(device.index, description);
        args.event = Box::into_raw(Box::new(tracked)).cast();
        Ok(())
    }

    #[destroys]
    PJRT_AsyncTrackingEvent_Destroy(args) {
        if !args.event.is_null() {
            // SAFETY: V2 (handles): `PJRT_Device_CreateAsyncTrackingEvent` boxed the event, and the framework no longer
            // uses it.
            drop_contained(unsafe { Box::from_raw(args.event.cast::<Tracked>()) });
        }
        Ok(())
    }
}
