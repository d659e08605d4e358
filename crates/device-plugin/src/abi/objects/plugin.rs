//! `PJRT_Plugin_*`.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::abi::objects::owned_arrays::NamedValues;
use crate::abi::table::entry::entries;
use crate::{DevicePlugin, NamedValue};

/// Attributes live as long as the process; a process rarely holds more than one plugin of this crate.
static ATTRIBUTES: Mutex<Option<HashMap<TypeId, &'static NamedValues>>> = Mutex::new(None);

/// The value XLA's own plugins report for the version of their attributes.
const XLA_VERSION: i64 = 2;

fn attributes<P: DevicePlugin>() -> &'static NamedValues {
    let mut known = ATTRIBUTES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.as_ref().and_then(|known| known.get(&TypeId::of::<P>())) {
        return known;
    }
    drop(known);
    // Vendor code runs without the lock.
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
    let new = NamedValues::new(values);
    known = ATTRIBUTES.lock().unwrap_or_else(PoisonError::into_inner);
    known.get_or_insert_default().entry(TypeId::of::<P>()).or_insert_with(|| Box::leak(Box::new(new)))
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
