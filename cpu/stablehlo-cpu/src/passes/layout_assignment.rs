//! The pass `assign_layouts`: changes the storage order of the entry function's arguments and results.

use stablehlo::ir::{
    Attribute, Attributes, ElementType, Func, Literal, Module, Op, OpKind, TensorType, Type, ValueId,
    inverse_permutation,
};

use crate::engine::CompileSettings;
use crate::error::CompileError;
use crate::order::Order;

type Result<T> = std::result::Result<T, CompileError>;

/// Rewrites a program so that its entry function takes and returns arrays in the given storage orders. Returns `None`
/// if all arrays are row-major.
pub(crate) fn assign_layouts(module: &Module, parameters: &[Order], outputs: &[Order]) -> Result<Option<Module>> {
    if parameters.iter().chain(outputs).all(Option::is_none) {
        return Ok(None);
    }
    let entry = module.entry().map(|entry| entry.name.clone());
    let mut module = module.clone();
    let func = module.funcs.iter_mut().find(|func| Some(&func.name) == entry.as_ref());
    let func = func.ok_or_else(|| CompileError::invalid("the module has no entry function"))?;
    let mut before = Vec::new();
    for (at, order) in parameters.iter().enumerate() {
        let (Some(order), Some(&named)) = (order, func.body.args.get(at)) else { continue };
        // `permutation` contains the position of each of the program's dimensions in storage.
        let permutation = inverse_permutation(order);
        let stored = func.values.push(Type::Tensor(type_of(func, named)?.permuted(order)?));
        before.push(transpose(permutation, stored, named));
        func.body.args[at] = stored;
    }
    let Some(end) = func.body.ops.pop().filter(|op| matches!(op.kind, OpKind::Return)) else {
        return Err(CompileError::invalid("the entry function ends without a return"));
    };
    let mut end = end;
    for (at, order) in outputs.iter().enumerate() {
        let (Some(order), Some(&named)) = (order, end.operands.get(at)) else { continue };
        let ty = type_of(func, named)?.permuted(order)?;
        let stored = func.values.push(Type::Tensor(ty.clone()));
        func.body.ops.push(transpose(order.clone(), named, stored));
        end.operands[at] = stored;
        if let Some(declared) = func.results.get_mut(at) {
            *declared = Type::Tensor(ty);
        }
    }
    func.body.ops.push(end);
    func.body.ops.splice(0..0, before);
    Ok(Some(module))
}

fn type_of(func: &Func, value: ValueId) -> Result<TensorType> {
    let tensor = func.values.get(value.0 as usize).and_then(Type::as_tensor);
    tensor.cloned().ok_or_else(|| CompileError::invalid("a storage order is given for a value that is not an array"))
}

fn transpose(permutation: Vec<usize>, from: ValueId, to: ValueId) -> Op {
    Op::new(OpKind::Transpose { permutation: permutation.into() }, vec![from], vec![to])
}

/// Returns the module attributes that describe the layouts, for clients that do not support the layouts extension.
pub(crate) fn export_attributes(module: &Module, settings: &CompileSettings) -> Attributes {
    let layout = |rank: usize, order: Option<&Order>| {
        let minor_to_major: Vec<usize> = match order {
            Some(Some(order)) => order.iter().rev().copied().collect(),
            _ => (0..rank).rev().collect(),
        };
        let data: Vec<u8> = minor_to_major.iter().flat_map(|&d| (d as u64).to_le_bytes()).collect();
        let ty = TensorType::new([i64::try_from(rank).unwrap_or(i64::MAX)], ElementType::Index);
        Some(Attribute::Tensor(Literal::new(ty, data).ok()?))
    };
    let Some(entry) = module.entry() else { return Vec::new() };
    let rank = |ty: &Type| ty.as_tensor().map_or(0, TensorType::rank);
    let parameters = entry.args().iter().enumerate();
    let parameters = parameters.map(|(at, arg)| layout(rank(entry.ty(*arg)), settings.parameter_orders.get(at)));
    let results = entry.results.iter().enumerate();
    let results = results.map(|(at, ty)| layout(rank(ty), settings.output_orders.get(at)));
    let (parameters, results) = (parameters.collect::<Option<_>>(), results.collect::<Option<_>>());
    let named = |name: &str, all: Option<Vec<Attribute>>| Some((name.to_owned(), Attribute::Array(all?)));
    let parameters = named("mhlo.xla_entry_computation_parameter_layouts", parameters);
    let results = named("mhlo.xla_entry_computation_result_layout", results);
    parameters.into_iter().chain(results).collect()
}

/// Maximum number of ops to follow in the search for a transpose. The limit bounds the time of the search, because each
/// step scans the function.
const MAX_STEPS: usize = 64;

/// Returns the storage order in which result `output` of a function can be stored without a transpose. If the result is
/// a transpose, followed only by unary elementwise ops, this is the storage order of the operand of the transpose.
/// Otherwise, the order is row-major.
pub fn preferred_output_order(func: &Func, output: usize) -> Order {
    let end = func.body.ops.last().filter(|op| matches!(op.kind, OpKind::Return))?;
    let mut value = *end.operands.get(output)?;
    for _ in 0..MAX_STEPS {
        let op = func.body.ops.iter().rev().find(|op| op.results.contains(&value))?;
        match (&op.kind, &op.operands[..]) {
            (OpKind::Transpose { permutation }, _) => {
                let order = inverse_permutation(permutation);
                return (!order.is_sorted()).then_some(order);
            }
            (OpKind::Unary(_) | OpKind::Convert, &[operand]) => value = operand,
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Pool, Tensor, compile_with};

    const TEXT: &str = "func.func @main(%x: tensor<2x3xi32>) -> (tensor<2x3xi32>, tensor<3x2xi32>) {
        %0 = stablehlo.negate %x : tensor<2x3xi32>
        %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x3xi32>) -> tensor<3x2xi32>
        %2 = stablehlo.negate %1 : tensor<3x2xi32>
        return %0, %2 : tensor<2x3xi32>, tensor<3x2xi32>
    }";

    fn run(parameters: Vec<Order>, outputs: Vec<Order>, x: [i32; 6]) -> Vec<Vec<i32>> {
        let module = stablehlo::parse(TEXT, stablehlo::VerifyLevel::FULL).unwrap();
        let mut settings = CompileSettings::default();
        (settings.parameter_orders, settings.output_orders) = (parameters, outputs);
        let pool = Pool::new(usize::MAX);
        let program = compile_with(&module, &settings, &pool).unwrap();
        let ty = program.parameters()[0].ty.clone();
        let bytes: Vec<u8> = x.iter().flat_map(|x| x.to_ne_bytes()).collect();
        let x = Tensor::from_bytes(&pool, ty.dtype, &ty.dims, &bytes).unwrap();
        let ints = |t: &Tensor| t.bytes().chunks(4).map(|b| i32::from_ne_bytes(b.try_into().unwrap())).collect();
        program.run(vec![x]).unwrap().iter().map(ints).collect()
    }

    #[test]
    fn requested_layouts() {
        let rows = [0, 1, 2, 3, 4, 5];
        let columns = [0, 3, 1, 4, 2, 5];
        let (minus_rows, minus_columns) = (rows.map(|x: i32| -x).to_vec(), columns.map(|x: i32| -x).to_vec());
        let order = || Some(vec![1, 0]);
        assert_eq!(run(vec![], vec![], rows), [minus_rows.clone(), columns.to_vec()]);
        assert_eq!(run(vec![order()], vec![], columns), [minus_rows.clone(), columns.to_vec()]);
        assert_eq!(run(vec![None], vec![order(), order()], rows), [minus_columns.clone(), rows.to_vec()]);
        assert_eq!(run(vec![order()], vec![order(), None], columns), [minus_columns, columns.to_vec()]);
    }

    #[test]
    fn layout_attributes_are_replaced() {
        let name = "mhlo.xla_entry_computation_result_layout";
        let text = format!(
            "module attributes {{{name} = [dense<[1, 0]> : tensor<2xindex>]}} {{
               func.func @main(%x: tensor<2x3xi32>) -> tensor<2x3xi32> {{ return %x : tensor<2x3xi32> }}
             }}"
        );
        let settings = CompileSettings { output_orders: vec![Some(vec![1, 0])], ..CompileSettings::default() };
        let program = compile_with(
            &stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap(),
            &settings,
            &Pool::new(usize::MAX),
        )
        .unwrap();
        let readable = String::from_utf8(program.readable_program().unwrap().to_vec()).unwrap();
        assert_eq!(readable.matches(name).count(), 1, "{readable}");
        let read = stablehlo::parse(readable, stablehlo::VerifyLevel::FULL).unwrap();
        let said = read.attributes.iter().find(|(known, _)| known == name).unwrap();
        let Attribute::Array(layouts) = &said.1 else { panic!("{said:?}") };
        assert_eq!(layouts[0].as_integers(), Some(vec![0, 1]));
    }

    #[test]
    fn unit_dimensions_in_any_order() {
        let text = "func.func @main(%x: tensor<3x1x2xi32>) -> tensor<2x1x2xi32> {
            %0 = stablehlo.slice %x [1:3, 0:1, 0:2] : (tensor<3x1x2xi32>) -> tensor<2x1x2xi32>
            return %0 : tensor<2x1x2xi32>
        }";
        let program = crate::compile(&stablehlo::parse(text, stablehlo::VerifyLevel::FULL).unwrap()).unwrap();
        let dtype = program.parameters()[0].ty.dtype;
        let bytes: Vec<u8> = (0..6i32).flat_map(i32::to_ne_bytes).collect();
        let run = |dims: &[usize]| {
            program.run(vec![Tensor::from_bytes(&Pool::global().clone(), dtype, dims, &bytes).unwrap()])
        };
        for dims in [&[3, 1, 2][..], &[1, 3, 2], &[3, 2, 1], &[3, 2], &[1, 3, 1, 2]] {
            assert_eq!(run(dims).unwrap()[0].bytes(), &bytes[8..], "{dims:?}");
        }
        for dims in [&[2, 1, 3][..], &[2, 3], &[6]] {
            assert!(matches!(run(dims), Err(crate::RunError::Input(_))), "{dims:?}");
        }
    }

    #[test]
    fn transpose_changes_no_data() {
        let module = stablehlo::parse(TEXT, stablehlo::VerifyLevel::FULL).unwrap();
        let entry = module.entry().unwrap();
        assert_eq!((preferred_output_order(entry, 0), preferred_output_order(entry, 1)), (None, Some(vec![1, 0])));
        let three = "func.func @main(%x: tensor<2x3x4xi32>) -> tensor<4x2x3xi32> {
            %1 = stablehlo.transpose %x, dims = [2, 0, 1] : (tensor<2x3x4xi32>) -> tensor<4x2x3xi32>
            return %1 : tensor<4x2x3xi32>
        }";
        let module = stablehlo::parse(three, stablehlo::VerifyLevel::FULL).unwrap();
        // The extents 2, 3, 4 are the result's dimensions 1, 2, 0.
        assert_eq!(preferred_output_order(module.entry().unwrap(), 0), Some(vec![1, 2, 0]));
    }
}
