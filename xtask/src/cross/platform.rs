//! The platforms, and the emulators that run their programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::programs::{self, Program};
use super::toolchain::{StandardLibrary, Toolchain};
use super::wine::Wine;
use crate::{Error, sh};

/// A platform for which this task builds programs.
pub(super) struct Platform {
    /// Name of the platform in the arguments of `cargo xtask cross`.
    pub(super) name: &'static str,
    triple: &'static str,
    linker: &'static str,
    /// Flags of the compiler, in addition to the usual ones.
    flags: &'static str,
    pub(super) standard_library: StandardLibrary,
    /// Command that runs a program of the platform.
    emulator: &'static [&'static str],
    /// The files that the linker and the emulator need.
    needs: &'static [Need],
    /// Whether the command `pjrt` has all subcommands. Its own tests need them, so one selection of packages contains
    /// the command and the tests, and no dependency is built twice.
    pub(super) has_full_command: bool,
    /// Whether to test [`KERNELS`] in addition to [`PACKAGES`].
    has_kernel_tests: bool,
    /// File name of the command `pjrt`.
    pub(super) command: &'static str,
    /// File name of the CPU plugin.
    pub(super) plugin: &'static str,
    pub(super) programs: &'static [Program],
    /// Tests that fail or take too long in the emulator. Each element contains a substring of the tests' paths, and the
    /// reason.
    pub(super) skipped: &'static [(&'static str, &'static str)],
}

/// A file, and the Debian package that contains it.
struct Need {
    file: &'static str,
    package: &'static str,
}

const TIMEOUT: &[&str] = &["timeout", "600"];

const EXHAUSTIVE: &str = "it tries millions of numbers, which takes minutes in an emulator";
const LARGE_PRODUCTS: &str = "it computes large matrix products, which takes minutes in an emulator";
const NO_SYSTEM_LIBRARIES: &str =
    "it looks for the C library in the system's folders, where that of the emulator is not";
const NO_CHILDREN: &str = "it starts itself again, and an emulated process cannot start another one";

/// The caller's and the vendor's packages. The tests within their libraries run on all platforms.
const PACKAGES: &[&str] = &[
    "pjrt-types",
    "stablehlo-rs",
    "plugin-manifest",
    "device-plugin",
    "device-plugin-testing",
    "pjrt-rs",
    "plugin-registry",
];

/// The package with the kernels of the CPU device.
const KERNELS: &str = "stablehlo-cpu";
/// The integration test of [`KERNELS`] that runs.
const KERNEL_TEST: &str = "expected";

/// The integration tests of [`PACKAGES`] that run, in addition to the tests within each library.
const TESTS: &[&str] = &["formats", "protocol", "caller", "discovery", "registry", "process_environment"];

/// The plugin libraries that the tests load. A test cannot build them in an emulator.
pub(super) const LIBRARIES: &[&str] =
    &["closing_plugin", "dlpack_exchange", "echo_plugin", "rendezvous_plugin", "witness_plugin"];

const AARCH64: Platform = Platform {
    name: "aarch64",
    triple: "aarch64-unknown-linux-gnu",
    linker: "/usr/bin/aarch64-linux-gnu-gcc",
    // Programs name the dynamic loader and its libraries themselves, because the option `-L` of the emulator, which
    // would name them, also replaces `/` in the programs' own calls.
    flags: "-Clink-arg=-Wl,--dynamic-linker=/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1 \
            -Clink-arg=-Wl,--disable-new-dtags,-rpath,/usr/aarch64-linux-gnu/lib",
    standard_library: StandardLibrary::Packaged,
    // Set `CC` for tests that compile C code.
    emulator: &["/usr/bin/qemu-aarch64", "-E", "CC=/usr/bin/aarch64-linux-gnu-gcc"],
    needs: &[
        Need { file: "/usr/bin/aarch64-linux-gnu-gcc", package: "gcc-aarch64-linux-gnu" },
        Need { file: "/usr/aarch64-linux-gnu/lib/crt1.o", package: "libc6-dev-arm64-cross" },
        Need { file: "/usr/bin/qemu-aarch64", package: "qemu-user" },
    ],
    has_full_command: false,
    has_kernel_tests: true,
    command: "pjrt",
    plugin: "libpjrt_plugin_cpu.so",
    programs: programs::AARCH64,
    skipped: &[
        ("abi::objects::client::at_exit::tests", NO_CHILDREN),
        ("buffer_states::real_plugins", NO_CHILDREN),
        ("deferred_launch::end_of_the_process", NO_CHILDREN),
        ("discovered::environment_decides_if_policy_allows", NO_SYSTEM_LIBRARIES),
        ("discovered::libraries_without_manifest_are_named_after_file", NO_SYSTEM_LIBRARIES),
        ("discovered::refresh_keeps_unchanged_handles", NO_SYSTEM_LIBRARIES),
        ("discovered::selects_and_loads_discovered_plugins", NO_SYSTEM_LIBRARIES),
        ("discovered::users_change_capabilities", NO_SYSTEM_LIBRARIES),
        ("executable_cache::processes_share_a_directory", NO_CHILDREN),
        ("executable_cache_attacks::elevated_privileges", NO_CHILDREN),
        ("executable_cache_attacks::key_in_home_folder", NO_CHILDREN),
        ("executable_cache_attacks::key_of_other_user", NO_CHILDREN),
        ("leases::exclusive_lease_spans_processes", NO_CHILDREN),
        ("lifetime::c_function_shuts_library_down_once", NO_CHILDREN),
        ("shared_objects::threads_share_objects_of_real_plugins", NO_CHILDREN),
        ("conversions::every_pair_of_types", EXHAUSTIVE),
        ("history::", "it makes a call for each older version of each struct, which takes minutes in an emulator"),
        ("gemm::tests::exact_for_all_layouts_sizes_and_types", LARGE_PRODUCTS),
        ("gemm::tests::same_bits_of_packed_products_on_any_thread_count", LARGE_PRODUCTS),
        ("products::convolutions_match_definition", LARGE_PRODUCTS),
        ("products::wide_convolutions_match_definition", LARGE_PRODUCTS),
        ("products::dilated_convolutions_match_definition", LARGE_PRODUCTS),
        ("print::float::tests::every_pattern_round_trips", EXHAUSTIVE),
        ("print::float::tests::text_round_trip", EXHAUSTIVE),
    ],
};

const WINDOWS: Platform = Platform {
    name: "windows",
    triple: "x86_64-pc-windows-gnu",
    linker: "/usr/bin/x86_64-w64-mingw32-gcc",
    flags: "",
    standard_library: StandardLibrary::Built,
    emulator: &["/usr/bin/wine"],
    needs: &[
        Need { file: "/usr/bin/x86_64-w64-mingw32-gcc", package: "gcc-mingw-w64-x86-64" },
        Need { file: "/usr/bin/wine", package: "wine" },
        Need { file: "/usr/lib/wine/wine64", package: "wine64" },
    ],
    // `pjrt doctor` is one of the programs.
    has_full_command: true,
    // Without vector instructions, the kernels call the C library's `fmaf`, and MinGW's `fmaf` does not round
    // correctly.
    has_kernel_tests: false,
    command: "pjrt.exe",
    plugin: "pjrt_plugin_cpu.dll",
    programs: programs::WINDOWS,
    skipped: &[],
};

pub(super) const PLATFORMS: &[Platform] = &[AARCH64, WINDOWS];

const XLA_ONLY: &str = "it expects XLA's behavior, but the plugin of this run is the CPU plugin";

/// Tests that cannot pass with the CPU plugin in place of XLA's plugins. Each element contains a substring of the
/// tests' paths, and the reason.
pub(super) const FOR_XLA: &[(&str, &str)] = &[
    ("tracking::on_real", XLA_ONLY),
    ("real_execute::metadata_is_an_answer_or_unsupported", XLA_ONLY),
    ("real_execute::serialized_executables_outlive_client", XLA_ONLY),
    ("real_execute::wrong_arguments_never_reach_the_plugin", XLA_ONLY),
];

impl Platform {
    pub(super) fn named(name: &str) -> Result<&'static Self, Error> {
        let platform = PLATFORMS.iter().find(|platform| platform.name == name);
        let names = || PLATFORMS.iter().map(|platform| platform.name).collect::<Vec<_>>().join(", ");
        Ok(platform.ok_or_else(|| format!("unknown platform {name:?}; the platforms are {}", names()))?)
    }

    /// Checks that the linker and the emulator are installed.
    pub(super) fn check_installed(&self) -> Result<(), Error> {
        let missing = self.needs.iter().filter(|need| !Path::new(need.file).exists());
        let missing: Vec<&str> = missing.map(|need| need.package).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let packages = missing.join(" ");
        Err(format!("packages are missing; `apt-get install --no-install-recommends {packages}` as root").into())
    }

    /// Returns Wine if the programs of this platform run under Wine.
    pub(super) fn wine(&self) -> Result<Option<Wine>, Error> {
        if self.emulator == WINDOWS.emulator { Wine::prepare(&target(), self.linker).map(Some) } else { Ok(None) }
    }

    /// Returns the packages whose libraries are tested.
    pub(super) fn packages(&self) -> impl Iterator<Item = &'static str> {
        PACKAGES.iter().copied().chain(self.has_kernel_tests.then_some(KERNELS))
    }

    /// Returns the integration tests of [`Self::packages`] that run.
    pub(super) fn tests(&self) -> impl Iterator<Item = &'static str> {
        TESTS.iter().copied().chain(self.has_kernel_tests.then_some(KERNEL_TEST))
    }

    /// Returns a cargo command that builds for this platform.
    pub(super) fn cargo(&self, toolchain: &Toolchain, task: &str) -> Command {
        let mut cargo = sh::cargo();
        cargo.args([task, "--target", self.triple]).env("RUSTC", toolchain.rustc());
        cargo.env("CARGO_TARGET_DIR", target()).env("CARGO_INCREMENTAL", "0");
        cargo.env(self.variable("LINKER"), self.linker).env(self.variable("RUSTFLAGS"), self.flags);
        // The stable compiler accepts `build-std` only with this variable. Set it for every platform. Otherwise, cargo
        // would rebuild procedural macros and everything that uses them after each change of platform.
        cargo.env("RUSTC_BOOTSTRAP", "1");
        if self.standard_library == StandardLibrary::Built {
            // Build the crate `test`, too, which cargo adds for tests. Otherwise, programs and tests would not share
            // dependencies.
            cargo.args(["-Z", "build-std=std,panic_unwind,test"]);
        }
        if self.has_kernel_tests {
            // Without optimization, the tests of the kernels take minutes in an emulator.
            cargo.arg("--config").arg(format!("profile.dev.package.{KERNELS}.opt-level=1"));
        }
        cargo.env(self.variable("RUNNER"), self.emulator_words().join(" "));
        cargo
    }

    /// Returns a command that runs a program of this platform.
    pub(super) fn emulate(&self, program: &Path) -> Command {
        let words = self.emulator_words();
        let mut emulator = Command::new(words[0]);
        emulator.args(&words[1..]).arg(program);
        emulator
    }

    fn emulator_words(&self) -> Vec<&'static str> {
        // Limit the time of each program, so that a program that hangs does not block the programs after it.
        [TIMEOUT, self.emulator].concat()
    }

    /// Returns the folder with the programs and libraries that cargo built.
    pub(super) fn built(&self) -> PathBuf {
        target().join(self.triple).join("debug")
    }

    /// Returns the name of a cargo environment variable for this target.
    fn variable(&self, name: &str) -> String {
        format!("CARGO_TARGET_{}_{name}", self.triple.replace('-', "_").to_uppercase())
    }
}

/// Returns cargo's target folder for the builds of `cargo xtask cross`.
fn target() -> PathBuf {
    sh::target().join("cross")
}
