//! [`CapabilitiesBuilder`], a builder with one method for each field of [`Capabilities`].

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use super::{
    Autocast, AutocastDispatchKey, Bf16Policy, Capabilities, DlpackDevice, DotAlgorithm, DynamicShapes, EagerFallback,
    HostCallbacks, Int64Policy, LayoutPolicy, MasterAddress, MemoryKinds, MemoryStatsReport, MixedDot,
    OptimizedProgram, ProgramFormats, ReplicaOrder, RngBitGenerator, Spmd, StablehloRange, for_each_capability,
};
use crate::{ElementType, Value};

/// Builds [`Capabilities`]. The fields of [`Capabilities`] document the meaning of the values.
///
/// [`Self::build`] never fails. [`Capabilities::validate`] checks the values and reports all faults together. The
/// registration of a plugin calls `validate`.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct CapabilitiesBuilder(Capabilities);

impl Capabilities {
    /// Returns a builder that starts from the values that frameworks assume about an unknown device.
    pub fn builder() -> CapabilitiesBuilder {
        CapabilitiesBuilder::default()
    }

    /// Returns a builder that starts from these capabilities.
    pub fn into_builder(self) -> CapabilitiesBuilder {
        CapabilitiesBuilder::from(self)
    }
}

impl From<Capabilities> for CapabilitiesBuilder {
    fn from(capabilities: Capabilities) -> Self {
        Self(capabilities)
    }
}

/// Generates the builder method of one field, or nothing for `by_hand`. The first word selects the type of the method's
/// argument.
macro_rules! setter {
    (value $field:ident: $ty:ty) => {
        impl CapabilitiesBuilder {
            #[doc = concat!("Sets [`Capabilities::", stringify!($field), "`].")]
            pub fn $field(mut self, value: impl Into<$ty>) -> Self {
                self.0.$field = value.into();
                self
            }
        }
    };
    (count $field:ident: $ty:ty) => {
        impl CapabilitiesBuilder {
            #[doc = concat!("Sets [`Capabilities::", stringify!($field), "`]; 0 for `None`.")]
            pub fn $field(mut self, value: u32) -> Self {
                self.0.$field = NonZeroU32::new(value);
                self
            }
        }
    };
    (list($item:ty) $field:ident: $ty:ty) => {
        impl CapabilitiesBuilder {
            #[doc = concat!("Sets [`Capabilities::", stringify!($field), "`].")]
            pub fn $field(mut self, values: impl IntoIterator<Item = $item>) -> Self {
                self.0.$field = BTreeSet::from_iter(values).into();
                self
            }
        }
    };
    (text $field:ident: $ty:ty) => {
        impl CapabilitiesBuilder {
            #[doc = concat!("Sets [`Capabilities::", stringify!($field), "`].")]
            pub fn $field(mut self, value: impl Into<String>) -> Self {
                self.0.$field = Some(value.into());
                self
            }
        }
    };
    (by_hand $field:ident: $ty:ty) => {};
}

/// Generates the builder methods of all fields, except for the fields marked `by_hand`.
macro_rules! setters {
    ($(
        $(#[$doc:meta])*
        $field:ident: $ty:ty { builder: $kind:ident $(($item:ty))?, c: [$($c:ident),*], replaces: $replaces:literal, }
    )*) => {
        $(setter! { $kind $(($item))? $field: $ty })*
    };
}
for_each_capability!(setters);

impl CapabilitiesBuilder {
    /// Adds an entry to [`Capabilities::remapped_dtypes`]: frameworks replace `from` with `to`.
    pub fn remapped_dtype(mut self, from: ElementType, to: ElementType) -> Self {
        self.0.remapped_dtypes.insert(from, to);
        self
    }

    /// Adds an order to [`Capabilities::replica_orders`].
    pub fn replica_order(mut self, order: ReplicaOrder) -> Self {
        self.0.replica_orders.push(order);
        self
    }

    /// Adds a name and its value to [`Capabilities::features`].
    pub fn feature(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.0.features.insert(name.into(), value.into());
        self
    }

    /// Returns the capabilities without checking them.
    pub fn build(self) -> Capabilities {
        self.0
    }
}
