//! Converts StableHLO programs to the types of this crate. Requires the feature `stablehlo`.
//!
//! The `stablehlo` crate reads programs and does not depend on PJRT. This module converts the types of that crate to
//! the types of this crate. [`parse`] reads a [`Program`](crate::Program), and [`info`] returns the properties that
//! frameworks query. [`inline`] replaces calls by the called functions. [`shape`] and [`element_type`] convert types,
//! [`call_attributes`] returns the attributes of a custom call, and [`unsupported`] creates the error for an op that
//! the device does not support.
//!
//! ```
//! use device_plugin::stablehlo::VerifyLevel;
//! use device_plugin::{ElementType, Program, Shape, stablehlo};
//!
//! let program = Program::mlir("func.func @main(%x: tensor<2xi1>) -> tensor<2xi1> { return %x : tensor<2xi1> }");
//! let module = stablehlo::parse(&program, VerifyLevel::STRUCTURE)?;
//! let info = stablehlo::info(&module)?;
//! assert_eq!(info.parameters, [Shape::new(ElementType::Pred, [2])]);
//! # Ok::<(), device_plugin::Error>(())
//! ```

mod call;
mod layouts;
mod parse;
#[cfg(feature = "hlo")]
mod to_hlo;
mod types;

pub use ::stablehlo::{VerifyLevel, ir};
pub use call::{call_attributes, config_attributes};
use ir::{Attribute, Attributes, Func, Module, Op, OpKind, Type};
pub use layouts::{LayoutMode, layout_modes};
pub use parse::{VERSIONS, entry, parse};
pub use plugin_manifest::program_reader::{FORMATS, read};
#[cfg(feature = "hlo")]
pub(crate) use to_hlo::to_hlo;
pub use types::{element_type, ir_element_type, shape};

use crate::{Error, ExecutableInfo, Result};

/// Returns the properties of a program in which all arrays are row-major: its name, the shapes and memory kinds of its
/// parameters and outputs, and its donated parameters.
///
/// # Errors
///
/// Returns the errors of [`entry`] and [`shape`], and `UNIMPLEMENTED` if the framework requests a layout other than
/// row-major. Backends that support other layouts use [`signature`] and [`layout_modes`].
pub fn info(module: &Module) -> Result<ExecutableInfo> {
    let info = signature(module)?;
    layouts::expect_row_major(entry(module)?, info.parameters.len(), info.outputs.len())?;
    Ok(info)
}

/// Returns the same properties as [`info`], for a backend that supports layouts other than row-major. The backend
/// copies the layouts from [`layout_modes`] to [`ExecutableInfo::parameter_layouts`] and
/// [`ExecutableInfo::output_layouts`].
///
/// # Errors
///
/// Returns the errors of [`entry`] and [`shape`].
pub fn signature(module: &Module) -> Result<ExecutableInfo> {
    let main = entry(module)?;
    let shapes = |types: &mut dyn Iterator<Item = &Type>| types.map(shape).collect::<Result<Vec<_>>>();
    let parameters = shapes(&mut main.args().iter().map(|value| main.ty(*value)))?;
    let outputs = shapes(&mut main.results.iter())?;
    let name = module.name.as_deref().unwrap_or(&main.name);
    let donated = (0..parameters.len()).filter(|index| is_donated(main, *index));
    let donated: Vec<_> = donated.collect();
    let mut info = ExecutableInfo::new(name, parameters, outputs).donating(donated);
    info.parameter_memory_kinds = memory_kinds(&main.arg_attributes);
    info.output_memory_kinds = memory_kinds(&main.result_attributes);
    Ok(info)
}

/// Returns the memory kind that JAX wrote into the attributes of each argument or result. An empty string means that
/// JAX wrote none, so the array is in the default memory. Returns an empty vector if all arrays are in the default
/// memory.
fn memory_kinds(attributes: &[Attributes]) -> Vec<String> {
    let kind = |all: &Attributes| match all.iter().find(|(name, _)| name == "mhlo.memory_kind") {
        Some((_, Attribute::String(kind))) => String::from_utf8_lossy(kind).into_owned(),
        _ => String::new(),
    };
    let kinds: Vec<String> = attributes.iter().map(kind).collect();
    if kinds.iter().all(String::is_empty) { Vec::new() } else { kinds }
}

/// Whether the caller donates the buffer of an argument. JAX marks a donated argument with `tf.aliasing_output`, which
/// names the output that may reuse its memory, or with `jax.buffer_donor`.
fn is_donated(func: &Func, index: usize) -> bool {
    func.arg_attribute(index, "tf.aliasing_output").is_some()
        || matches!(func.arg_attribute(index, "jax.buffer_donor"), Some(Attribute::Bool(true)))
}

/// Inlines all calls into the entry function, which becomes the only function. Each `call` is replaced by the ops of
/// the called function. Each `composite` is replaced by the ops of its decomposition, unless `keep` contains its name.
///
/// # Errors
///
/// Returns `UNIMPLEMENTED` if calls nest too deeply or expand to too many ops.
pub fn inline(module: &Module, keep: &[&str]) -> Result<Module> {
    ::stablehlo::inline(module, keep).map_err(|error| Error::unimplemented(error.to_string()))
}

/// Creates the error for an op that the device does not support. The error names the op and, if it is known, the source
/// location. It also names the target of a custom call and the name of a composite.
pub fn unsupported(module: &Module, op: &Op) -> Error {
    let mut what = op.kind.name();
    if let OpKind::CustomCall { call_target_name: name, .. } | OpKind::Composite { name, .. } = &op.kind {
        what = what + "(" + name + ")";
    }
    let place = match module.location(op.location) {
        place if place.is_empty() => String::new(),
        place => format!(" ({place})"),
    };
    Error::unimplemented(format!("this device does not support {what}{place}"))
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;
    use crate::{ElementType, ErrorCode, Program, Shape};

    fn program(text: &'static str) -> Program {
        Program::mlir(text)
    }

    #[test]
    fn maps_every_element_type() {
        let mut pairs = 0;
        for ty in ir::ElementType::all() {
            let Ok(pjrt) = element_type(ty) else {
                assert!(matches!(ty, ir::ElementType::Tf32 | ir::ElementType::Index), "{ty:?}");
                continue;
            };
            assert_eq!(ir_element_type(pjrt), Ok(ty));
            assert_eq!(pjrt.host_size(), ty.byte_size(), "{ty:?}");
            pairs += 1;
        }
        let lacking = ElementType::ALL.iter().filter(|ty| ir_element_type(**ty).is_err());
        assert_eq!(lacking.collect::<Vec<_>>(), [&ElementType::Token, &ElementType::S1, &ElementType::U1]);
        assert_eq!(pairs + 3, ElementType::ALL.len());
        assert_eq!(element_type(ir::ElementType::Bool), Ok(ElementType::Pred));
    }

    #[test]
    fn reports_program_properties() {
        let text = "module @jit_step {
            func.func public @main(
                %a: tensor<2x3xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<i32>,
                %c: tensor<2xbf16> {jax.buffer_donor = true}
            ) -> (tensor<2x3xf32>, tensor<i32>) {
                return %a, %b : tensor<2x3xf32>, tensor<i32>
            }
        }";
        let info = info(&parse(&program(text), VerifyLevel::FULL).unwrap()).unwrap();
        assert_eq!(info.name, "jit_step");
        let shapes: Vec<_> = info.parameters.iter().chain(&info.outputs).map(Shape::to_string).collect();
        assert_eq!(shapes, ["f32[2,3]", "s32[]", "bf16[2]", "f32[2,3]", "s32[]"]);
        assert_eq!(info.donated, [0, 2]);
        assert!(info.parameter_memory_kinds.is_empty() && info.output_memory_kinds.is_empty());

        let text = "func.func @main(%a: tensor<f32>, %b: tensor<f32> {mhlo.memory_kind = \"pinned_host\"})
            -> (tensor<f32> {mhlo.memory_kind = \"device\"}) { return %a : tensor<f32> }";
        let info = super::info(&parse(&program(text), VerifyLevel::FULL).unwrap()).unwrap();
        assert_eq!(info.parameter_memory_kinds, ["", "pinned_host"]);
        assert_eq!(info.output_memory_kinds, ["device"]);
    }

    #[test]
    fn unreadable_program_reports_reason() {
        let other = Program::new("onnx", "");
        let error = parse(&other, VerifyLevel::FULL).unwrap_err();
        assert_eq!(error.code(), ErrorCode::UNIMPLEMENTED);
        expect![[r#"unknown program format "onnx"; this device reads StableHLO (format "mlir") and HLO (formats "hlo" and "hlo_with_config")"#]]
            .assert_eq(error.message());
        for format in ["hlo", "hlo_with_config"] {
            let none = Program::new(format.to_owned(), "what is this");
            let error = parse(&none, VerifyLevel::FULL).unwrap_err();
            assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT);
        }
        assert_eq!(parse(&program("what is this"), VerifyLevel::FULL).unwrap_err().code(), ErrorCode::INVALID_ARGUMENT);
        let dynamic = "func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> { return %x : tensor<?xf32> }";
        let error = info(&parse(&program(dynamic), VerifyLevel::FULL).unwrap()).unwrap_err();
        expect!["a value of type tensor<?xf32> cannot be stored in a buffer"].assert_eq(error.message());
        let none = parse(&program("func.func @a() { return }\nfunc.func @b() { return }"), VerifyLevel::FULL).unwrap();
        assert_eq!(info(&none).unwrap_err().code(), ErrorCode::INVALID_ARGUMENT);
    }

    #[test]
    fn error_names_unsupported_op_and_location() {
        let text = "func.func @main(%x: tensor<f32>) -> tensor<f32> {
            %0 = stablehlo.tanh %x : tensor<f32> loc(\"jit(f)/tanh\"(\"f.py\":3:8))
            return %0 : tensor<f32>
        }";
        let module = parse(&program(text), VerifyLevel::FULL).unwrap();
        let error = unsupported(&module, &entry(&module).unwrap().body.ops[0]);
        assert_eq!(error.code(), ErrorCode::UNIMPLEMENTED);
        expect!["this device does not support stablehlo.tanh (jit(f)/tanh at f.py:3:8)"].assert_eq(error.message());

        let text = "func.func @main(%x: tensor<f32>) -> tensor<f32> {
            %0 = stablehlo.custom_call @Qr(%x) : (tensor<f32>) -> tensor<f32> loc(\"qr\"(\"f.py\":4:8))
            return %0 : tensor<f32>
        }";
        let module = parse(&program(text), VerifyLevel::FULL).unwrap();
        let error = unsupported(&module, &entry(&module).unwrap().body.ops[0]);
        expect!["this device does not support stablehlo.custom_call(Qr) (qr at f.py:4:8)"].assert_eq(error.message());
    }
}
