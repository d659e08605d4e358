//! Kernels in OpenCL C: loops over the elements of a result, and reductions.

use std::fmt::Write as _;

use stablehlo::ir::{ElementType, Func, Op, OpKind, TensorType, Type, ValueId};
use stablehlo_passes::c_kernel::{Language, statements};
use stablehlo_passes::index_map::index_map;
use stablehlo_passes::plan::{Fusion, Kernel};

use crate::scalar::{OpenClC, c_type};

/// The source of a kernel, whose name is `KERNEL`, and its ranges.
pub(crate) struct Source {
    pub(crate) text: String,
    pub(crate) global: [usize; 3],
    pub(crate) local: [usize; 3],
}

/// Maximum number of work-items in a work-group.
const GROUP: usize = 256;

pub(crate) fn tensor(func: &Func, value: ValueId) -> Option<&TensorType> {
    match func.ty(value) {
        Type::Tensor(ty) if ty.is_static() => Some(ty),
        _ => None,
    }
}

/// Whether kernels of this module, or steps without kernels, implement an op.
pub(crate) fn supports(op: &Op, func: &Func, doubles: bool) -> bool {
    let is_token = |value: &ValueId| *func.ty(*value) == Type::Token;
    if matches!(op.kind, OpKind::While | OpKind::If | OpKind::Case | OpKind::Return) {
        return true;
    }
    if matches!(op.kind, OpKind::AfterAll | OpKind::CreateToken) {
        return op.operands.iter().chain(&op.results).all(is_token);
    }
    let elements = |values: &[ValueId]| -> Option<Vec<ElementType>> {
        let is_supported = |ty: &_| c_type(*ty).is_some_and(|ty| doubles || ty.name != "double");
        values.iter().map(|&value| Some(tensor(func, value)?.element).filter(is_supported)).collect()
    };
    let (Some(from), Some(to)) = (elements(&op.operands), elements(&op.results)) else { return false };
    match (&op.kind, &to[..]) {
        (OpKind::Constant(_) | OpKind::Iota { .. } | OpKind::Reshape | OpKind::OptimizationBarrier, _) => true,
        (OpKind::Reduce { .. } | OpKind::DotGeneral { .. }, _) => true,
        (OpKind::PartitionId | OpKind::ReplicaId, _) => true,
        (OpKind::AllReduce { .. }, &[to]) => combine(op, to).is_some(),
        _ if index_map(op, &func.values).is_some() => true,
        (kind, &[to]) => OpenClC { reads: 0 }.expression(kind, &from, to, &vec![String::new(); from.len()]).is_some(),
        _ => false,
    }
}

/// How an op takes part in fusion.
pub(crate) fn classify(op: &Op, func: &Func) -> Fusion {
    let scalar = |value: &ValueId| tensor(func, *value).and_then(TensorType::num_elements) == Some(1);
    match &op.kind {
        OpKind::AfterAll | OpKind::CreateToken => Fusion::Nothing,
        OpKind::Reshape | OpKind::OptimizationBarrier => Fusion::View,
        OpKind::Constant(_) | OpKind::Iota { .. } | OpKind::BroadcastInDim { .. } | OpKind::Convert => Fusion::Cheap,
        OpKind::Transpose { .. } | OpKind::Slice { .. } | OpKind::Reverse { .. } => Fusion::Cheap,
        OpKind::Reduce { .. } => Fusion::Root,
        OpKind::DotGeneral { .. } | OpKind::Call { .. } | OpKind::AllReduce { .. } => Fusion::Opaque,
        OpKind::PartitionId | OpKind::ReplicaId => Fusion::Opaque,
        OpKind::Binary(_) | OpKind::Compare { .. } | OpKind::Select if op.results.iter().all(scalar) => Fusion::Cheap,
        _ => Fusion::Fusible,
    }
}

/// Returns the kernel of an elementwise op, a shape op or a reduction.
pub(crate) fn emit(kernel: &Kernel<'_>) -> stablehlo::Result<Source> {
    let is_large = |ty: &Type| matches!(ty, Type::Tensor(ty) if ty.num_elements().is_none_or(|n| n >= 1 << 30));
    let int = if kernel.func.values.iter().any(is_large) { "long" } else { "int" };
    let to = tensor(kernel.func, kernel.writes[0]);
    let elements = to.and_then(TensorType::num_elements).unwrap_or(0);
    // One dimension for the last extent, so that the other coordinates are equal in a work-group.
    let x = to.and_then(|ty| usize::try_from(*ty.shape.last()?).ok()).filter(|extent| *extent >= 16);
    let x = x.unwrap_or(elements);
    let y = elements / x.max(1);
    let local_x = local(x, GROUP);
    let local_y = local(y, GROUP / local_x);
    let mut text = head(kernel.reads.len() + kernel.writes.len(), int, &["x", "y"]);
    let _ = writeln!(text, "  if (x >= {x} || y >= {y}) return;\n  {int} element = y * {x} + x;");
    text += &statements(kernel, &OpenClC { reads: kernel.reads.len() }, int, "element")?;
    text.push_str("}\n");
    let global = [x.next_multiple_of(local_x), y.next_multiple_of(local_y), 1];
    Ok(Source { text, global, local: [local_x, local_y, 1] })
}

/// Returns the kernel that combines an array with that of another device, for an all-reduce of this element type.
pub(crate) fn combine(op: &Op, element: ElementType) -> Option<Source> {
    let (args, [body, end]) = (&op.regions[0].args, &op.regions[0].ops[..]) else { return None };
    let (language, name) = (OpenClC { reads: 1 }, c_type(element)?.name);
    let names =
        body.operands.iter().map(|value| Some(["x", "y"][args.iter().position(|arg| arg == value)?].to_owned()));
    let names = names.collect::<Option<Vec<_>>>().filter(|_| end.operands == body.results)?;
    let value = language.expression(&body.kind, &vec![element; names.len()], element, &names)?;
    let [x, y] = [1, 0].map(|at| language.load(element, at, "i"));
    let store = language.store(element, 0, "i", &value);
    let text = format!("{}  {name} x = {x}, y = {y};\n  {store}\n}}\n", head(2, "long", &["i"]));
    Some(Source { text, global: [1; 3], local: [1; 3] })
}

/// Returns the signature of a kernel with `count` arrays, and the variables of the pointers and the ids.
pub(crate) fn head(count: usize, int: &str, ids: &[&str]) -> String {
    let arguments: Vec<_> = (0..count).map(|at| format!("__global uchar* m{at}, ulong o{at}")).collect();
    let mut text = format!("__kernel void KERNEL({}) {{\n", arguments.join(", "));
    (0..count).for_each(|at| _ = writeln!(text, "  __global uchar* p{at} = m{at} + o{at};"));
    ids.iter().enumerate().for_each(|(at, id)| _ = writeln!(text, "  {int} {id} = get_global_id({at});"));
    text
}

/// Returns the size of work-groups: a divisor of the extent if there is a large one.
fn local(extent: usize, most: usize) -> usize {
    let most = most.min(extent).max(1);
    let divisor = (1..=most).rev().find(|&size| extent.is_multiple_of(size)).unwrap_or(1);
    if divisor * 4 >= most { divisor } else { most }
}
