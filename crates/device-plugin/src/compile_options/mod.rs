//! Compile options that are passed by name. In `jax.jit`, they are the argument `compiler_options`.

use std::borrow::Cow;

use pjrt_types::{CompileOptions, OptionOverride};

use crate::{Error, Result};

/// Schema of the fields of XLA's `DebugOptions`, and of the four options that JAX passes to XLA's effort settings. Each
/// line contains the type and the name of one option. The fields are from the protobuf descriptors in jaxlib 0.5.3,
/// 0.10.2 and 0.12.0.1.
const XLA: &str = include_str!("xla.txt");

/// Options for TPUs that PyTorch/XLA 2.9 passes to every device if `ENABLE_COLLECTIVE_MATMUL_IN_MP` is set.
const PYTORCH_XLA: [&str; 2] = ["xla_tpu_decompose_all_gather_einsum", "xla_tpu_decompose_einsum_reduce_scatter"];

/// The named compile options that a backend accepts, for
/// [`NamedOptions::compile_options`](crate::features::NamedOptions::compile_options).
///
/// ```
/// use device_plugin::{CompileOptionSchema, CompileOptionType, CompileOptions};
///
/// let schema = CompileOptionSchema::only([("example_tile_size", CompileOptionType::Int64)]);
/// let options = CompileOptions::default().with_option_override("example_tile_sise", 64);
/// assert_eq!(
///     schema.check(&options).unwrap_err().message(),
///     "No such compile option: 'example_tile_sise'; did you mean 'example_tile_size'?",
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileOptionSchema {
    /// Whether options that are not in `options` are accepted.
    open: bool,
    options: Vec<(Cow<'static, str>, CompileOptionType)>,
}

/// Type of an option. As in XLA, a string that contains a value of the type is accepted, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompileOptionType {
    /// `true` or `false`.
    Bool,
    /// A 64-bit integer.
    Int64,
    /// A 64-bit floating-point number. Integers are accepted.
    Double,
    /// A string.
    String,
    /// A value of any type. Enumerations, which users pass by name or by number, and repeated fields have this type.
    Any,
}

impl CompileOptionType {
    /// Returns the name of the type for error messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int64 => "int64",
            Self::Double => "double",
            Self::String => "string",
            Self::Any => "any",
        }
    }

    fn of_name(name: &str) -> Self {
        let all = [Self::Bool, Self::Int64, Self::Double, Self::String];
        all.into_iter().find(|ty| ty.name() == name).unwrap_or(Self::Any)
    }

    fn accepts(self, value: &OptionOverride) -> bool {
        match (self, value) {
            (Self::Any, _)
            | (Self::Bool, OptionOverride::Bool(_))
            | (Self::Int64 | Self::Double, OptionOverride::Int64(_))
            | (Self::Double, OptionOverride::Double(_))
            | (Self::String, OptionOverride::String(_)) => true,
            (Self::Bool, OptionOverride::String(text)) => matches!(&**text, "true" | "false" | "True" | "False"),
            (Self::Int64, OptionOverride::String(text)) => text.trim().parse::<i64>().is_ok(),
            (Self::Double, OptionOverride::String(text)) => text.trim().parse::<f64>().is_ok(),
            _ => false,
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::Bool => "write true or false",
            Self::Int64 => "write an integer",
            Self::Double => "write a number",
            Self::String | Self::Any => "write text",
        }
    }
}

impl Default for CompileOptionSchema {
    fn default() -> Self {
        Self::any()
    }
}

impl CompileOptionSchema {
    /// Creates a schema that accepts every option.
    pub fn any() -> Self {
        Self { open: true, options: Vec::new() }
    }

    /// Creates a schema that accepts only these options.
    pub fn only<N: Into<Cow<'static, str>>>(options: impl IntoIterator<Item = (N, CompileOptionType)>) -> Self {
        let options = options.into_iter().map(|(name, ty)| (name.into(), ty)).collect();
        Self { open: false, options }
    }

    /// Creates a schema with the options of XLA's own CPU and GPU plugins: the fields of `DebugOptions`, such as
    /// `xla_embed_ir_in_executable`, and `exec_time_optimization_effort`, `memory_fitting_effort`, `optimization_level`
    /// and `memory_fitting_level`. JAX users pass these options on every platform. The schema also contains two options
    /// for TPUs that PyTorch/XLA can pass to every device.
    pub fn xla() -> Self {
        let options = XLA.lines().filter_map(|line| line.split_once(' '));
        let options = options.map(|(ty, name)| (name, CompileOptionType::of_name(ty)));
        Self::only(options.chain(PYTORCH_XLA.map(|name| (name, CompileOptionType::Bool))))
    }

    /// Adds an option to the schema.
    #[must_use]
    pub fn with(mut self, name: impl Into<Cow<'static, str>>, ty: CompileOptionType) -> Self {
        self.options.push((name.into(), ty));
        self
    }

    /// Checks the options that a framework passed by name.
    ///
    /// # Errors
    ///
    /// Returns `INVALID_ARGUMENT` if a name is unknown or a value has another type. The error for an unknown name
    /// suggests a similar name, or lists the known names if they are few. The messages begin like XLA's, because
    /// callers may search for XLA's messages.
    pub fn check(&self, options: &CompileOptions) -> Result<()> {
        for (name, value) in &options.env_option_overrides {
            match self.options.iter().find(|(known, _)| known == name) {
                Some((_, ty)) if ty.accepts(value) => {}
                Some((_, ty)) => {
                    let (type_name, remedy) = (ty.name(), ty.remedy());
                    return Err(Error::invalid_argument(format!(
                        "While setting option {name}, '{}' is not a valid {type_name} value; {remedy}",
                        value
                    )));
                }
                None if self.open => {}
                None => {
                    return Err(Error::invalid_argument(format!(
                        "No such compile option: '{name}'{}",
                        self.hint(name)
                    )));
                }
            }
        }
        Ok(())
    }

    /// Returns the end of the message for an unknown name: a similar name, the known names if they are few, or nothing.
    fn hint(&self, unknown: &str) -> String {
        let distances = self.options.iter().map(|(name, _)| (strsim::levenshtein(name, unknown), name));
        match distances.min() {
            Some((distance, near)) if distance <= 2 + unknown.len() / 10 => format!("; did you mean '{near}'?"),
            None => "; this plugin takes none".to_owned(),
            Some(_) if self.options.len() <= 16 => {
                let names: Vec<&str> = self.options.iter().map(|(name, _)| &**name).collect();
                format!("; this plugin takes {}", names.join(", "))
            }
            Some(_) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn check(schema: &CompileOptionSchema, name: &str, value: OptionOverride) -> Result<(), String> {
        let options = CompileOptions::default().with_option_override(name, value);
        schema.check(&options).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn options_of_xla_are_known() {
        use OptionOverride::{Bool, Double, Int64, String as Text};
        let xla = CompileOptionSchema::xla();
        assert!(xla.options.len() > 300 && !xla.options.iter().any(|(name, _)| name.is_empty()));
        for (name, value) in [
            ("xla_embed_ir_in_executable", Bool(true)),
            ("xla_embed_ir_in_executable", Text("False".to_owned())),
            ("xla_dump_max_hlo_modules", Int64(200)),
            ("xla_dump_max_hlo_modules", Text("200".to_owned())),
            ("xla_gpu_auto_spmd_partitioning_memory_budget_ratio", Double(0.5)),
            ("xla_gpu_auto_spmd_partitioning_memory_budget_ratio", Int64(1)),
            ("xla_dump_to", Text("/tmp".to_owned())),
            ("xla_gpu_enable_command_buffer", Text("FUSION".to_owned())),
            // JAX passes the empty string while it collects profiles.
            ("xla_gpu_enable_command_buffer", Text(String::new())),
            ("xla_tpu_decompose_all_gather_einsum", Bool(true)),
            ("xla_tpu_decompose_einsum_reduce_scatter", Bool(true)),
            ("exec_time_optimization_effort", Double(0.0)),
            ("optimization_level", Int64(19)),
            ("optimization_level", Text("O1".to_owned())),
            ("memory_fitting_level", Int64(9)),
        ] {
            assert_eq!(check(&xla, name, value), Ok(()), "{name}");
        }
    }

    #[test]
    fn unknown_names_are_refused() {
        let xla = CompileOptionSchema::xla();
        let unknown = |schema: &CompileOptionSchema, name| check(schema, name, OptionOverride::Bool(true)).unwrap_err();
        assert_eq!(unknown(&xla, "invalid_key"), "No such compile option: 'invalid_key'");
        assert_eq!(
            unknown(&xla, "xla_embed_ir_in_executble"),
            "No such compile option: 'xla_embed_ir_in_executble'; did you mean 'xla_embed_ir_in_executable'?"
        );
        let own = CompileOptionSchema::only([("tile", CompileOptionType::Int64)]).with("fuse", CompileOptionType::Bool);
        assert_eq!(unknown(&own, "unrelated"), "No such compile option: 'unrelated'; this plugin takes tile, fuse");
        let none = CompileOptionSchema::only::<&str>([]);
        assert_eq!(unknown(&none, "tile"), "No such compile option: 'tile'; this plugin takes none");
        assert_eq!(check(&CompileOptionSchema::any(), "tile", OptionOverride::Bool(true)), Ok(()));
    }

    #[test]
    fn values_of_another_type_are_refused() {
        let xla = CompileOptionSchema::xla();
        let text = |text: &str| OptionOverride::String(text.to_owned());
        let mut messages = String::new();
        for (name, value) in [
            ("xla_embed_ir_in_executable", text("invalid_value")),
            ("xla_embed_ir_in_executable", OptionOverride::Int64(1)),
            ("xla_dump_max_hlo_modules", OptionOverride::Double(1.5)),
            ("xla_dump_max_hlo_modules", text("many")),
            ("xla_dump_to", OptionOverride::Bool(true)),
            ("exec_time_optimization_effort", text("much")),
        ] {
            let case = format!("{name} {value:?}");
            messages += &format!("{case}: {}\n", check(&xla, name, value).unwrap_err());
        }
        expect![[r#"
            xla_embed_ir_in_executable String("invalid_value"): While setting option xla_embed_ir_in_executable, 'invalid_value' is not a valid bool value; write true or false
            xla_embed_ir_in_executable Int64(1): While setting option xla_embed_ir_in_executable, '1' is not a valid bool value; write true or false
            xla_dump_max_hlo_modules Double(1.5): While setting option xla_dump_max_hlo_modules, '1.5' is not a valid int64 value; write an integer
            xla_dump_max_hlo_modules String("many"): While setting option xla_dump_max_hlo_modules, 'many' is not a valid int64 value; write an integer
            xla_dump_to Bool(true): While setting option xla_dump_to, 'true' is not a valid string value; write text
            exec_time_optimization_effort String("much"): While setting option exec_time_optimization_effort, 'much' is not a valid double value; write a number
        "#]].assert_eq(&messages);
    }
}
