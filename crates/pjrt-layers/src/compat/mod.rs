//! The layer `compat`: lets a framework and a plugin of different API versions work together.

mod replicas;

use pjrt_sys::{PJRT_API_MINOR, SLOTS, slot};

use crate::core::{Call, State, TablePlan};
use crate::function::{Function, Kind, Layout};
use crate::layer::{Layer, Step};

/// Adapts structs to the sizes in the header of the plugin's version.
///
/// A framework that is older than the plugin passes short structs, some of which XLA's plugins reject. The layer fills
/// them up with zeros, which mean that the new arguments are absent. A newer framework passes long structs, which some
/// plugins reject. The layer shortens them. Functions of the table that the plugin lacks return an error of code
/// `UNIMPLEMENTED`.
///
/// PyTorch/XLA compiles each program for all devices of the client, one replica on each, and then launches replicas one by
/// one. XLA's CPU plugin waits for the other replicas of a launch before it starts the next one, so the second launch would
/// never end. If a program's replicas do not communicate, the layer therefore compiles it for a single device, which each
/// launch selects.
#[derive(Clone, Debug, Default)]
pub struct Compat {
    /// The minor version that the table announces. `None` stands for the plugin's own.
    pub minor: Option<u32>,
    /// The numbers of the extensions that are hidden from the framework.
    pub hidden: Vec<u32>,
    /// Whether programs for several replicas that do not communicate are compiled for a single device. `None` stands for
    /// those in the format `hlo`, which PyTorch/XLA sends, on the platform `cpu`.
    pub single_replica: Option<bool>,
}

/// Size of the table's part before its functions.
const HEAD: usize = std::mem::offset_of!(pjrt_sys::PJRT_Api, PJRT_Error_Destroy);

impl Layer for Compat {
    fn name(&self) -> &'static str {
        "compat"
    }

    fn wants(&self, function: &Function) -> bool {
        let compiles = function.name == State::function::<slot::PJRT_Client_Compile>().name;
        has_grown(&function.layout) || structs(function).next().is_some() || compiles
    }

    fn plan(&self, plan: &mut TablePlan) {
        plan.answers_missing = true;
        plan.hidden.extend(&self.hidden);
        let minor = self.minor.unwrap_or(plan.plugin_minor());
        plan.minor = minor;
        // The table has a slot for every function that this crate knows. A framework that does not check whether the
        // plugin has a function then receives an error.
        let functions = match self.minor {
            Some(minor) => SLOTS.iter().take_while(|(_, since)| *since <= minor).count(),
            None => SLOTS.len(),
        };
        let size = HEAD + functions * size_of::<usize>();
        plan.size = if self.minor.is_some() { size } else { size.max(plan.plugin_size()) };
    }

    fn before(&self, call: &mut Call) -> Step {
        let minor = call.state().plugin_version().1;
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
        Step::Continue(0)
    }
}

/// Whether versions of the API differ in the size of a struct.
fn has_grown(layout: &Layout) -> bool {
    (layout.size_at)(0) != layout.size
}

/// The structs to which a function's arguments point, if versions of the API differ in their size.
fn structs(function: &Function) -> impl Iterator<Item = (&'static crate::Field, &'static Layout)> {
    function.fields.iter().filter_map(|field| match &field.kind {
        Kind::Struct(layout) if has_grown(layout) => Some((field, layout)),
        _ => None,
    })
}

/// The size that a plugin expects, if the caller announces another one. Sizes beyond this crate's header are known only
/// to the framework and the plugin. A struct that is shorter than in every version is left to the plugin, which must
/// reject it: zeros would stand for arguments that no version leaves out.
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
        // A framework of 0.76 on a plugin of 0.106, and the reverse.
        assert_eq!(wanted(&options, 106, 80), Some(120));
        assert_eq!(wanted(&options, 70, 112), Some(80));
        assert_eq!(wanted(&options, 106, 120), None);
        // A plugin that is newer than this crate.
        assert_eq!(wanted(&options, 200, 168), None);
        assert_eq!(wanted(&options, 200, 80), Some(160));
        assert!(!has_grown(&Layout::of::<PJRT_Buffer_Destroy_Args>()));
        // No version has execute options of 8 bytes.
        assert_eq!(wanted(&options, 106, 8), None);
    }
}
