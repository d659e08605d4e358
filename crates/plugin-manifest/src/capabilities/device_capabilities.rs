//! [`Capabilities`], with one field for each row of the table in `fields.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;

use serde::{Deserialize, Serialize};

use super::fields::for_each_capability;
use super::layout::LayoutPolicy;
use super::lowering::{Autocast, Bf16Policy, DotAlgorithm, Int64Policy, MixedDot, RngBitGenerator};
use super::memory::{DlpackDevice, HostCallbacks, MemoryKinds, MemoryStatsReport};
use super::program::{DynamicShapes, OptimizedProgram, ProgramFormats, Spmd};
use crate::{ElementType, StablehloVersions, Value};

/// Declares [`Capabilities`] from the rows of the table in `fields.rs`.
macro_rules! capabilities {
    ($(
        $(#[$doc:meta])*
        $field:ident: $ty:ty { c: [$($c:ident),*], replaces: $replaces:literal, }
    )*) => {
        /// The capabilities of the devices of a plugin. The default is what frameworks assume about an unknown device.
        ///
        /// Brackets in the description of a field name the frameworks that hard-code this property by device name, and
        /// the values that they use.
        #[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Capabilities {
            $(
                $(#[$doc])*
                #[serde(skip_serializing_if = "is_default")]
                pub $field: $ty,
            )*
        }

        impl Capabilities {
            /// Names of the fields, in the order of the struct.
            pub(super) const FIELDS: &[&str] = &[$(stringify!($field)),*];

            /// Returns the name of each field that differs from its default, and the framework's rule that the field
            /// replaces. The rule is empty if there is none.
            pub(crate) fn changes(&self) -> Vec<(&'static str, &'static str)> {
                let default = Self::default();
                let mut changes = Vec::new();
                $(
                    if self.$field != default.$field {
                        changes.push((stringify!($field), $replaces));
                    }
                )*
                changes
            }
        }
    };
}
for_each_capability!(capabilities);

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Capabilities {
    /// Returns the type in which the device stores arrays that a program declares as `ty`. The fields
    /// [`Self::remapped_dtypes`], [`Self::int64`] and [`Self::bf16`] determine this type.
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

    /// Returns whether frameworks should lower a scatter densely, as [`Self::dense_scatter_factor`] describes. The
    /// scatter has `index_elements` index elements and `input_elements` input elements.
    pub fn scatters_densely(&self, index_elements: u64, input_elements: u64) -> bool {
        let dense = |factor: NonZeroU32| index_elements.saturating_mul(u64::from(factor.get())) >= input_elements;
        self.dense_scatter_factor.is_some_and(dense)
    }

    /// Returns whether frameworks should lower a gather along a dimension of `elements` elements densely, as
    /// [`Self::dense_gather_factor`] describes.
    pub fn gathers_densely(&self, elements: u64) -> bool {
        self.dense_gather_factor.is_some_and(|factor| elements <= u64::from(factor.get()) * 10)
    }
}
