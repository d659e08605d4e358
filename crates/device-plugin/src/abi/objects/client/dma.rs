//! Maps host memory for direct access by devices.

use plugin_macros::entry;

use crate::abi::objects::client::handle::Client;
use crate::abi::objects::client::mappings::{Change, Phase};
use crate::abi::reclaim::refcount::Counted;
use crate::features::FeatureCalls;
use crate::{DevicePlugin, Error, Result};

#[entry]
unsafe fn PJRT_Client_DmaMap<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Client_DmaMap_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    let (address, size) = (args.data.addr(), args.size);
    if address == 0 || size == 0 || address.checked_add(size).is_none() {
        return Err(Error::argument(format!(
            "cannot map {size} bytes at {address:#x}; the range must not be empty, \
                 null or exceed the address space"
        )));
    }
    let mappings = &client.mappings;
    if !mappings.add(address, size) {
        return Err(Error::failed_precondition(format!(
            "some of the {size} bytes at {address:#x} are mapped already; unmap them first"
        ))
        .unnamed());
    }
    let change = Change { mappings, address, after: Some(Phase::Mapped), before: None };
    client.backend.dma_map(address, size)?;
    change.done();
    Ok(())
}

#[entry]
unsafe fn PJRT_Client_DmaUnmap<P: DevicePlugin>(
    args: &mut pjrt_sys::PJRT_Client_DmaUnmap_Args,
    client: &Counted<Client<P::Backend>>,
) -> Result<()> {
    let (address, mappings) = (args.data.addr(), &client.mappings);
    mappings.begin_unmap(address)?;
    let change = Change { mappings, address, after: None, before: Some(Phase::Mapped) };
    client.backend.dma_unmap(address)?;
    change.done();
    Ok(())
}
