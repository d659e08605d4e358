//! Ops of portable artifacts: their versions, and the attributes of each version.

use super::hash::hash;
use crate::ir::{OpKind, Version};

/// Newest version of any VHLO op. The attributes of an op with a newer version are unknown.
pub(crate) const NEWEST_OP: u32 = 2;

/// Returns the names of the inherent attributes of one version of an op in portable artifacts, in the order of its
/// properties. Returns `None` for ops without attributes and for unknown versions, because the table does not list
/// them.
pub(crate) fn vhlo_attributes(op: &str, version: u32) -> Option<Names> {
    let mut at = hash_row(op.as_bytes(), version as usize);
    loop {
        // A free slot ends the search, because it contains no index of a row.
        let row = ROWS.get(usize::from(SLOTS[at % SLOTS.len()]))?;
        if row.name() == op && row.version() == version {
            return Some(row.attributes());
        }
        at += 1;
    }
}

/// Returns whether any version of an op has an attribute with this name. `op` is the name without dialect and version.
pub(crate) fn is_attribute(op: &str, attribute: &str) -> bool {
    for version in 1..=NEWEST_OP {
        for name in vhlo_attributes(op, version).unwrap_or_default().iter() {
            if name == attribute {
                return true;
            }
        }
    }
    false
}

/// Returns the names of the ops that have attributes. A name can occur more than once.
pub(super) fn artifact_names() -> impl Iterator<Item = &'static str> {
    ROWS.iter().map(|row| row.name())
}

/// Returns whether an attribute that has no field in `kind` is an inherent attribute of the op. Other attributes
/// without a field are discardable.
pub(crate) fn is_own(kind: &OpKind, name: &str) -> bool {
    match kind {
        OpKind::Unary(_) => name == "result_accuracy",
        OpKind::DotGeneral { .. } => name == "algorithm",
        OpKind::Composite { .. } => name == "version",
        OpKind::CustomCall { .. } => matches!(
            name,
            "called_computations" | "operand_layouts" | "output_operand_aliases" | "result_layouts" | "result_tilings"
        ),
        _ => false,
    }
}

/// Returns the StableHLO version that added an op, if the op was added after the first version.
pub(crate) fn since(base: &str) -> Option<Version> {
    SINCE.iter().find(|row| row.0 == base).map(|row| row.1)
}

/// Ops that were added after the first StableHLO version, with the version that added them.
const SINCE: [(&str, Version); 9] = [
    ("tan", Version(1, 4, 0)),
    ("composite", Version(0, 19, 0)),
    ("collective_broadcast", Version(0, 16, 0)),
    ("collective_reduce", Version(1, 19, 0)),
    ("async_start", Version(1, 15, 0)),
    ("async_done", Version(1, 15, 0)),
    ("exp2", Version(1, 23, 0)),
    ("log2", Version(1, 23, 0)),
    ("fma", Version(1, 24, 0)),
];

/// Ops with a second op version (`_v2`), and the StableHLO version that added it. Other ops have only one op version.
const SECOND: [(&str, Version); 25] = [
    ("all_gather", Version(1, 5, 0)),
    ("all_reduce", Version(1, 5, 0)),
    ("all_to_all", Version(1, 5, 0)),
    ("cbrt", Version(1, 10, 0)),
    ("collective_broadcast", Version(1, 20, 0)),
    ("composite", Version(1, 14, 0)),
    ("cosine", Version(1, 10, 0)),
    ("custom_call", Version(1, 18, 0)),
    ("dot_general", Version(1, 6, 0)),
    ("dynamic_conv", Version(0, 20, 0)),
    ("dynamic_gather", Version(1, 1, 0)),
    ("exponential", Version(1, 9, 0)),
    ("exponential_minus_one", Version(1, 10, 0)),
    ("gather", Version(1, 1, 0)),
    ("log", Version(1, 10, 0)),
    ("log_plus_one", Version(1, 10, 0)),
    ("logistic", Version(1, 10, 0)),
    ("recv", Version(1, 12, 0)),
    ("rsqrt", Version(1, 10, 0)),
    ("scatter", Version(1, 1, 0)),
    ("send", Version(1, 12, 0)),
    ("sine", Version(1, 10, 0)),
    ("sqrt", Version(1, 10, 0)),
    ("tan", Version(1, 10, 0)),
    ("tanh", Version(1, 10, 0)),
];

/// Returns the StableHLO version that added the second op version, if there is one.
pub(crate) fn second(base: &str) -> Option<Version> {
    SECOND.iter().find(|row| row.0 == base).map(|row| row.1)
}

/// Attribute names. Each name follows its length in one byte, so that [`Names::iter`] need not search for its end. See
/// [`names!`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names(pub(crate) &'static str);

impl Names {
    pub(crate) fn iter(self) -> impl Iterator<Item = &'static str> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let length = *rest.as_bytes().first()?;
            let (name, after) = rest.get(1..)?.split_at_checked(length.into())?;
            rest = after;
            Some(name)
        })
    }
}

/// Creates [`Names`] from a string literal, in which a space precedes each name.
macro_rules! names {
    ($names:literal) => {{
        const { assert!($names.as_bytes()[0] == b' ', "a space must precede each name") };
        const BYTES: &[u8] = &$crate::ops::with_lengths::<{ $names.len() }>($names, 0);
        const NAMES: $crate::ops::Names = $crate::ops::Names($crate::ops::const_str(BYTES));
        NAMES
    }};
}
pub(crate) use names;

/// Replaces each space in `text` with the number of bytes up to the next space, the end of the line, or the end of the
/// text. Does not change the first `kept` spaces of a line.
pub(crate) const fn with_lengths<const LENGTH: usize>(text: &str, kept: usize) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    let (mut at, mut spaces) = (0, 0);
    while at < LENGTH {
        bytes[at] = text.as_bytes()[at];
        match bytes[at] {
            b' ' if spaces < kept => spaces += 1,
            b' ' => {
                let mut end = at + 1;
                while end < LENGTH && text.as_bytes()[end] != b' ' && text.as_bytes()[end] != b'\n' {
                    end += 1;
                }
                assert!(end - at <= 128, "an attribute name has more than 127 bytes");
                bytes[at] = (end - at - 1).to_le_bytes()[0];
            }
            b'\n' => spaces = 0,
            _ => {}
        }
        at += 1;
    }
    bytes
}

/// Converts bytes to a string at compile time. Panics if they are not UTF-8.
pub(crate) const fn const_str(bytes: &'static [u8]) -> &'static str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => panic!("the bytes are not UTF-8"),
    }
}

/// Returns the names of a Shardy op's attributes, in the order of the op's properties. Returns `None` for an op whose
/// properties are not attribute indices, or that the list does not contain.
pub(crate) fn shardy_attributes(name: &str) -> Option<Names> {
    Some(match name {
        "sdy.mesh" => names!(" mesh sym_name"),
        "sdy.sharding_constraint" | "sdy.reshard" => names!(" sharding"),
        "sdy.manual_computation" => names!(" in_shardings manual_axes out_shardings"),
        "sdy.return" => Names::default(),
        "sdy.all_gather" => names!(" gathering_axes out_sharding"),
        "sdy.all_reduce" => names!(" out_sharding reduction_axes"),
        "sdy.all_slice" => names!(" out_sharding slicing_axes"),
        "sdy.named_computation" => names!(" in_shardings name out_shardings"),
        "sdy.propagation_barrier" => names!(" allowed_direction"),
        "sdy.sharding_group" => names!(" group_id"),
        _ => return None,
    })
}

/// [`TABLE`] with the space before each attribute replaced by the length of the attribute.
const LINES: &str = const_str({
    const BYTES: &[u8] = &with_lengths::<{ TABLE.len() }>(TABLE, 1);
    BYTES
});

/// A line of [`LINES`], which describes one version of an op.
#[derive(Clone, Copy)]
struct Row {
    /// Start of the op's name.
    start: u16,
    /// End of the op's name. A space, the version and the attributes follow.
    name_end: u16,
    /// End of the last attribute.
    end: u16,
}

impl Row {
    fn name(self) -> &'static str {
        &LINES[self.start.into()..self.name_end.into()]
    }

    fn version(self) -> u32 {
        (LINES.as_bytes()[usize::from(self.name_end) + 1] - b'0').into()
    }

    fn attributes(self) -> Names {
        Names(&LINES[usize::from(self.name_end) + 2..self.end.into()])
    }
}

/// The rows of [`LINES`]. A table of string slices would be three times as large, because the dynamic loader must
/// relocate each slice.
static ROWS: [Row; count(b'\n')] = {
    let mut rows = [Row { start: 0, name_end: 0, end: 0 }; _];
    let (mut row, mut at, mut start, mut name_end) = (0, 0, 0, 0);
    let text = TABLE.as_bytes();
    while at < text.len() {
        if text[at] == b' ' && name_end == 0 {
            name_end = at;
            assert!(text[at + 1].is_ascii_digit() && text[at + 2] == b' ');
        } else if text[at] == b'\n' {
            rows[row] = Row { start: short(start), name_end: short(name_end), end: short(at) };
            (row, start, name_end) = (row + 1, at + 1, 0);
        }
        at += 1;
    }
    rows
};

/// Content of a free slot of [`SLOTS`]. Not an index of [`ROWS`].
const FREE: u8 = u8::MAX;

/// Hash table of the indices of [`ROWS`], built at compile time.
static SLOTS: [u8; 256] = {
    let mut slots = [FREE; _];
    assert!(slots.len() >= 2 * ROWS.len(), "the table needs twice as many slots as rows");
    let mut index = 0;
    while index < ROWS.len() {
        let Row { start, name_end, .. } = ROWS[index];
        let (name, rest) = LINES.as_bytes().split_at(start as usize).1.split_at((name_end - start) as usize);
        let mut at = hash_row(name, (rest[1] - b'0') as usize) % slots.len();
        while slots[at] != FREE {
            at = (at + 1) % slots.len();
        }
        slots[at] = index.to_le_bytes()[0];
        index += 1;
    }
    slots
};

/// Returns the hash of a version of an op. The search starts at this number modulo the number of slots.
const fn hash_row(name: &[u8], version: usize) -> usize {
    hash(name) + version
}

/// Returns the number of occurrences of a byte in [`TABLE`].
const fn count(byte: u8) -> usize {
    let (mut at, mut count) = (0, 0);
    while at < TABLE.len() {
        count += (TABLE.as_bytes()[at] == byte) as usize;
        at += 1;
    }
    count
}

#[expect(clippy::cast_possible_truncation, reason = "checked")]
const fn short(number: usize) -> u16 {
    assert!(number <= u16::MAX as usize);
    number as u16
}

macro_rules! artifact_table {
    (
        table { $(
            $(#[$doc:meta])*
            $op:ident $name:literal ($($counts:tt)*)
            $({ $($field:ident : $ty:ty as $codec:ident = $attribute:literal),+ $(,)? })?
            $form:ident $([$($word:literal $of:ident),*])?;
        )* }
        own { $($own:tt)* }
    ) => {
        /// One line for each version of an op: its name, the version and its attributes. The rows of `op_table!` that
        /// have attributes generate the lines of version 1 of their ops. The other lines are listed here.
        const TABLE: &str = concat!(
            $( $( $name, " 1", $(" ", $attribute,)+ "\n", )? )*
            "\
all_gather 2 all_gather_dim channel_id replica_groups use_global_device_ids
all_reduce 2 channel_id replica_groups use_global_device_ids
all_to_all 2 channel_id concat_dimension replica_groups split_count split_dimension
broadcast 1 broadcast_sizes
cbrt 2 result_accuracy
collective_broadcast 1 channel_id replica_groups
collective_broadcast 2 channel_id has_dynamic_root replica_groups
composite 1 composite_attributes decomposition name version
composite 2 composite_attributes decomposition name version
constant 1 value
convolution 1 batch_group_count feature_group_count input_batch_dimension input_feature_dimension input_spatial_dimensions kernel_input_feature_dimension kernel_output_feature_dimension kernel_spatial_dimensions lhs_dilation output_batch_dimension output_feature_dimension output_spatial_dimensions padding precision_config rhs_dilation window_reversal window_strides
cosine 2 result_accuracy
custom_call 1 api_version backend_config call_target_name called_computations has_side_effect operand_layouts output_operand_aliases result_layouts
custom_call 2 api_version backend_config call_target_name called_computations has_side_effect operand_layouts output_operand_aliases result_layouts result_tilings
dot 1 precision_config
dot_general 1 lhs_batching_dimensions lhs_contracting_dimensions precision_config rhs_batching_dimensions rhs_contracting_dimensions
dot_general 2 accumulation_type allow_imprecise_accumulation lhs_batching_dimensions lhs_component_count lhs_contracting_dimensions lhs_precision_type num_primitive_operations precision_config rhs_batching_dimensions rhs_component_count rhs_contracting_dimensions rhs_precision_type
dynamic_conv 1 batch_group_count feature_group_count input_batch_dimension input_feature_dimension input_spatial_dimensions kernel_input_feature_dimension kernel_output_feature_dimension kernel_spatial_dimensions lhs_dilation output_batch_dimension output_feature_dimension output_spatial_dimensions padding precision_config rhs_dilation window_reversal window_strides
dynamic_conv 2 batch_group_count feature_group_count input_batch_dimension input_feature_dimension input_spatial_dimensions kernel_input_feature_dimension kernel_output_feature_dimension kernel_spatial_dimensions lhs_dilation output_batch_dimension output_feature_dimension output_spatial_dimensions precision_config rhs_dilation window_reversal window_strides
dynamic_gather 1 collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims start_index_map
dynamic_gather 2 collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims operand_batching_dims start_index_map start_indices_batching_dims
exp2 1 result_accuracy
exponential 2 result_accuracy
exponential_minus_one 2 result_accuracy
func 1 arg_attrs function_type res_attrs sym_name sym_visibility
gather 1 collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims slice_sizes start_index_map
gather 2 collapsed_slice_dims index_vector_dim indices_are_sorted offset_dims operand_batching_dims slice_sizes start_index_map start_indices_batching_dims
log 2 result_accuracy
log2 1 result_accuracy
log_plus_one 2 result_accuracy
logistic 2 result_accuracy
recv 1 channel_id channel_type is_host_transfer
recv 2 channel_id channel_type is_host_transfer source_target_pairs
reduce_window 1 base_dilations padding window_dilations window_dimensions window_strides
rsqrt 2 result_accuracy
scatter 1 index_vector_dim indices_are_sorted inserted_window_dims scatter_dims_to_operand_dims unique_indices update_window_dims
scatter 2 index_vector_dim indices_are_sorted input_batching_dims inserted_window_dims scatter_dims_to_operand_dims scatter_indices_batching_dims unique_indices update_window_dims
select_and_scatter 1 padding window_dimensions window_strides
send 1 channel_id channel_type is_host_transfer
send 2 channel_id channel_type is_host_transfer source_target_pairs
sine 2 result_accuracy
sort 1 dimension is_stable
sqrt 2 result_accuracy
tan 2 result_accuracy
tanh 2 result_accuracy
"
        );
    };
}

op_table!(artifact_table);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_found() {
        assert_eq!(ROWS.len(), TABLE.lines().count());
        assert!(ROWS.iter().all(|row| (1..=NEWEST_OP).contains(&row.version())));
        for line in TABLE.lines() {
            let mut words = line.split(' ');
            let (name, version) = (words.next().unwrap(), words.next().unwrap().parse().unwrap());
            let names: Vec<_> = vhlo_attributes(name, version).unwrap().iter().collect();
            assert_eq!(names, words.collect::<Vec<_>>(), "{name}");
            assert!(names.is_sorted(), "{name}: the artifact's properties are in the order of their names");
        }
        let names: Vec<_> = vhlo_attributes("compare", 1).unwrap().iter().collect();
        assert_eq!(names, ["compare_type", "comparison_direction"]);
        assert!(vhlo_attributes("add", 1).is_none() && vhlo_attributes("tan", 2).is_some());
        assert!(vhlo_attributes("tan", 1).is_none() && vhlo_attributes("", 1).is_none());
        assert!(is_attribute("all_gather", "channel_id") && !is_attribute("while", "nothing"));
        assert!(!is_attribute("broadcast", "broadcast_dimensions"));
        assert!(is_attribute("broadcast_in_dim", "broadcast_dimensions"));
    }
}
