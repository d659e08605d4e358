//! Conversion of StableHLO programs to HLO, for profiles.

use plugin_manifest::program_reader::read;
use stablehlo::VerifyLevel;
use stablehlo::ir::{Attributes, OpKind, Region, is_sharding};

use crate::Program;

/// Returns the program as a serialized `HloModuleProto`, without shardings, because the HLO writer of this SDK does not
/// support them. Returns `None` for formats that the SDK does not read.
pub(crate) fn to_hlo(program: &Program) -> Option<stablehlo::Result<Vec<u8>>> {
    let module = read(program, VerifyLevel::STRUCTURE)?;
    Some(module.and_then(|mut module| {
        for func in &mut module.funcs {
            func.arg_attributes.iter_mut().chain(&mut func.result_attributes).for_each(remove_sharding);
            remove_shardings(&mut func.body);
        }
        stablehlo::write_hlo(&module)
    }))
}

fn remove_sharding(attributes: &mut Attributes) {
    attributes.retain(|(name, _)| !is_sharding(name));
}

fn remove_shardings(region: &mut Region) {
    for op in &mut region.ops {
        remove_sharding(&mut op.attributes);
        if matches!(&op.kind, OpKind::Other { name, .. } if name == "sdy.sharding_constraint") {
            // Without its sharding, the constraint returns its operand, as an optimization barrier does.
            op.kind = OpKind::OptimizationBarrier;
        }
        op.regions.iter_mut().for_each(remove_shardings);
    }
}
