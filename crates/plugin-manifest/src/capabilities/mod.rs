//! The capabilities of a device. They replace rules that frameworks implement by device name.
//!
//! PJRT reports the version of the interface and the extensions of a plugin. It does not report how to lower `gather`,
//! which float autocast uses or whether donation works. Frameworks keep such knowledge in lists of device names, so a
//! device with an unknown name gets the defaults. [`Capabilities`] represents this knowledge as data. It is available
//! without a client, in Rust, in JSON (the `capabilities` of a [`Manifest`](crate::Manifest)) and in C
//! (`dp_capabilities`).
//!
//! ```
//! use plugin_manifest::ElementType;
//! use plugin_manifest::capabilities::{Autocast, Capabilities};
//!
//! let capabilities = Capabilities::builder()
//!     .dense_gather_factor(8192)
//!     .autocast(Autocast::xla([ElementType::Bf16]))
//!     .spmd(true)
//!     .build();
//! assert_eq!(capabilities.validate(), Ok(()));
//! let json = r#"{"dense_gather_factor": 8192, "autocast": {"kind": "xla", "dtypes": ["bf16"], "default_dtype": "bf16"}}"#;
//! assert_eq!(Capabilities::from_json(json)?, capabilities);
//! # Ok::<(), plugin_manifest::Faults>(())
//! ```

mod builder;
mod c_enums;
mod fields;
mod layout;
pub mod legacy;
mod lowering;
mod memory;
mod patch;
mod program;
mod table;
mod validate;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

pub use builder::CapabilitiesBuilder;
pub(crate) use fields::for_each_capability;
pub use layout::{LayoutPolicy, MasterAddress, ReplicaOrder, Tiling};
pub use lowering::{
    Autocast, AutocastDispatchKey, AutocastKind, Bf16Policy, DotAlgorithm, EagerFallback, Int64Policy, MixedDot,
    RngBitGenerator,
};
pub use memory::{DlpackDevice, HostCallbacks, MemoryKinds, MemoryStatsReport};
pub use program::{
    DynamicShapes, OptimizedProgram, ProgramFormat, ProgramFormats, Spmd, StablehloRange, StablehloVersion,
};
pub use table::{Row, Table};

use crate::{ElementType, Value};

/// Declares [`Capabilities`].
macro_rules! capabilities {
    ($(
        $(#[$doc:meta])*
        $field:ident: $ty:ty { builder: $kind:ident $(($item:ty))?, c: [$($c:ident),*], replaces: $replaces:literal, }
    )*) => {
        /// The capabilities of the devices of a plugin. The default is what frameworks assume about an unknown device.
        ///
        /// The brackets after each field name the framework that keeps a rule for it by device name, and the rule.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        #[non_exhaustive]
        pub struct Capabilities {
            $(
                $(#[$doc])*
                #[serde(skip_serializing_if = "is_default")]
                pub $field: $ty,
            )*
        }
    };
}
for_each_capability!(capabilities);

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Capabilities {
    /// Returns a builder that starts from the values that frameworks assume about an unknown device.
    pub fn builder() -> CapabilitiesBuilder {
        CapabilitiesBuilder::default()
    }

    /// Returns a builder that starts from these capabilities.
    pub fn into_builder(self) -> CapabilitiesBuilder {
        CapabilitiesBuilder::from(self)
    }

    /// The type in which the device stores arrays that a program declares as `ty`, by [`Self::remapped_dtypes`],
    /// [`Self::int64`] and [`Self::bf16`].
    pub fn stored_as(&self, ty: ElementType) -> ElementType {
        use ElementType::{Bf16, F32, F64, S32, S64, U32, U64};
        match (ty, self.bf16, self.int64) {
            (F64 | F32, Bf16Policy::Replace, _) => Bf16,
            (F32, Bf16Policy::Downcast, _) => Bf16,
            (F64, Bf16Policy::Downcast, _) => F32,
            (S64, _, Int64Policy::Remapped) => S32,
            (U64, _, Int64Policy::Remapped) => U32,
            _ => self.remapped_dtypes.get(&ty).copied().unwrap_or(ty),
        }
    }

    /// Whether to lower a gather along a dimension of `elements` elements densely.
    pub fn gathers_densely(&self, elements: u64) -> bool {
        self.dense_gather_factor.is_some_and(|factor| elements <= u64::from(factor.get()) * 10)
    }

    /// Whether to lower a scatter of `index_elements` into `input_elements` elements densely.
    pub fn scatters_densely(&self, index_elements: u64, input_elements: u64) -> bool {
        let dense = |factor: NonZeroU32| index_elements.saturating_mul(u64::from(factor.get())) >= input_elements;
        self.dense_scatter_factor.is_some_and(dense)
    }

    /// Whether a program with this number of arguments takes them as one tuple.
    pub fn tuples_args(&self, arguments: usize) -> bool {
        let more = |limit: NonZeroU32| u64::try_from(arguments).is_ok_and(|n| n > u64::from(limit.get()));
        self.tuple_args_threshold.is_some_and(more)
    }

    /// The order in which a collective operation should visit the devices of this kind in a mesh with these bounds.
    /// Returns `None` if the logical order is suitable. Kinds are compared regardless of letter case.
    pub fn replica_order(&self, device_kind: &str, bounds: &[u32]) -> Option<&[u32]> {
        let fits =
            |order: &&ReplicaOrder| order.device_kind.eq_ignore_ascii_case(device_kind) && order.bounds == bounds;
        self.replica_orders.iter().find(fits).map(|order| order.order.as_slice())
    }
}

#[cfg(test)]
pub(crate) mod tests;
