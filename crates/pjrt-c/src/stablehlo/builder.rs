//! `dp_function_builder` and `dp_module_builder`: build programs.

use std::sync::{Mutex, PoisonError};

use pjrt::stablehlo::builder::{Argument, EndedRegion, FunctionBuilder, ModuleBuilder, NamedOp, Value};
use pjrt::stablehlo::ir::{ElementType, Literal, TensorType, Type};
use pjrt_c_macros::c_function;

use crate::border::bytes::dp_bytes;
use crate::border::error::{dp_code, dp_error};
use crate::border::failure::{Failure, Outcome};
use crate::border::handle::Owned;
use crate::border::memory::{Fill, Name, Plain, Texts};
use crate::buffer::dp_shape;
use crate::stablehlo::module::dp_module;

/// A function that is being built: arguments, constants and ops.
pub struct dp_function_builder {
    inner: Mutex<FunctionBuilder>,
    /// The regions that ended and that no op got yet.
    regions: Vec<EndedRegion>,
    /// The message of the first op that failed, for callers that ignore errors until the end.
    first_failure: Option<String>,
}

/// A value of a function that is being built: an argument, or a result of an op. It can be copied. Zeros are no value.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dp_value {
    /// The function.
    pub function: u64,
    /// The number of the value in the function.
    pub number: u32,
    /// Always 0.
    pub reserved: u32,
}

impl dp_value {
    fn new(value: Value) -> Self {
        let (function, number) = value.into_parts();
        Self { function, number, reserved: 0 }
    }

    fn get(self) -> Value {
        Value::from_parts(self.function, self.number)
    }
}

fn values(given: &[dp_value]) -> Vec<Value> {
    given.iter().map(|value| value.get()).collect()
}

impl dp_function_builder {
    fn builder(&mut self) -> &mut FunctionBuilder {
        self.inner.get_mut().unwrap_or_else(PoisonError::into_inner)
    }

    fn add<T>(&mut self, add: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        let outcome = add(self);
        if let Err(failure) = &outcome {
            self.first_failure.get_or_insert_with(|| failure.message.clone());
        }
        outcome
    }
}

/// Begins a function with this name. `main` is the function that a program runs.
#[c_function]
pub fn dp_function_builder_new(name: Name<'_>) -> Outcome<Owned<dp_function_builder>> {
    Ok(Owned(dp_function_builder {
        inner: Mutex::new(FunctionBuilder::without_places(name)),
        regions: Vec::new(),
        first_failure: None,
    }))
}

/// Adds an argument. `ty` is a type such as `tensor<2x3xf32>`. `attributes` is a dictionary such as
/// `{tf.aliasing_output = 0 : i32}`, and may be NULL.
#[c_function]
pub fn dp_function_builder_argument(
    builder: &mut dp_function_builder,
    ty: Name<'_>,
    attributes: Option<&str>,
) -> Outcome<dp_value> {
    builder.add(|builder| {
        let argument = Argument::parse(ty, attributes.unwrap_or_default())?;
        Ok(dp_value::new(builder.builder().argument(argument)?))
    })
}

/// Adds a constant. `data` holds the elements in row-major order and in the byte order of this machine; elements with
/// fewer than 8 bits have one byte each.
#[c_function]
pub fn dp_function_builder_constant(
    builder: &mut dp_function_builder,
    shape: Plain<dp_shape>,
    data: &[u8],
) -> Outcome<dp_value> {
    builder.add(|builder| {
        let literal = Literal::new(tensor_type(&shape)?, data.to_vec())?;
        Ok(dp_value::new(builder.builder().constant(literal)?))
    })
}

/// Adds a constant whose elements all have the same value, rounded to the element type.
#[c_function]
pub fn dp_function_builder_splat(
    builder: &mut dp_function_builder,
    shape: Plain<dp_shape>,
    value: f64,
) -> Outcome<dp_value> {
    builder.add(|builder| Ok(dp_value::new(builder.builder().full(value, tensor_type(&shape)?)?)))
}

/// Adds a constant like `dp_function_builder_splat`, with the type of another value.
#[c_function]
pub fn dp_function_builder_splat_like(
    builder: &mut dp_function_builder,
    like: Plain<dp_value>,
    value: f64,
) -> Outcome<dp_value> {
    builder.add(|builder| {
        let builder = builder.builder();
        Ok(dp_value::new(builder.full(value, builder.tensor_type(like.0.get())?)?))
    })
}

fn tensor_type(shape: &Plain<dp_shape>) -> Outcome<TensorType> {
    // SAFETY: K3 (arrays are readable).
    let shape = unsafe { shape.0.read() }?;
    let element = ElementType::try_from(shape.element_type);
    let element = element.map_err(|error| Failure::argument(format!("{shape}: {error}")))?;
    Ok(TensorType::new(shape.dimensions, element))
}

/// Adds an op, and fills `results` with its results. `results_size` must be their number.
///
/// `name` is the name of an op such as `stablehlo.concatenate`. `attributes` is a dictionary in MLIR's generic form,
/// such as `{dimension = 0 : i64}`, and may be NULL. `result_types` are needed only for ops whose results do not follow
/// from the operands, such as `stablehlo.reshape`; otherwise `result_types_size` is 0. `regions` is the number of
/// regions that the op has, which were ended last. `location` is a place in the caller's source, such as `train.cc:12`,
/// for messages, and may be NULL.
///
/// A wrong op is an error that names the op, the problem and the location.
#[c_function]
pub fn dp_function_builder_op(
    builder: &mut dp_function_builder,
    name: Name<'_>,
    operands: &[dp_value],
    attributes: Option<&str>,
    result_types: Texts<'_>,
    regions: usize,
    location: Option<&str>,
    results: Fill<dp_value>,
) -> Outcome<()> {
    builder.add(|builder| {
        let ended = builder.regions.len();
        let Some(first) = ended.checked_sub(regions) else {
            let message = format!("{name}: `regions` is {regions}, but only {ended} were ended and not used");
            return Err(Failure::argument(message));
        };
        let types = if result_types.is_empty() { None } else { Some(types(&result_types)?) };
        let regions = builder.regions.split_off(first);
        let op = NamedOp {
            name,
            attributes: attributes.unwrap_or_default(),
            regions,
            results: types,
            location: location.unwrap_or_default(),
        };
        let made = builder.builder().op_by_name(&values(operands), op)?;
        results.each(made.into_iter().map(dp_value::new))
    })
}

fn types(texts: &Texts<'_>) -> Outcome<Vec<Type>> {
    let mut types = Vec::with_capacity(texts.len());
    for index in 0..texts.len() {
        types.push(texts.get(index)?.parse()?);
    }
    Ok(types)
}

/// Begins a region, and fills `arguments` with its arguments, which have the types `types`. Ops are added to the region
/// until `dp_function_builder_end_region` ends it. `arguments_size` must be `types_size`.
#[c_function]
pub fn dp_function_builder_begin_region(
    builder: &mut dp_function_builder,
    types: Texts<'_>,
    arguments: Fill<dp_value>,
) -> Outcome<()> {
    builder.add(|builder| {
        arguments.expect(types.len())?;
        let made = builder.builder().begin_region(self::types(&types)?)?;
        arguments.each(made.into_iter().map(dp_value::new))
    })
}

/// Ends the innermost region, which returns `values`. The next op that has regions gets it.
#[c_function]
pub fn dp_function_builder_end_region(builder: &mut dp_function_builder, values: &[dp_value]) -> Outcome<()> {
    builder.add(|builder| {
        let ended = builder.builder().end_region(&self::values(values))?;
        builder.regions.push(ended);
        Ok(())
    })
}

/// Returns the type of a value as text, such as `tensor<2x3xf32>`.
#[c_function]
pub fn dp_function_builder_type(builder: &mut dp_function_builder, value: Plain<dp_value>) -> Outcome<Owned<dp_bytes>> {
    let ty = builder.builder().ty(value.0.get())?;
    Ok(Owned(dp_bytes::new(ty.to_string())))
}

/// A program that is being built: functions.
pub struct dp_module_builder {
    inner: Mutex<ModuleBuilder>,
}

/// Begins a program with this name.
#[c_function]
pub fn dp_module_builder_new(name: Name<'_>) -> Outcome<Owned<dp_module_builder>> {
    Ok(Owned(dp_module_builder { inner: Mutex::new(ModuleBuilder::new(name)) }))
}

/// Ends a function, which returns `results`, and adds it to the program. Releases `function`, also if the call fails.
#[c_function]
pub fn dp_module_builder_add(
    builder: &mut dp_module_builder,
    function: Owned<dp_function_builder>,
    results: &[dp_value],
) -> Outcome<()> {
    let dp_function_builder { inner, regions, first_failure } = function.0;
    let finish = || {
        if !regions.is_empty() {
            return Err(Failure::argument("a region was ended, but no op got it"));
        }
        let function = inner.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(function.finish(values(results))?)
    };
    let finished = finish().map_err(|mut failure| {
        if let Some(first) = &first_failure {
            failure.message.push_str("; the first op that failed: ");
            failure.message.push_str(first);
        }
        failure
    })?;
    builder.inner.get_mut().unwrap_or_else(PoisonError::into_inner).add(finished)?;
    Ok(())
}

/// Sets for how many partitions and replicas the program is.
#[c_function]
pub fn dp_module_builder_set_devices(builder: &mut dp_module_builder, replicas: u32, partitions: u32) -> Outcome<()> {
    let builder = builder.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
    builder.replicas(replicas).partitions(partitions);
    Ok(())
}

/// Checks the program, and returns it. Releases `builder`, also if the call fails.
#[c_function]
pub fn dp_module_builder_build(builder: Owned<dp_module_builder>) -> Outcome<Owned<dp_module>> {
    let builder = builder.0.inner.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(Owned(dp_module::new(builder.build()?)))
}
