//! Tests frameworks that announce a smaller struct size than they pass, because a constant in their headers was too
//! small.

use pjrt_sys::*;

use crate::framework::{garbage, read_values, toy};

/// JAX 0.5.3 announces 24 bytes for these arguments and ends the process on an error. It also reads the field
/// `num_attributes`, which begins after 24 bytes.
#[test]
fn attributes_for_callers_0_54_to_0_67() {
    let whole = toy().ask::<slot::PJRT_Plugin_Attributes>(|_| {}).unwrap();
    let mut args = garbage::<PJRT_Plugin_Attributes_Args>();
    args.struct_size = 24;
    toy().call::<slot::PJRT_Plugin_Attributes>(&mut args).unwrap();
    assert_eq!(args.struct_size, 24);
    assert_eq!(args.num_attributes, whole.num_attributes);
    let values = unsafe { read_values(args.attributes, args.num_attributes) };
    assert!(values.iter().any(|value| value.name == "stablehlo_current_version"), "{values:?}");
}
