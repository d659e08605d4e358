//! Adopting a raw handle needs `unsafe`, because only the caller knows whether the handle refers to a live object.

use pjrt::raw::{adopt_buffer, adopt_client, own_buffer};
use pjrt::{Error, Plugin};

fn adopt(plugin: &Plugin) -> Result<(), Error> {
    let client = adopt_client(plugin, std::ptr::null_mut())?;
    let _borrowed = adopt_buffer(&client, std::ptr::null_mut())?;
    let _owned = own_buffer(&client, std::ptr::null_mut())?;
    Ok(())
}

fn main() {}
