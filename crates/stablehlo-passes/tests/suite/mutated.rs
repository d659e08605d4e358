//! Passes on programs that were changed at random: no pass panics, and results of valid programs are valid.

use stablehlo::ir::{
    Binary, ComparisonDirection, ComparisonType, Dims, ElementType, Module, Op, OpKind, Type, Unary, ValueId,
};
use stablehlo::{Result, VerifyLevel};
use stablehlo_passes::{
    Layouts, Pattern, Uses, assign_layouts, canonicalize, counted_loop, eliminate_common_subexpressions,
    expand_batch_norm, expand_chlo, expand_complex, expand_composites, expand_gather_scatter, expand_reduce_window,
    fold_constants, recognize_patterns, refine_shapes, widen_narrow_types,
};

use crate::oracle::random::{self, Random};
use crate::oracle::{parsed, programs};

/// Changes an op of a module.
fn mutate(module: &mut Module, random: &mut Random) {
    let funcs = module.funcs.len();
    let func = &mut module.funcs[random.below(funcs)];
    let values = func.values.len();
    let any = |random: &mut Random| ValueId(u32::try_from(random.below(values + 1)).expect("small"));
    if random.below(8) == 0 && values > 0 {
        let (from, to) = (random.below(values), random.below(values));
        let ty = func.values[from].clone();
        func.values.set(to, if random.below(4) == 0 { Type::Token } else { ty });
        return;
    }
    let mut region = &mut func.body;
    loop {
        let count = region.ops.len();
        if count == 0 {
            return;
        }
        let at = random.below(count);
        if !region.ops[at].regions.is_empty() && random.below(3) > 0 {
            let inner = random.below(region.ops[at].regions.len());
            region = &mut region.ops[at].regions[inner];
            continue;
        }
        let other = region.ops[random.below(count)].clone();
        let op: &mut Op = &mut region.ops[at];
        match random.below(9) {
            0 | 1 if !op.operands.is_empty() => {
                let operand = random.below(op.operands.len());
                op.operands[operand] = any(random);
            }
            2 if !op.results.is_empty() => op.results[0] = any(random),
            3 => op.kind = other.kind,
            4 => _ = op.operands.pop(),
            5 => op.operands.push(any(random)),
            6 => _ = region.ops.remove(at),
            7 => {
                let kinds = [
                    OpKind::Select,
                    OpKind::While,
                    OpKind::If,
                    OpKind::Convert,
                    OpKind::Transpose { permutation: Dims::from_slice(&[3, 0]) },
                    OpKind::BroadcastInDim { broadcast_dimensions: Dims::from_slice(&[5]) },
                    OpKind::Slice { start_indices: vec![-1, 7], limit_indices: vec![i64::MAX], strides: vec![0] },
                    OpKind::DynamicSlice { slice_sizes: vec![i64::MAX] },
                    OpKind::Concatenate { dimension: 9 },
                    OpKind::Pad {
                        edge_padding_low: vec![i64::MIN],
                        edge_padding_high: vec![],
                        interior_padding: vec![-1, i64::MAX],
                    },
                    OpKind::Iota { iota_dimension: 7 },
                    OpKind::Reduce { dimensions: Dims::from_slice(&[0, 9]) },
                    OpKind::Unary(Unary::Real),
                    OpKind::Binary(Binary::Complex),
                    OpKind::Compare { direction: ComparisonDirection::Lt, compare_type: ComparisonType::NoType },
                    OpKind::GetTupleElement { index: 3 },
                ];
                op.kind = kinds[random.below(kinds.len())].clone();
            }
            _ => region.ops.swap(at, random.below(count)),
        }
        return;
    }
}

type Pass = fn(&Module) -> Result<Option<Module>>;

const PASSES: [(&str, Pass); 13] = [
    ("eliminate_common_subexpressions", |module| Ok(eliminate_common_subexpressions(module))),
    ("fold_constants", fold_constants),
    ("canonicalize", canonicalize),
    ("expand_composites", |module| expand_composites(module, |_, _| false)),
    ("expand_batch_norm", expand_batch_norm),
    ("expand_chlo", |module| expand_chlo(module, |_| false)),
    ("expand_complex", expand_complex),
    ("expand_gather_scatter", expand_gather_scatter),
    ("expand_reduce_window", expand_reduce_window),
    ("widen_narrow_types", |module| {
        widen_narrow_types(module, |element| match element {
            ElementType::F32 => Some(ElementType::F64),
            ElementType::I32 => Some(ElementType::I64),
            _ => None,
        })
    }),
    ("refine_shapes", |module| {
        let entry =
            module.entry().map_or(Vec::new(), |main| main.args().iter().map(|&arg| main.ty(arg).clone()).collect());
        refine_shapes(module, &entry)
    }),
    ("assign_layouts", |module| {
        // Columns first, for operands and results of two dimensions.
        assign_layouts(module, |op, types| {
            let order = |value: &ValueId| (types.tensor(*value)?.rank() == 2).then(|| vec![1, 0]);
            let order = |values: &[ValueId]| values.iter().map(order).collect();
            let is_one = matches!(op.kind, OpKind::DotGeneral { .. } | OpKind::Reduce { .. });
            is_one.then(|| Layouts { operands: order(&op.operands), results: order(&op.results) })
        })
    }),
    ("recognize_patterns", |module| recognize_patterns(module, Pattern::ALL)),
];

#[test]
fn passes_do_not_panic() {
    let mut bases: Vec<Module> = programs().into_iter().map(|case| case.module).collect();
    bases.extend((0..60).map(|seed| parsed(&random::program(seed))));
    let mut random = Random(11);
    let (mut valid, mut invalid) = (0, 0);
    for round in 0..40 {
        for base in &bases {
            let mut module = base.clone();
            for _ in 0..=random.below(3) {
                mutate(&mut module, &mut random);
            }
            let is_valid = stablehlo::verify(&module, VerifyLevel::FULL).is_ok();
            if is_valid {
                valid += 1;
            } else {
                invalid += 1;
            }
            for (name, pass) in PASSES {
                let done = pass(&module);
                if let (true, Ok(Some(done))) = (is_valid, &done) {
                    let verified = stablehlo::verify(done, VerifyLevel::FULL);
                    verified.unwrap_or_else(|error| panic!("{name}, round {round}: {error}\n{module}\n{done}"));
                }
            }
            for func in &module.funcs {
                let uses = Uses::of(func);
                func.body.all_ops().for_each(|op| _ = counted_loop(op, &uses));
            }
        }
    }
    assert!(valid > 500 && invalid > 2000, "{valid} valid and {invalid} invalid programs");
}
