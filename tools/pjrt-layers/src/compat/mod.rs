//! The layer `compat`: lets a framework and a plugin of different API versions work together.

mod replicas;

use pjrt_sys::{PJRT_API_MINOR, PJRT_Extension_Type, SLOTS, slot};
use pjrt_types::is_framework_option;

use crate::core::{Call, Stack, TablePlan};
use crate::function::{Function, Kind, Layout};
use crate::layer::{Layer, Step};

/// The layer `compat`, which changes the size of each struct to its size in the plugin's version of the API.
///
/// A framework that is older than the plugin passes short structs, and XLA's plugins reject some of these. The layer
/// appends zeros to them. Plugins interpret a zero in a newer field as an absent argument. A newer framework passes
/// long structs, which some plugins reject. The layer shortens them. Functions that the plugin lacks return an error
/// with the code `UNIMPLEMENTED`.
///
/// PyTorch/XLA compiles each program for all devices of the client, one replica on each, and then launches the replicas
/// one by one. XLA's CPU plugin waits for all replicas of a launch before it starts the next launch, so the second
/// launch would never end. If a program's replicas do not communicate, the layer therefore compiles the program for a
/// single device. Each launch then selects its device.
///
/// torch_tpu passes an option that only libtpu has to every client, and most plugins reject unknown options. The layer
/// removes it unless the plugin has libtpu's extension `TpuTopology`.
#[derive(Clone, Debug, Default)]
pub struct Compat {
    /// The minor version that the table announces. `None` keeps the plugin's minor version.
    pub minor: Option<u32>,
    /// The `PJRT_Extension_Type` values of the extensions that are hidden from the framework.
    pub hidden: Vec<u32>,
    /// Whether the layer compiles a program with several replicas for a single device if the replicas do not
    /// communicate. With `None`, the layer changes only programs in the format `hlo` on the platform `cpu`. PyTorch/XLA
    /// sends programs in this format.
    pub single_replica: Option<bool>,
}

/// Size of the table's fields before its function pointers, in bytes.
const HEAD: usize = std::mem::offset_of!(pjrt_sys::PJRT_Api, PJRT_Error_Destroy);

impl Layer for Compat {
    fn name(&self) -> &'static str {
        "compat"
    }

    fn wants(&self, function: &Function) -> bool {
        let changed = [Stack::function::<slot::PJRT_Client_Compile>(), Stack::function::<slot::PJRT_Client_Create>()];
        has_grown(&function.layout)
            || structs(function).next().is_some()
            || changed.iter().any(|changed| changed.name == function.name)
    }

    fn plan(&self, plan: &mut TablePlan) {
        plan.answers_missing = true;
        plan.hidden.extend(&self.hidden);
        let minor = self.minor.unwrap_or(plan.plugin_minor());
        plan.minor = minor;
        // Without a configured version, the table has a slot for every function that this crate knows. A framework that
        // calls a function without checking whether the plugin has it then receives an error.
        let functions = match self.minor {
            Some(minor) => SLOTS.iter().take_while(|(_, since)| *since <= minor).count(),
            None => SLOTS.len(),
        };
        let size = HEAD + functions * size_of::<usize>();
        plan.size = if self.minor.is_some() { size } else { size.max(plan.plugin_size()) };
    }

    fn before(&self, call: &mut Call) -> Step {
        let minor = call.plugin().version().1;
        if let Some(size) = wanted(&call.function().layout, minor, call.announced()) {
            call.resize(size);
        }
        for (field, layout) in structs(call.function()) {
            if let Some(size) = call.announced_of(field).and_then(|announced| wanted(layout, minor, announced)) {
                call.resize_struct(field, layout, size);
            }
        }
        if call.is::<slot::PJRT_Client_Compile>() {
            replicas::compile_for_one(call, self.single_replica);
        }
        if call.is::<slot::PJRT_Client_Create>()
            && !call.plugin().has_extension(PJRT_Extension_Type::PJRT_Extension_Type_TpuTopology)
        {
            call.remove_create_options(|option| is_framework_option(option, |_| false));
        }
        Step::Continue(0)
    }
}

/// Returns whether the size of a struct differs between versions of the API.
fn has_grown(layout: &Layout) -> bool {
    (layout.size_at)(0) != layout.size
}

/// Returns the fields of `function` that point to a struct for which [`has_grown`] is `true`, and the layouts of these
/// structs.
fn structs(function: &Function) -> impl Iterator<Item = (&'static crate::Field, &'static Layout)> {
    function.fields.iter().filter_map(|field| match &field.kind {
        Kind::Struct(layout) if has_grown(layout) => Some((field, layout)),
        _ => None,
    })
}

/// Returns the size that the plugin expects, or `None` if the caller's struct needs no change. If the plugin is newer
/// than this crate, its structs may be longer than this crate knows, so longer structs are not shortened. A struct that
/// is shorter than in every version is not extended, so that the plugin rejects it. Zeros are not valid for arguments
/// that every version has.
fn wanted(layout: &Layout, plugin_minor: u32, announced: usize) -> Option<usize> {
    if (layout.size_behind)(announced) < (layout.size_at)(0) {
        return None;
    }
    let size = (layout.size_at)(plugin_minor);
    let is_newer = u64::from(plugin_minor) > u64::from(PJRT_API_MINOR) && announced > size;
    (announced != size && !is_newer).then_some(size)
}

#[cfg(test)]
mod tests {
    use pjrt_sys::{PJRT_Buffer_Destroy_Args, PJRT_ExecuteOptions};

    use super::*;

    #[test]
    fn sizes_are_those_of_the_plugin() {
        let options = Layout::of::<PJRT_ExecuteOptions>();
        // In the first case, the framework is older than its plugin of version 0.106. In the second case, the framework
        // is newer than its plugin of version 0.70. In the third case, both have the same version.
        assert_eq!(wanted(&options, 106, 80), Some(120));
        assert_eq!(wanted(&options, 70, 112), Some(80));
        assert_eq!(wanted(&options, 106, 120), None);
        // If the plugin is newer than this crate, structs are extended but not shortened.
        assert_eq!(wanted(&options, 200, 168), None);
        assert_eq!(wanted(&options, 200, 80), Some(160));
        assert!(!has_grown(&Layout::of::<PJRT_Buffer_Destroy_Args>()));
        // No version has execute options of 8 bytes, so the plugin must reject them.
        assert_eq!(wanted(&options, 106, 8), None);
    }
}
