//! Cases from TOML files. Each case has a program, its inputs, and the expected outputs with their tolerances.
//!
//! `docs/conformance-data.md` documents the TOML format, so that runners in other languages can use the files.

use half::{bf16, f16};
use pjrt::{ElementType, HostArray, Shape};
use serde::Deserialize;
use stablehlo::{FloatFormat, ir};
use toml::Value;

use crate::case::Profiles;
use crate::context::{Context, download, unsupported_type};
use crate::stop::Stop;
use crate::suite::Suite;

/// Names and contents of the TOML files.
const FILES: &[(&str, &str)] = &[
    ("control_flow.toml", include_str!("../data/control_flow.toml")),
    ("shapes.toml", include_str!("../data/shapes.toml")),
    ("arithmetic.toml", include_str!("../data/arithmetic.toml")),
    ("reductions.toml", include_str!("../data/reductions.toml")),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    case: Vec<DataCase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DataCase {
    id: String,
    clause: String,
    why: String,
    #[serde(default = "minimal")]
    profile: String,
    /// The StableHLO version that added the program's ops, if that was after 1.22.0.
    #[serde(default)]
    stablehlo: Option<String>,
    program: String,
    #[serde(default)]
    inputs: Vec<Array>,
    outputs: Vec<Array>,
}

fn minimal() -> String {
    "frameworks".to_owned()
}

/// An input or an expected output of a program. The fields `absolute` and `relative` apply only to expected outputs of
/// float and complex types.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Array {
    #[serde(rename = "type")]
    ty: String,
    dims: Vec<i64>,
    values: Vec<Value>,
    /// Absolute part of the tolerance. An element may differ from a finite expected element by at most `absolute +
    /// relative * abs(expected)`.
    #[serde(default)]
    absolute: f64,
    /// Relative part of the tolerance, as a factor of the expected element's absolute value.
    #[serde(default)]
    relative: f64,
}

/// Declares the cases of all TOML files. For a file that is not valid, declares one case that fails.
pub(crate) fn declare(suite: &mut Suite) {
    for (name, text) in FILES {
        match toml::from_str::<File>(text) {
            Ok(file) => file.case.into_iter().for_each(|case| declare_one(suite, case)),
            Err(error) => {
                let reason = format!("{name} is not valid: {error}");
                let id = format!("program.file.valid[file={name}]");
                suite
                    .case(id, "the suite's own files are valid", "if this file is not valid, its cases cannot run")
                    .without_client()
                    .check(move |_| Err(Stop::Fail(reason.clone())));
            }
        }
    }
}

fn declare_one(suite: &mut Suite, case: DataCase) {
    let profiles = match case.profile.as_str() {
        "minimal" => Profiles::MINIMAL,
        "jax" => Profiles::JAX,
        "full" => Profiles::FULL,
        _ => Profiles::FRAMEWORKS,
    };
    let DataCase { id, clause, why, program, inputs, outputs, stablehlo, .. } = case;
    suite.case(id, clause, why).profiles(profiles).check(move |cx| {
        if let Some(version) = &stablehlo {
            let version = version.parse().map_err(|error| Stop::Fail(format!("{error}")))?;
            crate::program::needs_stablehlo(version, cx.plugin())?;
        }
        run(cx, &program, &inputs, &outputs)
    });
}

fn run(cx: &Context, program: &str, inputs: &[Array], outputs: &[Array]) -> Result<(), Stop> {
    let program = crate::program::for_plugin(program, cx.plugin())?;
    let executable = cx.client()?.compile(&program, &pjrt::CompileOptions::default());
    let ty = inputs.iter().chain(outputs).map(Array::element_type).next().unwrap_or(Ok(ElementType::F32))?;
    let executable = executable.map_err(|error| unsupported_type(ty, error))?;
    let mut buffers = Vec::new();
    for input in inputs {
        buffers.push(cx.upload(&input.array()?)?);
    }
    let found = executable.execute(&buffers.iter().collect::<Vec<_>>())?;
    ensure_eq!(found.len(), outputs.len(), "number of outputs");
    for (at, (found, expected)) in found.iter().zip(outputs).enumerate() {
        let found = download(found)?;
        let array = expected.array()?;
        ensure_eq!(found.shape(), array.shape(), "shape of output {at}");
        compare(&found, &array, expected).map_err(|reason| Stop::Fail(format!("output {at}: {reason}")))?;
    }
    Ok(())
}

impl Array {
    fn element_type(&self) -> Result<ElementType, Stop> {
        self.ty.parse().map_err(|error| Stop::Fail(format!("the suite's data is not valid: {error}")))
    }

    fn array(&self) -> Result<HostArray, Stop> {
        let ty = self.element_type()?;
        let mut bytes = Vec::new();
        for value in &self.values {
            encode(ty, value, &mut bytes)
                .ok_or_else(|| Stop::Fail(format!("the suite's data is not valid: {value} as {ty}")))?;
        }
        Ok(HostArray::new(Shape::new(ty, self.dims.clone()), bytes)?)
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        #[expect(clippy::cast_precision_loss, reason = "the numbers of floats in the files are small")]
        Value::Integer(integer) => Some(*integer as f64),
        Value::Float(float) => Some(*float),
        _ => None,
    }
}

/// Converts `value` to an element of type `ty`, and appends the element's bytes to `bytes`. Returns `None` if `ty` does
/// not contain the value.
fn encode(ty: ElementType, value: &Value, bytes: &mut Vec<u8>) -> Option<()> {
    macro_rules! integer {
        ($($name:ident: $int:ty),*) => {
            match ty {
                $(ElementType::$name => bytes.extend(<$int>::try_from(value.as_integer()?).ok()?.to_ne_bytes()),)*
                ElementType::U64 => bytes.extend(match value {
                    // The TOML files contain integers above TOML's maximum of 2^63 - 1 as strings.
                    Value::String(text) => text.parse::<u64>().ok()?.to_ne_bytes(),
                    other => u64::try_from(other.as_integer()?).ok()?.to_ne_bytes(),
                }),
                ElementType::Pred => bytes.push(u8::from(value.as_bool()?)),
                #[expect(clippy::cast_possible_truncation, reason = "the nearest number of the type")]
                ElementType::F32 => bytes.extend((number(value)? as f32).to_ne_bytes()),
                ElementType::F64 => bytes.extend(number(value)?.to_ne_bytes()),
                ElementType::F16 => bytes.extend(narrow_bits(ir::ElementType::F16, number(value)?)?.to_ne_bytes()),
                ElementType::Bf16 => bytes.extend(narrow_bits(ir::ElementType::Bf16, number(value)?)?.to_ne_bytes()),
                ElementType::C64 => {
                    for part in value.as_array()? {
                        encode(ElementType::F32, part, bytes)?;
                    }
                }
                ElementType::C128 => {
                    for part in value.as_array()? {
                        encode(ElementType::F64, part, bytes)?;
                    }
                }
                _ => return None,
            }
        };
    }
    integer!(S8: i8, S16: i16, S32: i32, S64: i64, U8: u8, U16: u16, U32: u32);
    Some(())
}

/// Returns the bit pattern of the nearest number of a float type with two bytes.
fn narrow_bits(element: ir::ElementType, value: f64) -> Option<u16> {
    FloatFormat::of(element)?.encode(value)?.try_into().ok()
}

/// Returns the elements of an `f16`, `bf16`, `f32` or `f64` array, or the real and imaginary parts of a complex array's
/// elements. Returns `None` for other element types.
fn numbers(array: &HostArray) -> Option<Vec<f64>> {
    let bytes = array.bytes();
    Some(match array.shape().element_type {
        ElementType::F32 | ElementType::C64 => {
            bytes.as_chunks::<4>().0.iter().map(|bytes| f64::from(f32::from_ne_bytes(*bytes))).collect()
        }
        ElementType::F64 | ElementType::C128 => {
            bytes.as_chunks::<8>().0.iter().map(|bytes| f64::from_ne_bytes(*bytes)).collect()
        }
        ElementType::F16 => bytes.as_chunks::<2>().0.iter().map(|bytes| f16::from_ne_bytes(*bytes).to_f64()).collect(),
        ElementType::Bf16 => {
            bytes.as_chunks::<2>().0.iter().map(|bytes| bf16::from_ne_bytes(*bytes).to_f64()).collect()
        }
        _ => return None,
    })
}

fn compare(found: &HostArray, expected: &HostArray, tolerance: &Array) -> Result<(), String> {
    let (Some(numbers_found), Some(numbers_expected)) = (numbers(found), numbers(expected)) else {
        if found.bytes() == expected.bytes() {
            return Ok(());
        }
        return Err(format!("found the bytes {:?}, expected {:?}", found.bytes(), expected.bytes()));
    };
    for (at, (found, expected)) in numbers_found.iter().zip(&numbers_expected).enumerate() {
        let same = found == expected || found.is_nan() && expected.is_nan();
        let bound = tolerance.absolute + tolerance.relative * expected.abs();
        // The tolerance applies only to a finite expected number, because an infinite one can make the bound infinite.
        // The comparison with the bound is false if `found` is NaN.
        let close = expected.is_finite() && (found - expected).abs() <= bound;
        if !same && !close {
            return Err(format!("element {at} is {found}, expected {expected} within {bound}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pjrt::HostArray;

    use super::{Array, FILES, File, compare};

    #[test]
    fn only_finite_numbers_have_a_tolerance() {
        let tolerance = |relative| {
            toml::from_str::<Array>(&format!("type = \"f32\"\ndims = [1]\nvalues = [0]\nrelative = {relative}"))
                .unwrap()
        };
        let numbers = |x: f32| HostArray::from_elements(&[x], &[1]).unwrap();
        let agree =
            |found, expected, relative| compare(&numbers(found), &numbers(expected), &tolerance(relative)).is_ok();
        assert!(agree(1.0, 1.001, 0.01) && !agree(1.0, 1.1, 0.01) && agree(1.0, 1.0, 0.0));
        assert!(agree(f32::INFINITY, f32::INFINITY, 0.01) && agree(f32::NAN, f32::NAN, 0.01));
        for found in [0.0, f32::NEG_INFINITY, f32::NAN] {
            assert!(!agree(found, f32::INFINITY, 0.01), "{found}");
        }
        assert!(!agree(f32::INFINITY, 1.0, 0.01) && !agree(f32::NAN, 1.0, 0.01));
    }

    #[test]
    fn files_are_valid() {
        for (name, text) in FILES {
            let file: File = toml::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            for case in file.case {
                let parsed = stablehlo::parse(case.program.clone(), stablehlo::VerifyLevel::FULL);
                assert!(parsed.is_ok(), "{name}: {}: {}", case.id, parsed.unwrap_err());
                let oldest =
                    case.stablehlo.map_or(stablehlo::ir::Version(1, 22, 0), |version| version.parse().unwrap());
                let written = stablehlo::write(&parsed.unwrap(), oldest);
                assert!(written.is_ok(), "{name}: {}: {}", case.id, written.unwrap_err());
                for array in case.inputs.iter().chain(&case.outputs) {
                    assert!(array.array().is_ok(), "{name}: {}: {:?}", case.id, array.array().unwrap_err());
                }
            }
        }
    }
}
