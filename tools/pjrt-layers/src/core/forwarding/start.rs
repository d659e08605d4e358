//! Puts layers in front of a plugin.

use std::marker::PhantomData;

use pjrt_sys::StaticApi;

use super::forward::{Instance, forward};
use super::stack::Stack;
use crate::core::process::exit;
use crate::core::tables::Forwarder;
use crate::function::{ForwardedFunction, PerFunction};
use crate::generated::{for_each_function, object_forwarders};
use crate::layer::Layer;

impl Stack {
    /// Puts layers in front of a plugin. The first layer is next to the framework. Returns the table that the framework
    /// receives. Further calls with the same instance return the same table.
    ///
    /// # Panics
    ///
    /// Panics if there are more than 32 layers.
    pub fn start<I: Instance>(plugin: StaticApi, layers: Vec<Box<dyn Layer>>) -> StaticApi {
        assert!(layers.len() <= 32, "a stack has at most 32 layers");
        let build =
            || Self::build(plugin.as_raw(), layers, for_each_function::<Forwarders<I>>(), object_forwarders::<I>());
        let stack = I::cell().get_or_init(build);
        exit::register(stack.layers());
        // SAFETY: L3 (tables): the table lives as long as the process, and its functions belong to the plugin or
        // forward to the plugin.
        unsafe { StaticApi::new(stack.table()) }
    }
}

/// Creates the forwarders of an instance.
struct Forwarders<I>(PhantomData<I>);

impl<I: Instance> PerFunction for Forwarders<I> {
    type Item = Forwarder;

    fn item<S: ForwardedFunction>() -> Forwarder {
        let function: unsafe extern "C" fn(*mut S::Args) -> S::Return = forward::<I, S>;
        let table_size = size_of::<S::Table>();
        Forwarder { function: function as *mut (), offset: S::OFFSET, extension: S::EXTENSION, table_size }
    }
}
