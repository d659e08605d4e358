//! The layouts that a framework requests for the arrays of a program. JAX writes them into the program.

use ::stablehlo::ir::{Attribute, Attributes, Func, Module, Type};

use super::parse::entry;
use super::types::shape;
use crate::{Error, Layout, Result};

/// The requested layout of an argument or a result.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayoutMode {
    /// The device's default layout for the shape.
    Default,
    /// A layout that the backend chooses for the program. The framework queries the chosen layout from the executable.
    Auto,
    /// The layout that the framework specifies.
    Layout(Layout),
}

/// Name of the attribute of arguments and results that contains the requested layout.
const NAME: &str = "mhlo.layout_mode";

fn attribute(all: &[Attributes], index: usize) -> Option<&Attribute> {
    all.get(index)?.iter().find(|(name, _)| name == NAME).map(|(_, value)| value)
}

fn mode(all: &[Attributes], ty: &Type, what: &str, index: usize) -> Result<LayoutMode> {
    let Some(attribute) = attribute(all, index) else { return Ok(LayoutMode::Default) };
    let rank = shape(ty)?.dimensions.len();
    let fault = |value: &str| {
        Error::invalid_argument(format!(
            "{NAME} of {what} {index} is {value}; write \"default\", \"auto\" or an order of its {rank} dimensions \
             such as \"{{1,0}}\""
        ))
    };
    let text = match attribute {
        Attribute::String(text) => String::from_utf8_lossy(text),
        _ => return Err(fault("not a string")),
    };
    match &*text {
        "default" => Ok(LayoutMode::Default),
        "auto" => Ok(LayoutMode::Auto),
        text => match text.parse::<Layout>() {
            Ok(layout) if layout.stored_dimensions(&vec![1; rank]).is_some() => Ok(LayoutMode::Layout(layout)),
            _ => Err(fault(&format!("{text:?}"))),
        },
    }
}

/// Returns the requested layout of each argument and of each result of a program.
///
/// # Errors
///
/// Returns the errors of [`entry`] and [`shape`], and `INVALID_ARGUMENT` if a layout is not valid for its array.
pub fn layout_modes(module: &Module) -> Result<(Vec<LayoutMode>, Vec<LayoutMode>)> {
    let main = entry(module)?;
    let arguments = main.args().iter().enumerate();
    let arguments = arguments.map(|(at, value)| mode(&main.arg_attributes, main.ty(*value), "argument", at));
    let results = main.results.iter().enumerate();
    let results = results.map(|(at, ty)| mode(&main.result_attributes, ty, "result", at));
    Ok((arguments.collect::<Result<_>>()?, results.collect::<Result<_>>()?))
}

/// Returns `UNIMPLEMENTED` if the program requests a layout other than row-major for an argument or a result.
/// `parameters` and `outputs` are the numbers of arguments and results.
pub(super) fn expect_row_major(main: &Func, parameters: usize, outputs: usize) -> Result<()> {
    let all = [(&main.arg_attributes, parameters, "argument"), (&main.result_attributes, outputs, "result")];
    for (attributes, count, what) in all {
        for index in 0..count {
            let Some(Attribute::String(text)) = attribute(attributes, index) else { continue };
            if &text[..] == b"default" || &text[..] == b"auto" {
                continue;
            }
            let text = String::from_utf8_lossy(text);
            let order = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
            // A row-major layout lists the dimensions from the last to the first.
            let is_row_major = order.is_some_and(|order| {
                let dims = order.split(',').filter(|dim| !dim.is_empty());
                dims.rev().enumerate().all(|(at, dim)| dim.parse() == Ok(at))
            });
            if !is_row_major {
                return Err(Error::unimplemented(format!(
                    "{what} {index} has the layout {text}, but this device stores arrays only row-major"
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{VerifyLevel, info, parse, signature};
    use super::*;
    use crate::{ErrorCode, Program};
    use expect_test::expect;

    fn module(argument: &str, result: &str) -> Module {
        let mode = |text: &str| if text.is_empty() { String::new() } else { format!(" {{{NAME} = {text}}}") };
        let text = format!(
            "func.func @main(%x: tensor<2x3xf32>{}) -> (tensor<2x3xf32>{}) {{ return %x : tensor<2x3xf32> }}",
            mode(argument),
            mode(result)
        );
        parse(&Program::mlir(text), VerifyLevel::FULL).unwrap()
    }

    #[test]
    fn modes_are_those_the_framework_wrote() {
        let (arguments, results) = layout_modes(&module("\"{0,1}\"", "\"auto\"")).unwrap();
        assert_eq!(arguments, [LayoutMode::Layout("{0,1}".parse().unwrap())]);
        assert_eq!(results, [LayoutMode::Auto]);
        let (arguments, results) = layout_modes(&module("", "\"default\"")).unwrap();
        assert_eq!((arguments, results), (vec![LayoutMode::Default], vec![LayoutMode::Default]));
    }

    #[test]
    fn rejects_invalid_layout() {
        for text in ["\"{0}\"", "\"{0,0}\"", "\"{0,2}\"", "\"columns\"", "1 : i32"] {
            let error = layout_modes(&module("", text)).unwrap_err();
            assert_eq!(error.code(), ErrorCode::INVALID_ARGUMENT, "{text}");
        }
    }

    #[test]
    fn info_rejects_layouts() {
        for text in ["", "\"auto\"", "\"default\"", "\"{1,0}\""] {
            assert!(info(&module(text, text)).is_ok(), "{text}");
        }
        let mut messages = String::new();
        for (argument, result, place) in [("\"{0,1}\"", "", "argument 0"), ("", "\"{0,1}\"", "result 0")] {
            let module = module(argument, result);
            let error = info(&module).unwrap_err();
            assert_eq!(error.code(), ErrorCode::UNIMPLEMENTED);
            messages += &format!("{place}: {}\n", error.message());
            assert!(signature(&module).is_ok());
        }
        expect![[r#"
            argument 0: argument 0 has the layout {0,1}, but this device stores arrays only row-major
            result 0: result 0 has the layout {0,1}, but this device stores arrays only row-major
        "#]]
        .assert_eq(&messages);
    }
}
