//! The functions `PJRT_Plugin_Initialize` and `PJRT_Plugin_Attributes`.

use plugin_macros::entry;

use crate::abi::objects::owned_arrays::NamedValues;
use crate::per_type::PerType;
use crate::{DevicePlugin, NamedValue, Result};

/// The attributes of each plugin type. They exist until the process ends, because no object of the C API owns them.
static ATTRIBUTES: PerType<NamedValues> = PerType::new();

/// The value of the attribute `xla_version` that XLA's own plugins report.
const XLA_VERSION: i64 = 2;

fn attributes<P: DevicePlugin>() -> &'static NamedValues {
    ATTRIBUTES.get_or_make::<P>(|| {
        let mut values = P::attributes();
        let mut default = |value: NamedValue| {
            if values.iter().all(|known| known.name != value.name) {
                values.push(value);
            }
        };
        default(NamedValue::new("xla_version", XLA_VERSION));
        if let Some(versions) = P::stablehlo_versions() {
            default(NamedValue::new("stablehlo_current_version", versions.current.map(i64::from)));
            default(NamedValue::new("stablehlo_minimum_version", versions.minimum.map(i64::from)));
        }
        NamedValues::new(values)
    })
}

#[entry]
unsafe fn PJRT_Plugin_Initialize<P: DevicePlugin>(_args: &mut pjrt_sys::PJRT_Plugin_Initialize_Args) -> Result<()> {
    P::initialize()
}

#[entry]
unsafe fn PJRT_Plugin_Attributes<P: DevicePlugin>(args: &mut pjrt_sys::PJRT_Plugin_Attributes_Args) -> Result<()> {
    let attributes = attributes::<P>().raw();
    args.attributes = attributes.as_ptr();
    args.num_attributes = attributes.len();
    Ok(())
}
