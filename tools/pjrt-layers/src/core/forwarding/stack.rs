//! A stack of layers in front of a plugin.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};

use pjrt_sys::{PJRT_Api, slot};

use crate::core::objects::{ObjectForwarder, ObjectTables};
use crate::core::plugin::Plugin;
use crate::core::tables::Forwarder;
use crate::core::tables::{Copies, Shown, TablePlan};
use crate::function::{ForwardedFunction, Function};
use crate::generated::{FUNCTIONS, SLOTS};
use crate::layer::Layer;

/// A layer that selects a function.
pub(in crate::core) struct Hook {
    /// Index of the layer in the stack.
    pub(in crate::core) index: usize,
    pub(in crate::core) layer: &'static dyn Layer,
}

/// A stack of layers in front of a plugin.
pub struct Stack {
    layers: Vec<&'static dyn Layer>,
    /// For each function in `FUNCTIONS`, the layers that select it, in the order of the stack.
    hooks: Vec<Vec<Hook>>,
    /// Bit mask of the active layers. Bit `i` belongs to the layer with the index `i`.
    active: AtomicU32,
    pub(in crate::core) plugin: Plugin,
    shown: Shown,
    forwarders: [Forwarder; SLOTS],
    /// The tables of the plugin's objects.
    pub(in crate::core) objects: ObjectTables,
}

// SAFETY: L3 (tables): the pointers refer to functions and tables that live as long as the process, and any thread may
// use them.
unsafe impl Send for Stack {}
// SAFETY: L3 (tables): as for `Send`, any thread may use the functions and tables.
unsafe impl Sync for Stack {}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack").field("layers", &self.layers).field("plugin", &self.plugin).finish_non_exhaustive()
    }
}

impl Stack {
    /// Puts layers in front of a plugin. The first layer is next to the framework.
    pub(in crate::core) fn build(
        plugin: *const PJRT_Api,
        layers: Vec<Box<dyn Layer>>,
        forwarders: [Forwarder; SLOTS],
        objects: Vec<ObjectForwarder>,
    ) -> Self {
        let layers: Vec<&'static dyn Layer> = layers.into_iter().map(|layer| &*Box::leak(layer)).collect();
        // SAFETY: L1 (plugin): `StaticApi` promises the contract of the table.
        let copies = unsafe { Copies::of(plugin, &forwarders) };
        let mut plan = TablePlan::new(&copies);
        for layer in &layers {
            layer.plan(&mut plan);
        }
        let wanting = |function: &Function| {
            let all = layers.iter().enumerate().filter(|(_, layer)| layer.wants(function));
            all.map(|(index, layer)| Hook { index, layer: *layer }).collect()
        };
        let hooks: Vec<Vec<Hook>> = FUNCTIONS.iter().map(wanting).collect();
        let objects = ObjectTables::new(objects, |id| !hooks[id].is_empty());
        let wanted = |id: usize| !hooks[id].is_empty() || objects.needs(id);
        // SAFETY: L1 (plugin): the table stays readable as long as the process runs.
        let shown = unsafe { Shown::new(plugin, &copies, &plan, &forwarders, &wanted) };
        let active = AtomicU32::new(u32::MAX);
        let stack = Self { layers, hooks, active, plugin: Plugin::new(copies), shown, forwarders, objects };
        stack.install();
        stack
    }

    /// Fills the slots of the tables. A slot contains the forwarder if an active layer selects the function or this
    /// crate itself observes it. The slot of a missing function also contains the forwarder if missing functions return
    /// an error. All other slots contain the plugin's pointer.
    fn install(&self) {
        self.install_objects();
        for (id, forwarder) in self.forwarders.iter().enumerate() {
            let Some(slot) = self.shown.slot(forwarder) else { continue };
            let real = self.plugin.tables.pointer(forwarder);
            let wanted = self.has_active_hook(id) || self.objects.needs(id);
            let answered = real.is_null() && self.shown.answers_missing && forwarder.extension.is_none();
            let forwards = (wanted || is_always_forwarded(id)) && !real.is_null() || answered;
            slot.store(if forwards { forwarder.function } else { real }, Ordering::Release);
        }
    }

    /// Returns whether an active layer selects the function with the index `id`.
    pub(in crate::core) fn has_active_hook(&self, id: usize) -> bool {
        self.hooks[id].iter().any(|hook| self.is_active(hook.index))
    }

    /// Activates the layer with the name `layer`, or deactivates it if `active` is `false`. Does nothing if no layer
    /// has this name. If no active layer selects a function and this crate itself does not observe it, the table
    /// contains the plugin's own pointer again. Frameworks that copied the table keep the forwarder, which then skips
    /// the layer.
    pub fn set_active(&self, layer: &str, active: bool) {
        for (index, found) in self.layers.iter().enumerate() {
            if found.name() == layer {
                if active {
                    self.active.fetch_or(1 << index, Ordering::AcqRel);
                } else {
                    self.active.fetch_and(!(1 << index), Ordering::AcqRel);
                }
            }
        }
        self.install();
    }

    #[inline]
    pub(in crate::core) fn is_active(&self, index: usize) -> bool {
        self.active.load(Ordering::Relaxed) & (1 << index) != 0
    }

    /// Returns the table that the framework receives.
    #[must_use]
    pub fn table(&self) -> *const PJRT_Api {
        self.shown.table()
    }

    /// Returns the layers. The first layer is next to the framework.
    #[must_use]
    pub fn layers(&self) -> &[&'static dyn Layer] {
        &self.layers
    }

    /// Returns the active layers that watch events.
    pub(in crate::core) fn watchers(&self) -> impl Iterator<Item = &'static dyn Layer> {
        let active = self.layers.iter().enumerate().filter(|(index, _)| self.is_active(*index));
        active.map(|(_, layer)| *layer).filter(|layer| layer.watches_events())
    }

    #[inline]
    pub(in crate::core) fn hooks(&self, id: usize) -> &[Hook] {
        &self.hooks[id]
    }

    /// Returns the description of the function `S`.
    #[must_use]
    pub fn function<S: ForwardedFunction>() -> &'static Function {
        &FUNCTIONS[S::ID]
    }
}

/// Returns whether a function is forwarded even if no layer selects it. The forwarders of error functions handle errors
/// that layers created. The forwarders of the functions that create and destroy clients replace the table in the
/// client.
const fn is_always_forwarded(id: usize) -> bool {
    id == slot::PJRT_Error_Destroy::ID
        || id == slot::PJRT_Error_Message::ID
        || id == slot::PJRT_Error_GetCode::ID
        || id == slot::PJRT_Error_ForEachPayload::ID
        || id == slot::PJRT_Client_Create::ID
        || id == slot::PJRT_Client_Destroy::ID
}
