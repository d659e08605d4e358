//! The pass `refine_shapes`.

use std::collections::HashMap;

use stablehlo::ir::{
    Attribute, DYNAMIC, ElementType, Func, Literal, Module, Op, OpKind, Region, TensorType, Type, ValueId, ValueIds,
    Window,
};
use stablehlo::{Error, ErrorKind, Result, VerifyLevel, infer};

use crate::evaluate::is_integer;
use crate::fold_constants::value;

/// Gives the arguments of the entry function these types, and replaces sizes `?` that follow from them throughout the
/// function. Returns `None` if nothing changes.
///
/// ```text
/// func.func @main(%x: tensor<?x3xf32>) -> tensor<?xf32> {        func.func @main(%x: tensor<2x3xf32>) -> tensor<6xf32> {
///   %0 = stablehlo.get_dimension_size %x, dim = 0                  %0 = stablehlo.constant dense<2>
///   %c = stablehlo.constant dense<3> : tensor<i32>                 %c = stablehlo.constant dense<3>
///   %1 = stablehlo.multiply %0, %c : tensor<i32>              =>   %1 = stablehlo.constant dense<6>
///   %2 = stablehlo.reshape %1                                      %2 = stablehlo.constant dense<6> : tensor<1xi32>
///   %3 = stablehlo.dynamic_reshape %x, %2                          %3 = stablehlo.reshape %x
///   return %3 : tensor<?xf32>                                      return %3 : tensor<6xf32>
/// }                                                              }
/// ```
///
/// `arguments` has one type for each argument. A size may stay `?`. Computes integers from sizes, and replaces ops
/// whose operands are sizes (`dynamic_reshape`, `dynamic_broadcast_in_dim`, `dynamic_iota`, `dynamic_pad`,
/// `dynamic_gather`, `dynamic_conv`, `real_dynamic_slice`, `set_dimension_size`) with ops of static shape. Removes
/// `shape_assertion` calls that hold, and the operands of custom calls that `indices_of_shape_operands` lists. A size
/// that depends on other values than sizes stays `?`.
///
/// Call [`stablehlo::inline`] first, and [`eliminate_dead_code`](crate::eliminate_dead_code) afterwards.
///
/// # Errors
///
/// Returns an error if a type does not fit the declared one, if an assertion about sizes does not hold, if sizes
/// contradict each other, if a loop changes the size of a value, or if a call or a composite, or the function that it
/// references, has operands or results of unknown size. The module must be verified.
pub fn refine_shapes(module: &Module, arguments: &[Type]) -> Result<Option<Module>> {
    stablehlo::verify(module, VerifyLevel::STRUCTURE)?;
    let Some(entry) = module.entry() else {
        return Err(Error::new(ErrorKind::Structure, "the module has no entry function; name one function `main`"));
    };
    if arguments.len() != entry.args().len() {
        let message = format_args!(
            "{} types for the {} arguments of function `{}`; pass one for each",
            arguments.len(),
            entry.args().len(),
            entry.name
        );
        return Err(Error::new(ErrorKind::Structure, message));
    }
    let mut func = entry.clone();
    for (at, (&arg, ty)) in entry.args().iter().zip(arguments).enumerate() {
        if !fits(entry.ty(arg), ty) {
            let message = format_args!("argument {at} is {}, and cannot become {ty}", entry.ty(arg));
            return Err(Error::new(ErrorKind::Type, message));
        }
        func.values.set(arg.0 as usize, ty.clone());
    }
    let mut body = std::mem::take(&mut func.body);
    let mut refinement = Refinement { module, func, known: HashMap::new(), changed: false };
    refinement.region(&mut body)?;
    let (mut func, changed) = (refinement.func, refinement.changed);
    let returned = body.ops.last().map_or(&[][..], |end| &end.operands);
    let results = entry.results.iter().zip(returned).map(|(declared, &value)| merged(declared, func.ty(value)));
    func.results = results.collect::<Result<_>>()?;
    func.body = body;
    if !changed && func.values == entry.values && func.results == entry.results {
        return Ok(None);
    }
    let funcs = module.funcs.iter().map(|other| if other.name == func.name { func.clone() } else { other.clone() });
    let refined = module.with_funcs(funcs.collect());
    // Sizes that are known now may contradict each other.
    stablehlo::verify(&refined, VerifyLevel::STRUCTURE)?;
    Ok(Some(refined))
}

/// Returns a type with the sizes that at least one of two types has.
fn merged(declared: &Type, found: &Type) -> Result<Type> {
    let (Type::Tensor(one), Type::Tensor(other)) = (declared, found) else { return Ok(declared.clone()) };
    let fits = |(&one, &other): (&i64, &i64)| one == other || one == DYNAMIC || other == DYNAMIC;
    if one.rank() != other.rank() || !one.shape.iter().zip(&other.shape).all(fits) {
        let message = format_args!("the sizes of {declared} become those of {found}; pass other types of arguments");
        return Err(Error::new(ErrorKind::Shape, message));
    }
    let sizes = one.shape.iter().zip(&other.shape);
    let shape: Vec<i64> = sizes.map(|(&one, &other)| if other == DYNAMIC { one } else { other }).collect();
    Ok(Type::Tensor(TensorType::new(shape, one.element)))
}

/// Returns whether a type is the declared one with known sizes in place of some `?`.
fn fits(declared: &Type, ty: &Type) -> bool {
    match (declared, ty) {
        (Type::Tensor(declared), Type::Tensor(ty)) => {
            let is_same = |(&declared, &size): (&i64, &i64)| declared == size || declared == DYNAMIC;
            declared.element == ty.element
                && declared.rank() == ty.rank()
                && declared.shape.iter().zip(&ty.shape).all(is_same)
        }
        _ => declared == ty,
    }
}

struct Refinement<'m> {
    module: &'m Module,
    /// The function without its body.
    func: Func,
    /// Integers that are known.
    known: HashMap<ValueId, Literal>,
    /// Whether an op has changed.
    changed: bool,
}

fn unsupported(message: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}

impl Refinement<'_> {
    fn region(&mut self, region: &mut Region) -> Result<()> {
        let ops = std::mem::take(&mut region.ops);
        region.ops.reserve(ops.len());
        for mut op in ops {
            if self.op(&mut op).map_err(|error| error.of_op(&op, &self.func, self.module))? {
                region.ops.push(op);
            } else {
                self.changed = true;
            }
        }
        Ok(())
    }

    fn ty(&self, value: ValueId) -> Option<&TensorType> {
        self.func.values.tensor(value)
    }

    fn shape(&self, value: ValueId) -> &[i64] {
        self.ty(value).map_or(&[], |ty| &ty.shape)
    }

    /// Returns the integers of an operand that are known.
    fn integers(&self, op: &Op, operand: usize) -> Option<Vec<i64>> {
        self.known.get(op.operands.get(operand)?)?.integers()
    }

    /// Gives a value the sizes of a shape. Keeps a size of the value where that of the shape is `?`.
    fn set_shape(&mut self, value: ValueId, shape: &[i64]) -> Result<()> {
        if let Some(ty) = self.ty(value) {
            let ty = merged(self.func.ty(value), &Type::Tensor(TensorType::new(shape, ty.element)))?;
            self.func.values.set(value.0 as usize, ty);
        }
        Ok(())
    }

    /// Remembers the integers that a barrier returns, and those that a loop carries without a change.
    fn pass_on(&mut self, op: &Op) {
        let count = match op.kind {
            OpKind::While | OpKind::OptimizationBarrier => op.operands.len().min(op.results.len()),
            _ => return,
        };
        for at in 0..count {
            let Some(literal) = self.known.get(&op.operands[at]).cloned() else { continue };
            let body = op.regions.last();
            let after = body.and_then(|body| Some((body.ops.last()?.operands.get(at)?, body.args.get(at)?)));
            if body.is_none() || after.is_some_and(|(returned, arg)| returned == arg) {
                let args = op.regions.iter().filter_map(|region| region.args.get(at));
                for &value in args.chain([&op.results[at]]) {
                    self.known.insert(value, literal.clone());
                }
            }
        }
    }

    /// Refines an op. Returns `false` if the op is not needed any more.
    fn op(&mut self, op: &mut Op) -> Result<bool> {
        if let OpKind::While = op.kind {
            for (at, &operand) in op.operands.iter().enumerate() {
                for region in &op.regions {
                    if let (Some(&arg), Some(ty)) = (region.args.get(at), self.func.values.shared(operand.0 as usize)) {
                        let ty = ty.clone();
                        self.func.values.set(arg.0 as usize, ty);
                    }
                }
            }
        }
        self.pass_on(op);
        op.regions.iter_mut().try_for_each(|region| self.region(region))?;
        if self.is_held_assertion(op)? {
            return Ok(false);
        }
        let made = self.make_static(op)?;
        self.results(made.as_ref().unwrap_or(op))?;
        if let Some(made) = made {
            *op = made;
            self.changed = true;
        }
        self.fold(op);
        Ok(true)
    }

    fn is_held_assertion(&self, op: &Op) -> Result<bool> {
        let OpKind::CustomCall { call_target_name, .. } = &op.kind else { return Ok(false) };
        match self.integers(op, 0).as_deref() {
            Some([holds]) if call_target_name == "shape_assertion" => match holds {
                0 => Err(Error::new(ErrorKind::Shape, "an assertion about the program's sizes does not hold")),
                _ => Ok(true),
            },
            _ => Ok(false),
        }
    }

    /// Returns the op of static shape that replaces an op whose operands are known sizes.
    fn make_static(&mut self, op: &Op) -> Result<Option<Op>> {
        let known = |at: usize| self.integers(op, at);
        let first = op.operands.first().copied();
        let result = op.results.first().copied();
        let (kind, operands, shape): (OpKind, &[usize], Option<Vec<i64>>) = match (&op.kind, first, result) {
            (OpKind::DynamicReshape, ..) => (OpKind::Reshape, &[0], known(1)),
            (OpKind::DynamicBroadcastInDim { broadcast_dimensions, .. }, ..) => {
                (OpKind::BroadcastInDim { broadcast_dimensions: broadcast_dimensions.clone() }, &[0], known(1))
            }
            (OpKind::DynamicIota { iota_dimension }, ..) => {
                (OpKind::Iota { iota_dimension: *iota_dimension }, &[], known(0))
            }
            (OpKind::DynamicPad, ..) => match (known(2), known(3), known(4)) {
                (Some(edge_padding_low), Some(edge_padding_high), Some(interior_padding)) => {
                    (OpKind::Pad { edge_padding_low, edge_padding_high, interior_padding }, &[0, 1], None)
                }
                _ => return Ok(None),
            },
            (OpKind::DynamicGather { dimensions, indices_are_sorted }, ..) => match known(2) {
                Some(slice_sizes) => {
                    let (dimensions, indices_are_sorted) = (dimensions.clone(), *indices_are_sorted);
                    (OpKind::Gather { dimensions, slice_sizes, indices_are_sorted }, &[0, 1], None)
                }
                None => return Ok(None),
            },
            (OpKind::DynamicConv { dimensions, window, feature_group_count, batch_group_count, precision }, ..) => {
                match known(2) {
                    Some(flat) => {
                        let padding = flat.as_chunks::<2>().0.iter().map(|&[low, high]| (low, high)).collect();
                        let kind = OpKind::Convolution {
                            dimensions: dimensions.clone(),
                            window: Box::new(Window { padding, ..(**window).clone() }),
                            feature_group_count: *feature_group_count,
                            batch_group_count: *batch_group_count,
                            precision: *precision,
                        };
                        (kind, &[0, 1], None)
                    }
                    None => return Ok(None),
                }
            }
            (OpKind::RealDynamicSlice, ..) => match (known(1), known(2), known(3)) {
                (Some(start_indices), Some(limit_indices), Some(strides)) => {
                    (OpKind::Slice { start_indices, limit_indices, strides }, &[0], None)
                }
                _ => return Ok(None),
            },
            // A reshape to the same shape.
            (OpKind::SetDimensionSize { dimension }, Some(x), _) => match known(1).as_deref() {
                Some(&[size]) if self.shape(x).get(*dimension) == Some(&size) => {
                    (OpKind::Reshape, &[0], Some(self.shape(x).to_vec()))
                }
                _ => return Ok(None),
            },
            (OpKind::CustomCall { .. }, ..) => return self.custom_call(op),
            _ => return Ok(None),
        };
        let is_shaped = matches!(kind, OpKind::Reshape | OpKind::BroadcastInDim { .. } | OpKind::Iota { .. });
        if let (true, Some(result)) = (is_shaped, result) {
            let declared = self.shape(result).to_vec();
            let Some(shape) = shape.or_else(|| (!declared.contains(&DYNAMIC)).then_some(declared)) else {
                return Ok(None);
            };
            self.set_shape(result, &shape)?;
        }
        let operands = operands.iter().filter_map(|&at| op.operands.get(at).copied()).collect();
        Ok(Some(Op { kind, operands, ..op.clone() }))
    }

    /// Gives the results of a custom call the shapes that some of its operands contain. Returns the call without these
    /// operands.
    fn custom_call(&mut self, op: &Op) -> Result<Option<Op>> {
        const LIST: &str = "indices_of_shape_operands";
        let list = op.attributes.iter().find(|(name, _)| name == LIST).and_then(|(_, list)| list.as_integers());
        let Some(list) = list.filter(|list| list.len() == op.results.len()) else { return Ok(None) };
        let places: Option<Vec<usize>> = list.iter().map(|&at| usize::try_from(at).ok()).collect();
        let mut places = places.ok_or_else(|| Error::new(ErrorKind::Attribute, format_args!("{LIST} is {list:?}")))?;
        let shapes: Option<Vec<Vec<i64>>> = places.iter().map(|&at| self.integers(op, at)).collect();
        let Some(shapes) = shapes else { return Ok(None) };
        for (&result, shape) in op.results.iter().zip(&shapes) {
            self.set_shape(result, shape)?;
        }
        places.sort_unstable();
        places.dedup();
        let mut call = op.clone();
        without_operands(&mut call, &places)?;
        let mut at = 0..;
        call.operands.retain(|_| at.next().is_none_or(|at| !places.contains(&at)));
        call.attributes.retain(|(name, _)| name != LIST);
        Ok(Some(call))
    }

    /// Sets the sizes of the results that follow from the operands.
    fn results(&mut self, op: &Op) -> Result<()> {
        let types = |this: &Self, values: &[ValueId]| -> Vec<Type> {
            values.iter().map(|&value| this.func.ty(value).clone()).collect()
        };
        let returned = |region: &Region| region.ops.last().map(|end| end.operands.clone()).unwrap_or_default();
        let found: Vec<Type> = match (&op.kind, &op.operands[..], &op.results[..]) {
            (OpKind::Return, ..) => return Ok(()),
            (OpKind::While, operands, _) => {
                let (before, after) = (types(self, operands), op.regions.last().map(returned).unwrap_or_default());
                if let Some((at, ty)) = types(self, &after).iter().enumerate().find(|(at, ty)| before[*at] != **ty) {
                    let message = format_args!("the loop changes value {at} from {} to {ty}", before[at]);
                    return Err(unsupported(message));
                }
                before
            }
            (OpKind::If | OpKind::Case, ..) => {
                let mut branches = op.regions.iter().map(|region| types(self, &returned(region)));
                let first = branches.next().unwrap_or_default();
                branches
                    .fold(first, |one, other| one.iter().zip(&other).map(|(one, other)| common(one, other)).collect())
            }
            (OpKind::Call { callee } | OpKind::Composite { decomposition: callee, .. }, operands, results) => {
                let callee = self.module.func(callee);
                let inner = callee.into_iter().flat_map(|callee| {
                    callee.args().iter().map(|&arg| callee.ty(arg)).chain(&callee.results).filter_map(Type::as_tensor)
                });
                let outer = operands.iter().chain(results).filter_map(|&value| self.ty(value));
                if outer.chain(inner).any(|ty| ty.shape.contains(&DYNAMIC)) {
                    return Err(unsupported("the sizes of the function are not known; inline it first"));
                }
                return Ok(());
            }
            (OpKind::OptimizationBarrier, operands, _) => types(self, operands),
            (OpKind::Convert | OpKind::UniformQuantize | OpKind::UniformDequantize, &[x], &[_]) => {
                vec![self.func.ty(x).clone()]
            }
            (OpKind::Reshape, &[x], &[y]) => {
                let (Some(from), Some(to)) = (self.ty(x), self.ty(y)) else { return Ok(()) };
                let mut known = to.clone();
                known.shape.retain(|&size| size != DYNAMIC);
                if known.rank() + 1 != to.rank() || !from.is_static() {
                    return Ok(());
                }
                let rest = match (from.num_elements(), known.num_elements()) {
                    (_, Some(0)) => return Ok(()),
                    (Some(0), _) => Some(0),
                    (Some(all), Some(known)) if all % known == 0 => i64::try_from(all / known).ok(),
                    _ => None,
                };
                let rest = rest.ok_or_else(|| {
                    let message = format_args!("the number of elements of {from} is not a multiple of that of {known}");
                    Error::new(ErrorKind::Shape, message)
                })?;
                let shape: Vec<i64> = to.shape.iter().map(|&size| if size == DYNAMIC { rest } else { size }).collect();
                return self.set_shape(y, &shape);
            }
            (_, _, results) => {
                let is_unknown = |&value: &ValueId| self.shape(value).contains(&DYNAMIC);
                if !results.iter().any(is_unknown) {
                    return Ok(());
                }
                // Ops whose results do not follow from their operands keep the declared types.
                match infer(self.module, &self.func, op) {
                    Ok(types) => types,
                    Err(_) => return Ok(()),
                }
            }
        };
        for (&result, found) in op.results.iter().zip(&found) {
            if let Some(found) = found.as_tensor() {
                self.set_shape(result, &found.shape)?;
            }
        }
        Ok(())
    }

    /// Computes an integer result of known operands.
    fn fold(&mut self, op: &mut Op) {
        let &[result] = &op.results[..] else { return };
        let Some(ty) = self.ty(result) else { return };
        if !is_integer(ty.element) && ty.element != ElementType::Bool {
            return;
        }
        let Some(literal) = value(op, &self.known, &self.func.values) else { return };
        self.known.insert(result, literal.clone());
        if !matches!(op.kind, OpKind::Constant(_) | OpKind::Iota { .. }) {
            (op.kind, op.operands) = (OpKind::Constant(literal), ValueIds::new());
            self.changed = true;
        }
    }
}

/// Returns the type with the sizes that two types have in common.
fn common(one: &Type, other: &Type) -> Type {
    match (one, other) {
        (Type::Tensor(one), Type::Tensor(other)) => {
            let sizes = one.shape.iter().zip(&other.shape);
            let shape: Vec<i64> = sizes.map(|(&one, &other)| if one == other { one } else { DYNAMIC }).collect();
            Type::Tensor(TensorType::new(shape, one.element))
        }
        _ => one.clone(),
    }
}

/// Adapts the layouts and the aliases of a custom call's operands to a call without some of them.
fn without_operands(op: &mut Op, places: &[usize]) -> Result<()> {
    for (name, attribute) in &mut op.attributes {
        let Attribute::Array(list) = attribute else { continue };
        match name.as_str() {
            "operand_layouts" => {
                let mut at = 0..;
                list.retain(|_| at.next().is_none_or(|at| !places.contains(&at)));
            }
            "output_operand_aliases" => {
                for alias in list {
                    if let Attribute::Other(text) = alias {
                        *text = with_operand_index(text, places)?;
                    }
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the text of an alias without the removed operands, each of which `removed` lists once.
fn with_operand_index(text: &str, removed: &[usize]) -> Result<String> {
    const NAME: &str = "operand_index";
    let parts = text.split_once(NAME).and_then(|(before, rest)| {
        let rest = rest.trim_start().strip_prefix('=')?.trim_start();
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        Some((before, rest[..end].parse::<usize>().ok()?, &rest[end..]))
    });
    let Some((before, index, after)) = parts else {
        return Err(Error::new(ErrorKind::Attribute, format_args!("the alias {text} has no {NAME}")));
    };
    if removed.contains(&index) {
        let message = format_args!("operand {index} contains a shape and is removed, but an alias names it");
        return Err(Error::new(ErrorKind::Attribute, message));
    }
    let less = removed.iter().filter(|&&at| at < index).count();
    Ok(format!("{before}{NAME} = {}{after}", index - less))
}
