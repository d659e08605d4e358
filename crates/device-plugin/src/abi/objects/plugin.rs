//! `PJRT_Plugin_*`.

use crate::abi::objects::owned_arrays::NamedValues;
use crate::abi::table::entry::entries;
use crate::per_type::PerType;
use crate::{DevicePlugin, NamedValue};

/// The attributes, which exist until the process ends. A process rarely contains more than one plugin of this crate.
static ATTRIBUTES: PerType<NamedValues> = PerType::new();

/// The version of the attributes that XLA's own plugins report.
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
            default(NamedValue::new("stablehlo_current_version", versions.current));
            default(NamedValue::new("stablehlo_minimum_version", versions.minimum));
        }
        NamedValues::new(values)
    })
}

entries! {
    PJRT_Plugin_Initialize(_args) {
        P::initialize()
    }

    PJRT_Plugin_Attributes(args) {
        let attributes = attributes::<P>().raw();
        args.attributes = attributes.as_ptr();
        args.num_attributes = attributes.len();
        Ok(())
    }
}
