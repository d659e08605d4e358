//! Runs passes in order, and writes the program after each pass to files.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use stablehlo::ir::Module;
use stablehlo::{Error, ErrorKind, Result, VerifyLevel};

/// Environment variable with the folder for the files.
const VARIABLE: &str = "PJRT_PLUGIN_DUMP";

/// A program to which passes are applied one after the other.
///
/// If the environment variable `PJRT_PLUGIN_DUMP` is the path of a folder, the pipeline writes the program as received
/// and after each pass that changed it to files there, such as `jit_step.1.02.inline.mlir`. The first number counts the
/// programs of the process, and the second one the files of the program.
#[derive(Debug)]
pub struct Pipeline {
    module: Module,
    folder: Option<PathBuf>,
    name: String,
    files: u32,
}

impl Pipeline {
    /// Creates a pipeline, and writes the program as received.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub fn new(module: Module) -> Result<Self> {
        Self::in_folder(module, std::env::var_os(VARIABLE).filter(|folder| !folder.is_empty()).map(PathBuf::from))
    }

    fn in_folder(module: Module, folder: Option<PathBuf>) -> Result<Self> {
        static PROGRAMS: AtomicU32 = AtomicU32::new(0);
        let name = module.name.as_deref().unwrap_or("program").replace(|c: char| !c.is_ascii_alphanumeric(), "_");
        let name = match folder {
            Some(_) => format!("{name}.{}", PROGRAMS.fetch_add(1, Ordering::Relaxed)),
            None => name,
        };
        let mut pipeline = Self { module, folder, name, files: 0 };
        pipeline.write_program("received")?;
        Ok(pipeline)
    }

    /// Returns the program.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// Runs a pass. It returns the changed program, or `None` if it changes nothing. With debug assertions, verifies
    /// the changed program.
    ///
    /// # Errors
    ///
    /// Returns the error of the pass or of the verification, with the name of the pass in front of its message. If an
    /// op caused it, the message also contains the op's types and its sharding.
    pub fn pass(&mut self, name: &str, pass: impl FnOnce(&Module) -> Result<Option<Module>>) -> Result<()> {
        let fault = |what: &str, error: &Error| {
            let signature = error.signature().map_or_else(String::new, |signature| format!("; the op is {signature}"));
            Error::new(error.kind(), format_args!("pass `{name}`{what}: {error}{signature}"))
        };
        if let Some(module) = pass(&self.module).map_err(|error| fault("", &error))? {
            self.module = module;
            // First, so that the file of the program shows the fault.
            self.write_program(name)?;
            if cfg!(debug_assertions) {
                stablehlo::verify(&self.module, VerifyLevel::FULL)
                    .map_err(|error| fault(" has created an invalid program", &error))?;
            }
        }
        Ok(())
    }

    /// Writes another text about the program, such as the vendor's code, to a file with this extension.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub fn write(&mut self, name: &str, extension: &str, text: &str) -> Result<()> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let path = folder.join(format!("{}.{:02}.{name}.{extension}", self.name, self.files));
        self.files += 1;
        fs::create_dir_all(folder).and_then(|()| fs::write(&path, text)).map_err(|error| {
            let message = format_args!(
                "cannot write {}: {error}; set {VARIABLE} to a folder that can be written, or unset it",
                path.display()
            );
            Error::new(ErrorKind::Unsupported, message)
        })
    }

    fn write_program(&mut self, name: &str) -> Result<()> {
        if self.folder.is_none() {
            return Ok(());
        }
        let text = self.module.to_string();
        self.write(name, "mlir", &text)
    }
}

#[cfg(test)]
mod tests {
    use stablehlo::rewrite;

    use super::*;
    use crate::eliminate_dead_code;

    fn program() -> Module {
        let text = "module @step { func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = stablehlo.sine %x : tensor<2xf32>
          return %x : tensor<2xf32>
        } }";
        parsed(text)
    }

    fn parsed(text: &str) -> Module {
        stablehlo::parse(text.to_owned(), VerifyLevel::FULL).unwrap()
    }

    #[test]
    fn files_contain_each_change() {
        let folder = std::env::temp_dir().join(format!("pjrt-plugin-dump-{}", std::process::id()));
        let mut pipeline = Pipeline::in_folder(program(), Some(folder.clone())).unwrap();
        pipeline.pass("no_change", |_| Ok(None)).unwrap();
        pipeline.pass("eliminate_dead_code", |module| Ok(eliminate_dead_code(module))).unwrap();
        pipeline.write("kernels", "cl", "text").unwrap();
        let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()).collect();
        files.sort();
        let texts: Vec<_> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
        fs::remove_dir_all(&folder).unwrap();
        let names = files.iter().map(|file| file.file_name().unwrap().to_str().unwrap().splitn(3, '.').last().unwrap());
        assert_eq!(names.collect::<Vec<_>>(), ["00.received.mlir", "01.eliminate_dead_code.mlir", "02.kernels.cl"]);
        assert!(texts[0].contains("sine") && !texts[1].contains("sine") && texts[2] == "text", "{texts:?}");
    }

    #[test]
    fn errors_name_the_pass_or_the_file() {
        let mut pipeline = Pipeline::in_folder(program(), None).unwrap();
        let fault = || Error::new(ErrorKind::Limit, "too many ops");
        let error = pipeline.pass("inline", |_| Err(fault())).unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Limit, "pass `inline`: too many ops"));
        // An op that the pass cannot replace, with its types and its sharding.
        let text = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
          %0 = stablehlo.sine %x {mhlo.sharding = \"{replicated}\"} : tensor<2xf32>
          return %0 : tensor<2xf32>
        }";
        let mut pipeline = Pipeline::in_folder(parsed(text), None).unwrap();
        let refuses = |module: &Module| -> Result<Option<Module>> {
            rewrite(&mut module.funcs[0].clone(), &module.locations, |_, _| Err(fault()))?;
            Ok(None)
        };
        assert_eq!(
            pipeline.pass("expand", refuses).unwrap_err().message(),
            "pass `expand`: stablehlo.sine: too many ops (in @main, line 2:11); the op is (tensor<2xf32>) -> \
             (tensor<2xf32>) with mhlo.sharding = \"{replicated}\""
        );
        let breaks = |module: &Module| {
            let mut module = module.clone();
            module.funcs[0].body.ops[0].kind = stablehlo::ir::OpKind::Iota { iota_dimension: 7 };
            Ok(Some(module))
        };
        let error = pipeline.pass("broken", breaks).unwrap_err();
        let message = error.message();
        assert!(message.starts_with("pass `broken` has created an invalid program: stablehlo.iota: "), "{message}");
        let signature = "the op is (tensor<2xf32>) -> (tensor<2xf32>) with mhlo.sharding = \"{replicated}\"";
        assert!(message.ends_with(signature), "{message}");
        let error = Pipeline::in_folder(program(), Some("/dev/null/dump".into())).unwrap_err();
        let message = error.message();
        assert!(message.starts_with("cannot write /dev/null/dump/step.") && message.contains(VARIABLE), "{message}");
    }
}
