//! Programs that are built with the crate `stablehlo`. Requires the feature `stablehlo`.
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
//! Element types and shapes of both crates convert with `TryFrom`: [`ElementType`](crate::ElementType) to and from
//! [`ir::ElementType`], [`Shape`](crate::Shape) from [`ir::Type`], and [`ir::TensorType`] from [`Shape`](crate::Shape).

pub use ::stablehlo::lower::DeviceRules;
pub use ::stablehlo::{Error as ProgramError, builder, ir};

use ir::{Module, Version};
use pjrt_types::{Program, Value};

use crate::error::Error;
use crate::plugin::Plugin;

/// Creates [`Program`]s in a form that a plugin reads.
pub trait ForPlugin: Sized {
    /// Writes the module for this plugin.
    ///
    /// The result is a portable artifact of the newest version that both the plugin and this crate know. If the plugin
    /// does not report its version, the artifact has the oldest version that can represent the program, because every
    /// later version of StableHLO reads it. A program with ops that artifacts of no version can contain, such as those
    /// of other dialects, is text.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the program has an op, an attribute or a type that
    /// is newer than the plugin's version. The message names it and the version that it needs.
    fn for_plugin(module: &Module, plugin: &Plugin) -> Result<Self, Error>;

    /// Changes the module as the plugin's devices need, and writes it in a format that its compiler reads: like
    /// [`Self::for_plugin`] if it reads StableHLO, and otherwise as HLO. `plugin_registry::LoadedPlugin::target` creates
    /// the target from the capabilities that a plugin declares.
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
    /// Those of [`Self::for_plugin`]. [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) also if the devices lack
    /// an element type, if the compiler reads only HLO and an op cannot be written as HLO, or if it reads neither format.
    /// The message names the op.
    fn for_target(module: &Module, plugin: &Plugin, target: &Target) -> Result<Self, Error>;
}

/// The formats that a plugin's compiler reads, and the form that its devices need programs to have.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Target {
    formats: Vec<String>,
    rules: DeviceRules,
}

impl Target {
    /// A compiler that reads StableHLO, and devices that need no change.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the formats that the compiler reads, such as `mlir` and `hlo`.
    #[must_use]
    pub fn formats<F: Into<String>>(mut self, formats: impl IntoIterator<Item = F>) -> Self {
        self.formats = formats.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the rules of the devices.
    #[must_use]
    pub fn rules(mut self, rules: DeviceRules) -> Self {
        self.rules = rules;
        self
    }

    /// The rules of the devices.
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

/// The oldest and the newest version of StableHLO whose artifacts a plugin reads, as it reports them.
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

/// Versions that added ops, attributes or types, from the oldest to the newest.
const STEPS: [Version; 8] = [
    Version(1, 0, 0),
    Version(1, 1, 0),
    Version(1, 5, 0),
    Version(1, 8, 0),
    Version(1, 11, 0),
    Version(1, 14, 0),
    Version(1, 18, 0),
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
        // A newer version could represent the program, so the plugin would not understand its text either.
        Err(error) if ::stablehlo::write(module, Version::NEWEST).is_ok() => {
            Err(Error::unsupported(format!("the plugin is too old for the program: {error}")))
        }
        Err(_) => Ok(Program::mlir(module.to_string())),
    }
}

/// Tests the code of the book's chapter.
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
        for (current, expected) in [(Version(1, 9, 3), [1, 9, 3]), (Version(1, 99, 0), [1, 22, 0])] {
            let program = write(&tangent(), reads(Some(Version(0, 9, 0)), Some(current))).unwrap();
            assert_eq!(program.stablehlo_version(), Some(expected));
        }
    }

    #[test]
    fn oldest_version_without_report() {
        let sine = module(|f| f.sine(f.argument(TensorType::new([2], ElementType::F32))?));
        assert_eq!(write(&sine, Versions::default()).unwrap().stablehlo_version(), Some([1, 0, 0]));
        // `tan` came with 1.4.0.
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
