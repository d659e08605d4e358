//! Tasks of this repository, run as `cargo xtask TASK`.
#![forbid(unsafe_code)]

mod asan;
mod burn;
mod c;
mod c_library;
mod check;
mod codegen;
mod coverage;
mod cross;
mod dist;
mod exports;
mod fuzz;
mod header;
mod jax;
mod jax_extension;
mod jax_tests;
mod layers;
mod layouts;
mod mpi;
mod mutants;
mod package;
mod performance;
mod pictures;
mod plugin_header;
mod public_api;
mod python;
mod report;
mod sh;
mod test;
mod tidy;
mod tools;
mod torch_tpu;
mod tsan;
mod vendor;
mod workspace;

use std::process::ExitCode;

/// An error of a task, with a message for the user.
type Error = Box<dyn std::error::Error>;

const USAGE: &str = "usage: cargo xtask TASK

  check [CRATE ...]   check the format of crates, run tidy, Clippy and their tests; without names, of the crates that
                      differ from the branch main and those that depend on them
  codegen [--check]   regenerate crates/pjrt-sys/src/{bindings,slots}.rs from the PJRT headers;
                      --check regenerates into memory and fails where the committed files differ
  header [--check]    generate the C headers from the Rust code that implements them, and that of the CPU plugin from its
                      library; --check as above
  coverage [--check]  write docs/coverage.md: the functions and fields of the C API that each side uses; --check compares
                      instead
  cross [--skip-missing] [--programs] PLATFORM ...
                      build and test both sides and the command for other platforms, in an emulator: aarch64, with the
                      kernels of the CPU device, and windows; --skip-missing counts a platform whose tools are missing as
                      skipped; --programs runs only the command, with the CPU device and its plugin
  asan                run tests of both sides under the address and leak sanitizers (requires a nightly compiler)
  tsan                run tests with several threads under the thread sanitizer (requires Debian on x86-64)
  exports             build the shared libraries and check their exports, dependencies and constructors
  book                run the conformance suite on the embedded CPU device, and a program with the layer `trace`; build
                      the book with the report and pictures of both into target/book
  burn [--suite BURN_CHECKOUT [--plugin PATH]]
                      build and test the Burn backend in examples/burn-pjrt on the embedded device and XLA's plugin;
                      --suite runs Burn's own backend tests from a checkout of Burn
  deny [CHECK ...]    check licences, sources and bans of dependencies with cargo-deny, or the checks named
  fuzz [--seconds N | --runs N] [TARGET ...]
                      run the fuzz targets for N seconds each (15), under libFuzzer on the stable toolchain
  c-tests             build libdevice_plugin, and run the tests and examples in C, C++ and other languages
  c-packages [NAME ...]
                      test the packages of libdevice_plugin: tarball, glibc, conan, corrosion, vcpkg and cargo-c, or those
                      named; they build the library several times
  c-library [--prefix DIR] [--release [--glibc VERSION]] [--cpu] [--tarball]
                      build libdevice_plugin and install it with headers, pkg-config and CMake files; --cpu also installs
                      the embedded CPU device, --glibc builds for older systems (needs cargo-zigbuild and zig), and
                      --tarball packs the folder
  dist [PLATFORM ...] build the files of a release for linux-x86_64, linux-aarch64 and windows-x86_64, or those named,
                      into target/published, and test those for x86-64 Linux (needs rustup, downloads JAX)
  layers              run the conformance suite with layers in front of the embedded CPU device and XLA's CPU plugins
  layouts [BUILDS]    measure the null device against C in 15 or BUILDS builds with different code layouts, and print
                      the range of the ratios (requires the linker LLD)
  mpi                 build and test the transport over MPI (needs openmpi-bin, libopenmpi-dev and libclang-dev)
  mutants [OPTION ...] [NAME ...]
                      run the conformance suite against deliberately broken plugins, and print the percentage that it
                      finds; fails below 95 %. --list lists the plugins
  performance [TABLE ...]
                      run benchmarks, and write the tables that they print to docs/performance.md, on an idle machine;
                      most tables need Python and a package registry, and `collectives` needs Open MPI and libclang
  pjrt-headers        fetch the PJRT headers and print their folder
  public-api [--check]
                      write the public API of each library to docs/public-api; --check compares instead
  plugins [--without-hardware]
                      fetch the real XLA CPU plugins, or libtpu and the plugins for CUDA and Tenstorrent, and print
                      their paths
  test [--all | --thorough]
                      run the tests that need only Rust and a C compiler; --all also runs the tests with real plugins,
                      JAX in its oldest and newest version and in 0.10.2, C++ and fuzz targets; --thorough adds the other
                      versions of JAX, the sanitizers, and libtpu and the plugins for CUDA and Tenstorrent without their
                      hardware
  jax-tests --jax-checkout PATH [OPTION]... [FILE]...
                      run JAX's own test files on a plugin and compare with an earlier run or a reference; see --help
  torch-tpu [--plugin LIBRARY] [--train | OP ...]
                      run PyTorch's database of operations, or the named ones, on the embedded CPU device through
                      torch_tpu and compare with PyTorch's CPU; --plugin takes another plugin, and --train trains two
                      models (downloads 3 GB)
  vendor              let `pjrt new` write a plugin, run its CI, and check the size of its library
  size                build the library of a plugin from `pjrt new` from scratch, and print the times and its size
  tidy                check dependencies between crates and files, unsafe code, lengths of files and lines, and links;
                      --update writes the diagram of the crates to ARCHITECTURE.md
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["check", crates @ ..] => check::run(crates),
        ["codegen"] => codegen::run(false),
        ["codegen", "--check"] => codegen::run(true),
        ["coverage"] => coverage::run(false),
        ["coverage", "--check"] => coverage::run(true),
        ["cross", platforms @ ..] => cross::arguments(platforms),
        ["header"] => header::run(false).and_then(|()| plugin_header::run(false)),
        ["header", "--check"] => header::run(true).and_then(|()| plugin_header::run(true)),
        ["c-library", args @ ..] => c_library::run(args),
        ["tsan"] => tsan::ThreadSanitizer::prepare().and_then(|sanitizer| sanitizer.test(|_| true)),
        ["asan"] => asan::Nightly::find().and_then(|nightly| nightly.test(|_| true)),
        ["exports"] => exports::elf()
            .and_then(|libraries| exports::run(libraries, workspace::Workspace::build()?))
            .map(|checked| println!("{checked} libraries")),
        ["fuzz", args @ ..] => fuzz::arguments(args),
        ["book"] => tools::book(),
        ["burn", args @ ..] => burn::arguments(args),
        ["dist", platforms @ ..] => dist::run(platforms),
        ["deny", checks @ ..] => tools::deny(checks),
        ["c-tests"] => c_tests(),
        ["c-packages", names @ ..] => c::packages::arguments(names),
        ["layers"] => layers::run(),
        ["layouts", args @ ..] => layouts::run(args),
        ["mpi"] => mpi::run(),
        ["mutants", args @ ..] => mutants::run(args),
        ["pjrt-headers"] => codegen::headers().map(|folder| println!("{}", folder.display())),
        ["plugins"] => plugins(package::PLUGINS),
        ["plugins", "--without-hardware"] => plugins(package::PLUGINS_WITHOUT_HARDWARE),
        ["performance", names @ ..] => performance::arguments(names),
        ["public-api"] => public_api::run(false),
        ["public-api", "--check"] => public_api::run(true),
        ["test"] => test::run(report::Scope::Rust),
        ["test", "--all"] => test::run(report::Scope::All),
        ["test", "--thorough"] => test::run(report::Scope::Thorough),
        ["jax-tests", args @ ..] => jax_tests::run(args),
        ["torch-tpu", args @ ..] => torch_tpu::run(args),
        ["vendor"] => vendor(),
        ["size"] => vendor::size(),
        ["tidy", args @ ..] => tidy::arguments(args),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

fn c_tests() -> Result<(), Error> {
    let plugins: Vec<_> = package::PLUGINS.iter().filter_map(|plugin| plugin.path().ok()).collect();
    let mut report = report::Report::default();
    c::run(&mut report, codegen::headers().ok().as_deref(), &plugins)?;
    report.close()
}

fn vendor() -> Result<(), Error> {
    let main = python::JAX.iter().find(|jax| jax.version == python::MAIN);
    vendor::run(main.and_then(|jax| jax.python().ok()).as_deref(), |_| true)
}

fn plugins(plugins: &[package::Plugin]) -> Result<(), Error> {
    for plugin in plugins {
        println!("{} {}", plugin.api, plugin.path()?.display());
    }
    Ok(())
}
