//! Which extensions and functions a plugin has.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use pjrt::extensions::PluginExtension;
use pjrt::{ErrorCode, Function, Plugin};
use pjrt_c_macros::c_function;
use plugin_manifest::c_view::capabilities::dp_string;

use crate::border::error::{dp_code, dp_error};
use crate::border::failure::{Failure, Outcome};
use crate::border::memory;
use crate::border::memory::{Name, Struct};
use crate::border::sized::struct_sizes;
use crate::border::text::{NO_TEXT, Text, lend_static};
use crate::client::dp_client;

/// An extension of a plugin.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dp_extension {
    /// `sizeof(dp_extension)`, set by the caller.
    pub struct_size: usize,
    /// The number in the header of PJRT, `PJRT_Extension_Type`.
    pub number: u32,
    /// The name, or a string with null `data` if this library does not know the number.
    pub name: dp_string,
    /// Size of the plugin's struct in bytes.
    pub size: usize,
}

struct_sizes!(dp_extension);

/// Returns the number of extensions of the client's plugin.
#[c_function]
pub fn dp_client_extension_count(client: &dp_client) -> usize {
    client.inner.plugin().extensions().len()
}

/// Fills `out` with the extension at `index`, counted from 0. Its name is valid until the process ends.
#[c_function]
pub fn dp_client_extension_at(client: &dp_client, index: usize) -> Outcome<Struct<dp_extension>> {
    let extensions = client.inner.plugin().extensions();
    let found = memory::at(&extensions, index)?;
    Ok(Struct(dp_extension {
        struct_size: size_of::<dp_extension>(),
        number: found.number,
        name: found.name.map_or(NO_TEXT, lend_static),
        size: found.struct_size,
    }))
}

/// Returns whether the client's plugin has a function of PJRT, such as `PJRT_Buffer_Bitcast`, in its table or in an
/// extension. Returns `DP_NOT_FOUND` if PJRT has no such function.
#[c_function]
pub fn dp_client_supports(client: &dp_client, function: Name<'_>) -> Outcome<bool> {
    let found = Function::ALL.iter().find(|known| known.name() == function);
    let found = found.ok_or_else(|| {
        Failure::new(
            ErrorCode::NOT_FOUND,
            format!("PJRT has no function {function:?}; write one such as PJRT_Buffer_Bitcast"),
        )
    })?;
    Ok(client.inner.plugin().supports(*found))
}

/// Returns an extension, or an `UNIMPLEMENTED` failure if the plugin lacks it.
pub(crate) fn extension<E: PluginExtension>(plugin: &Plugin, name: &str) -> Outcome<E> {
    plugin.extension::<E>().ok_or_else(|| {
        Failure::new(
            ErrorCode::UNIMPLEMENTED,
            format!("the plugin lacks the extension {name}; dp_client_extension_at lists those it has"),
        )
    })
}

/// Lends a name of the plugin, as a copy that is made once. For names of which a plugin has few.
pub(crate) fn lend_name(name: &str) -> dp_string {
    static NAMES: Mutex<BTreeMap<String, Text>> = Mutex::new(BTreeMap::new());
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.entry(name.to_owned()).or_insert_with(|| Text::new(name)).lend()
}
