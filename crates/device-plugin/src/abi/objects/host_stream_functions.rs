//! The functions of `PJRT_CopyToDeviceStream`.

use std::sync::Arc;

use plugin_macros::entry;

use crate::abi::lend::host_channel::Stream;
use crate::abi::table::event_handle::into_raw;
use crate::abi::table::handles::handles;
use crate::{DevicePlugin, Error, Result};

handles! {
    PJRT_CopyToDeviceStream => Stream;
}

#[entry(destroys)]
unsafe fn PJRT_CopyToDeviceStream_Destroy<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_CopyToDeviceStream_Destroy_Args,
) -> Result<()> {
    if !args.stream.is_null() {
        let stream: *const Stream = args.stream.cast_const().cast();
        // SAFETY: V2 (handles): the pointer came from `Arc::into_raw` in `HostChannels::recv`, and the framework no
        // longer uses it.
        let stream = unsafe { Arc::from_raw(stream) };
        stream.end();
    }
    Ok(())
}

#[entry]
unsafe fn PJRT_CopyToDeviceStream_AddChunk<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_CopyToDeviceStream_AddChunk_Args,
    stream: &Stream,
) -> Result<()> {
    if args.chunk.is_null() || !args.chunk.is_aligned() {
        return Err(Error::argument("chunk is null or not aligned"));
    }
    // SAFETY: V3 (arrays and text): the plugin owns the chunk from here on.
    let chunk = unsafe { args.chunk.read() };
    // SAFETY: V3 (arrays and text) and V4 (callbacks).
    let event = unsafe { stream.receive(chunk) }?;
    args.transfer_complete = into_raw(event);
    Ok(())
}

#[entry]
unsafe fn PJRT_CopyToDeviceStream_TotalBytes<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_CopyToDeviceStream_TotalBytes_Args,
    stream: &Stream,
) -> Result<()> {
    args.total_bytes = i64::try_from(stream.total).unwrap_or(i64::MAX);
    Ok(())
}

#[entry]
unsafe fn PJRT_CopyToDeviceStream_GranuleSize<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_CopyToDeviceStream_GranuleSize_Args,
    stream: &Stream,
) -> Result<()> {
    args.granule_size_in_bytes = i64::try_from(stream.granule).unwrap_or(i64::MAX);
    Ok(())
}

#[entry]
unsafe fn PJRT_CopyToDeviceStream_CurrentBytes<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_CopyToDeviceStream_CurrentBytes_Args,
    stream: &Stream,
) -> Result<()> {
    args.current_bytes = i64::try_from(stream.received()).unwrap_or(i64::MAX);
    Ok(())
}
