//! `cargo xtask jax-tests`: runs JAX's own test files on a plugin.
//!
//! The tests come from a checkout of JAX's repository. JAX itself comes from the package registry, in the version of
//! the checkout. `xtask/jax_tests/run.py` runs the tests. This module prepares the Python environment, the plugin's
//! wheel, and XLA's CPU plugin if it is a reference.

mod layers;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::package::PLUGINS;
use crate::python::JAX;
use crate::{Error, jax, sh};

pub(crate) const USAGE: &str = "usage: cargo xtask jax-tests --jax-checkout PATH [OPTION]... [FILE]...

Runs test files of JAX case by case, and survives cases that crash or hang. FILE is the name of a file in the checkout's
`tests`, such as array_test; without one all run.

  --jax-checkout PATH   a checkout of JAX's repository, of a version in tests/jax/requirements-*.txt
  --library FILE        the plugin's library (default: the CPU plugin as last built, release before debug)
  --manifest FILE       the plugin's manifest, for its wheel (default: the library's own description)
  --name NAME           the plugin's platform name (default: pjrt_cpu)
  --bare                without the wheel's package, by PJRT_NAMES_AND_LIBRARY_PATHS
  --layers NAMES        put layers between JAX and the plugin, such as `validate`; the run fails if it reports anything.
                        Their files are in target/jax-tests/layers
  --devices N           number of devices of each process, for the CPU plugin and the references (default: 1)
  --processes N         number of processes that run each case together, for files such as multiprocess/array_test; without
                        a FILE, all files of that folder run (default: 1)
  --env VARIABLE=VALUE  set for the tests, for instance to select another plugin's devices; may be repeated
  --device-under-test NAME
                        the platform whose tests JAX selects: with `cpu`, those it skips on platforms it does not know
  --filter REGEX        only cases whose `Class.method` matches
  --cases N             generated cases per test (default: 1); --slow runs tests that JAX marks as slow
  --timeout SECONDS     for one case (default: 120)
  --file-timeout SECONDS
                        for one file: the cases it has left when the time is over have the outcome `not_run`
  --resume              continue an earlier run with the same --output: run only the files and cases that it lacks
  --jobs N              files to run at once (default: 1)
  --reference cpu|xla|FILE
                        run what did not pass on JAX's own CPU, XLA's CPU plugin or another plugin, too; may be repeated
  --expected FILE       a list of cases that are expected to fail (default for the CPU plugin: that of the JAX version in
                        xtask/jax_tests/expected, if there is one)
  --output FILE         the outcomes as JSON (default: target/jax-tests/outcomes.json); logs lie beside it
  --baseline FILE       the outcomes of an earlier run: lists regressions and progress

Exit status: with --baseline 1 if a case regressed; without, 1 if a case did not pass and is not expected to fail. It is
also 1 if cases are left to a resumed run.
";

/// The options that this module reads. `run.py` receives all other options unchanged.
#[derive(Debug, Default, PartialEq)]
struct RunOptions {
    checkout: PathBuf,
    library: Option<PathBuf>,
    manifest: Option<PathBuf>,
    layers: Option<String>,
    references: Vec<String>,
    bare: bool,
    has_output: bool,
    has_expected: bool,
    rest: Vec<String>,
}

impl RunOptions {
    fn parse(args: &[&str]) -> Result<Self, Error> {
        let mut given = Self::default();
        let mut args = args.iter();
        while let Some(&arg) = args.next() {
            let (option, attached) = match arg.split_once('=') {
                Some((option, value)) if option.starts_with("--") => (option, Some(value)),
                _ => (arg, None),
            };
            let mut value = || {
                let value = attached.or_else(|| args.next().copied());
                value.ok_or_else(|| format!("{option} needs a value\n\n{USAGE}"))
            };
            match option {
                "--jax-checkout" => given.checkout = value()?.into(),
                "--library" => given.library = Some(value()?.into()),
                "--manifest" => given.manifest = Some(value()?.into()),
                "--layers" => given.layers = Some(value()?.to_owned()),
                "--reference" => given.references.push(value()?.to_owned()),
                "--bare" => given.bare = true,
                _ => {
                    given.has_output |= option == "--output";
                    given.has_expected |= option == "--expected";
                    given.rest.push(arg.to_owned());
                }
            }
        }
        if given.checkout.as_os_str().is_empty() {
            return Err(format!("--jax-checkout is missing\n\n{USAGE}").into());
        }
        if given.bare && given.manifest.is_some() {
            return Err("--manifest is for the wheel's package, which --bare leaves out: drop one of them".into());
        }
        if given.bare && given.layers.is_some() {
            return Err("--layers changes the wheel's package, which --bare leaves out: drop one of them".into());
        }
        Ok(given)
    }
}

pub(crate) fn run(args: &[&str]) -> Result<(), Error> {
    if args.contains(&"--help") {
        print!("{USAGE}");
        return Ok(());
    }
    let given = RunOptions::parse(args)?;
    let version = version_of(&given.checkout)?;
    let jax = JAX.iter().find(|jax| jax.version == version).ok_or_else(|| {
        let known: Vec<&str> = JAX.iter().map(|jax| jax.version).collect();
        format!(
            "--jax-checkout {}: this is JAX {version}; check out one of {}",
            given.checkout.display(),
            known.join(", ")
        )
    })?;
    let python = jax.python_for_its_tests()?;
    let library = match &given.library {
        Some(library) => library.canonicalize().map_err(|error| format!("--library {}: {error}", library.display()))?,
        None => built()?,
    };
    let mut runner = Command::new(&python);
    runner.arg(sh::root().join("xtask/jax_tests/run.py"));
    runner.arg("--jax-checkout").arg(given.checkout.canonicalize()?).arg("--library").arg(&library);
    if !given.bare {
        let has_layers = given.layers.is_some();
        let package = jax::package_in("jax-tests/package", &library, given.manifest.as_deref(), has_layers)?;
        if let Some(names) = &given.layers {
            layers::select(&package, names)?;
        }
        runner.arg("--package").arg(package);
    }
    for reference in &given.references {
        if reference == "xla" {
            let newest = PLUGINS.last().ok_or("there is no XLA CPU plugin to download")?.path()?;
            runner.arg("--reference").arg(&newest).arg("--reference-with-device-count").arg(&newest);
        } else {
            runner.args(["--reference", reference]);
        }
    }
    let expected = sh::root().join(format!("xtask/jax_tests/expected/{version}.json"));
    if given.library.is_none() && !given.has_expected && expected.is_file() {
        runner.arg("--expected").arg(expected);
    }
    if !given.has_output {
        runner.arg("--output").arg(sh::target().join("jax-tests/outcomes.json"));
    }
    let status = runner.args(&given.rest).status().map_err(|error| format!("{}: {error}", python.display()))?;
    let is_validated = given.layers.is_some_and(|names| names.split(',').any(|name| name == "validate"));
    let reports = if is_validated { layers::summarize()? } else { 0 };
    match (status.success(), reports) {
        (true, 0) => Ok(()),
        (true, _) => Err("the layer `validate` reported calls that break rules; see above".into()),
        (false, _) => Err("cases of JAX's tests did not pass; see above".into()),
    }
}

/// Returns the library of the CPU plugin: the release build if it exists, and the debug build otherwise.
fn built() -> Result<PathBuf, Error> {
    let name = format!("{}pjrt_plugin_cpu{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let candidates = ["release", "debug"].map(|profile| sh::target().join(profile).join(&name));
    candidates.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        "the CPU plugin is not built: run `cargo build --release -p pjrt-cpu-plugin`, or name a plugin with --library"
            .into()
    })
}

/// Returns the version of a checkout of JAX's repository, such as `0.10.2`.
fn version_of(checkout: &Path) -> Result<String, Error> {
    let file = checkout.join("jax/version.py");
    let text =
        std::fs::read_to_string(&file).map_err(|error| format!("--jax-checkout: {}: {error}", file.display()))?;
    let line = text.lines().find_map(|line| line.strip_prefix("_version = "));
    let version = line.map(|version| version.trim().trim_matches(['"', '\'']).to_owned());
    version.ok_or_else(|| format!("--jax-checkout: {}: it has no line `_version = \"...\"`", file.display()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_for_the_runner_are_passed_on() {
        let given = [
            "--jax-checkout=jax",
            "array_test",
            "--bare",
            "--filter",
            "^A",
            "--output=x.json",
            "--reference",
            "xla",
            "--reference=cpu",
        ];
        let given = RunOptions::parse(&given).unwrap();
        assert_eq!(given.rest, ["array_test", "--filter", "^A", "--output=x.json"]);
        assert!(given.bare && given.has_output && given.checkout == Path::new("jax"));
        assert_eq!(given.references, ["xla", "cpu"]);
        assert!(
            !given.has_expected && RunOptions::parse(&["--jax-checkout=jax", "--expected", "x"]).unwrap().has_expected
        );
    }

    #[test]
    fn faulty_arguments_are_refused() {
        let refused = |args: &[&str]| RunOptions::parse(args).unwrap_err().to_string();
        assert!(refused(&["array_test"]).starts_with("--jax-checkout is missing"));
        assert!(refused(&["--jax-checkout"]).starts_with("--jax-checkout needs a value"));
        assert!(refused(&["--jax-checkout", "x", "--bare", "--manifest", "y"]).contains("drop one of them"));
        assert!(refused(&["--jax-checkout", "x", "--bare", "--layers", "y"]).contains("drop one of them"));
    }

    #[test]
    fn runner_passes_its_tests() {
        let mut tests = Command::new("python3");
        tests.arg("test_run.py").current_dir(sh::root().join("xtask/jax_tests")).env("PYTHONDONTWRITEBYTECODE", "1");
        match tests.output() {
            Err(error) => println!("SKIPPED the runner of JAX's tests: python3: {error}"),
            Ok(done) => assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr)),
        }
    }
}
