//! Conversion of programs that are built with the crate `stablehlo`. Requires the feature `stablehlo`.
//!
//! ```
//! use pjrt::stablehlo::ForPlugin;
//! use pjrt::stablehlo::builder::ModuleBuilder;
//! use pjrt::stablehlo::ir::{ElementType, TensorType};
//! use pjrt::{ClientOptions, CompileOptions, Program};
//!
//! let module = ModuleBuilder::new("double");
//! module.function("main", |f| {
//!     let x = f.argument(TensorType::new([2], ElementType::F32))?;
//!     f.add(x, x)
//! })?;
//! let module = module.build()?;
//!
//! let client = plugin_registry::open("cpu")?.client(&ClientOptions::new())?;
//! let program = Program::for_plugin(&module, &client.plugin())?;
//! let double = client.compile(&program, &CompileOptions::default())?;
//! let x = client.buffer_from_host(&[1.0f32, 2.0], &[2])?;
//! assert_eq!(double.execute(&[&x])?[0].to_host::<f32>()?, [2.0, 4.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This crate and the crate `stablehlo` convert their element types and shapes with `TryFrom`:
//! [`ElementType`](crate::ElementType) to and from [`ir::ElementType`], [`ir::Type`] to [`Shape`](crate::Shape), and
//! [`Shape`](crate::Shape) to [`ir::TensorType`].

pub use ::stablehlo::lower::DeviceRules;
pub use ::stablehlo::{Error as ProgramError, builder, ir};

use ir::{Module, Version};
use pjrt_types::{Program, Value};

use crate::error::Error;
use crate::objects::owners::Plugin;

/// Conversion of a StableHLO [`Module`] to a program in a format that a plugin reads.
pub trait ForPlugin: Sized {
    /// Serializes the module in a StableHLO version that the plugin reads.
    ///
    /// The program is a StableHLO portable artifact, in the newest version that both the plugin and this crate support.
    /// If the plugin does not report its version, the artifact has the oldest version that can represent the program,
    /// because every later version of StableHLO can read it. If portable artifacts cannot represent the program in any
    /// version, for example because it contains ops of other dialects, the program is MLIR text.
    ///
    /// # Errors
    ///
    /// Returns an error of kind [`Unsupported`](crate::ErrorKind::Unsupported) if the plugin reads only newer StableHLO
    /// versions than this build writes, or if the program has an op, an attribute or a type that is newer than the
    /// plugin's version. In the second case, the message names the op, attribute or type, and the version that it
    /// requires.
    fn for_plugin(module: &Module, plugin: &Plugin) -> Result<Self, Error>;

    /// Adapts the module to the plugin's devices, and serializes it in a format that the plugin's compiler reads. If
    /// the compiler reads StableHLO, the format is that of [`Self::for_plugin`], and otherwise HLO.
    /// `plugin_registry::LoadedPlugin::target` creates a target from the capabilities that a plugin declares.
    ///
    /// ```
    /// use pjrt::Program;
    /// use pjrt::stablehlo::builder::ModuleBuilder;
    /// use pjrt::stablehlo::ir::{ElementType, TensorType};
    /// use pjrt::stablehlo::{DeviceRules, ForPlugin, Target};
    ///
    /// let module = ModuleBuilder::new("root");
    /// module.function("main", |f| f.sqrt(f.argument(TensorType::new([2], ElementType::F64))?))?;
    /// let rules = DeviceRules::new().replaced(ElementType::F64, ElementType::F32);
    /// let target = Target::new().formats(["hlo"]).rules(rules);
    /// let plugin = plugin_registry::open("cpu")?.plugin().clone();
    /// let program = Program::for_target(&module.build()?, &plugin, &target)?;
    /// assert_eq!(program.format(), "hlo");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`Self::for_plugin`] apply. Also returns an error of kind
    /// [`Unsupported`](crate::ErrorKind::Unsupported) if the devices do not support an element type of the program, if
    /// the compiler reads only HLO and an op cannot be represented in HLO, or if the compiler reads neither StableHLO
    /// nor HLO.
    fn for_target(module: &Module, plugin: &Plugin, target: &Target) -> Result<Self, Error>;
}

/// The program formats that a plugin's compiler reads, and the rules by which programs are adapted to the plugin's
/// devices.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Target {
    formats: Vec<String>,
    rules: DeviceRules,
}

impl Target {
    /// Creates a target whose compiler reads StableHLO and whose devices require no changes of the program.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the program formats that the compiler reads, such as `mlir` and `hlo`.
    #[must_use]
    pub fn formats<F: Into<String>>(mut self, formats: impl IntoIterator<Item = F>) -> Self {
        self.formats = formats.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the rules by which programs are adapted to the devices.
    #[must_use]
    pub fn rules(mut self, rules: DeviceRules) -> Self {
        self.rules = rules;
        self
    }

    /// Returns the rules by which programs are adapted to the devices.
    #[must_use]
    pub fn device_rules(&self) -> &DeviceRules {
        &self.rules
    }

    fn reads(&self, format: &str) -> bool {
        self.formats.iter().any(|known| known == format)
    }
}

impl ForPlugin for Program {
    fn for_plugin(module: &Module, plugin: &Plugin) -> Result<Self, Error> {
        write(module, versions(plugin)?)
    }

    fn for_target(module: &Module, plugin: &Plugin, target: &Target) -> Result<Self, Error> {
        let unsupported = |error: ProgramError| Error::unsupported(error.to_string());
        let lowered = ::stablehlo::lower::lower(module, &target.rules).map_err(unsupported)?;
        if target.formats.is_empty() || target.reads("mlir") {
            return Self::for_plugin(&lowered, plugin);
        }
        if target.reads("hlo") {
            return ::stablehlo::write_hlo(&lowered).map(Self::hlo).map_err(unsupported);
        }
        Err(Error::unsupported(format!(
            "the plugin reads programs as {}; this build writes mlir and hlo",
            target.formats.join(", ")
        )))
    }
}

/// The oldest and the newest StableHLO version that a plugin reads, if the plugin reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Versions {
    minimum: Option<Version>,
    current: Option<Version>,
}

fn versions(plugin: &Plugin) -> Result<Versions, Error> {
    let attributes = plugin.attributes()?;
    let find = |name: &str| match &attributes.iter().find(|attribute| attribute.name == name)?.value {
        Value::Int64List(list) => match list[..] {
            [major, minor, patch] => {
                Some(Version(major.try_into().ok()?, minor.try_into().ok()?, patch.try_into().ok()?))
            }
            _ => None,
        },
        _ => None,
    };
    Ok(Versions { minimum: find("stablehlo_minimum_version"), current: find("stablehlo_current_version") })
}

/// StableHLO versions to try if the plugin does not report its version, in ascending order. Ops, attributes or types
/// were added between consecutive versions.
const STEPS: [Version; 10] = [
    Version(1, 0, 0),
    Version(1, 1, 0),
    Version(1, 5, 0),
    Version(1, 8, 0),
    Version(1, 11, 0),
    Version(1, 14, 0),
    Version(1, 18, 0),
    Version(1, 22, 0),
    Version(1, 23, 0),
    Version::NEWEST,
];

fn write(module: &Module, versions: Versions) -> Result<Program, Error> {
    let oldest = versions.minimum.unwrap_or(Version::OLDEST);
    if oldest > Version::NEWEST {
        return Err(Error::unsupported(format!(
            "the plugin reads StableHLO {oldest} and later, but this build writes only up to {}; use a newer version of \
             this crate",
            Version::NEWEST
        )));
    }
    let written = match versions.current {
        Some(current) => ::stablehlo::write(module, current.min(Version::NEWEST)),
        None => {
            let candidates = STEPS.into_iter().filter(|step| *step >= oldest);
            let mut written = Err(None);
            for version in candidates {
                match ::stablehlo::write(module, version) {
                    Ok(artifact) => {
                        written = Ok(artifact);
                        break;
                    }
                    Err(error) => written = Err(Some(error)),
                }
            }
            match written {
                Ok(artifact) => Ok(artifact),
                Err(Some(error)) => Err(error),
                Err(None) => ::stablehlo::write(module, Version::NEWEST),
            }
        }
    };
    match written {
        Ok(artifact) => Ok(Program::mlir(artifact)),
        // A newer version can represent the program, so the plugin is too old. It could not read the program as MLIR
        // text either.
        Err(error) if ::stablehlo::write(module, Version::NEWEST).is_ok() => {
            Err(Error::unsupported(format!("the plugin is too old for the program: {error}")))
        }
        Err(_) => Ok(Program::mlir(module.to_string())),
    }
}

/// Runs the code blocks of the book's chapter `build-a-program.md` as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../book/src/build-a-program.md")]
struct BuildAProgram;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;
    use builder::ModuleBuilder;
    use ir::{ElementType, OpKind, TensorType};

    fn module(body: impl FnOnce(&builder::FunctionBuilder) -> ::stablehlo::Result<builder::Value>) -> Module {
        let module = ModuleBuilder::new("test");
        module.function("main", body).unwrap();
        module.build().unwrap()
    }

    fn tangent() -> Module {
        module(|f| f.tan(f.argument(TensorType::new([2], ElementType::F32))?))
    }

    fn reads(minimum: Option<Version>, current: Option<Version>) -> Versions {
        Versions { minimum, current }
    }

    #[test]
    fn newest_common_version() {
        for (current, expected) in [(Version(1, 9, 3), [1, 9, 3]), (Version(1, 99, 0), [1, 24, 0])] {
            let program = write(&tangent(), reads(Some(Version(0, 9, 0)), Some(current))).unwrap();
            assert_eq!(program.stablehlo_version(), Some(expected));
        }
    }

    #[test]
    fn oldest_version_without_report() {
        let sine = module(|f| f.sine(f.argument(TensorType::new([2], ElementType::F32))?));
        assert_eq!(write(&sine, Versions::default()).unwrap().stablehlo_version(), Some([1, 0, 0]));
        // `tan` was added in 1.4.0, so 1.5.0 is the first version in `STEPS` that supports it.
        assert_eq!(write(&tangent(), Versions::default()).unwrap().stablehlo_version(), Some([1, 5, 0]));
        let newer = reads(Some(Version(1, 20, 0)), None);
        assert_eq!(write(&sine, newer).unwrap().stablehlo_version(), Some([1, 22, 0]));
    }

    #[test]
    fn plugin_too_old_or_too_new() {
        let error = write(&tangent(), reads(None, Some(Version(1, 0, 0)))).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Unsupported);
        let error = write(&tangent(), reads(Some(Version(9, 0, 0)), Some(Version(9, 1, 0)))).unwrap_err();
        assert_eq!(error.kind(), crate::ErrorKind::Unsupported);
    }

    #[test]
    fn ops_of_other_dialects_are_text() {
        let module = module(|f| {
            let x = f.argument(TensorType::new([2], ElementType::F32))?;
            let kind = OpKind::Other { name: "chlo.erf_inv".to_owned(), attributes: Vec::new() };
            let ty = (*f.ty(x)?).clone();
            Ok(f.op(kind, &[x], [ty])?[0])
        });
        let program = write(&module, reads(None, Some(Version(1, 20, 0)))).unwrap();
        assert_eq!(program.code()[..], *module.to_string().as_bytes());
    }
}
