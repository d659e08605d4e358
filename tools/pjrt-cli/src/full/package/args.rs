//! The arguments of `pjrt package`, and those for builds, which `pjrt header` also has.

use std::path::PathBuf;

/// How to build the library of a plugin's Rust crate.
#[derive(Default, clap::Args)]
pub(crate) struct Build {
    /// The folder of the plugin's Rust crate, which is built with Cargo.
    #[arg(long = "crate", value_name = "DIR", id = "crate_dir")]
    pub(crate) crate_dir: Option<PathBuf>,
    /// Features of the crate, separated by commas.
    #[arg(long, value_name = "LIST", requires = "crate_dir")]
    pub(super) features: Option<String>,
    /// Turn off the crate's default features.
    #[arg(long, requires = "crate_dir")]
    pub(super) no_default_features: bool,
    /// The profile of Cargo; by default `release`.
    #[arg(long, value_name = "NAME", requires = "crate_dir")]
    pub(super) profile: Option<String>,
}

#[derive(clap::Args)]
#[command(after_help = "Give one of --library and --crate, or a --manifest that names the library.

Examples:
  pjrt package --crate . -o wheels
  pjrt package --crate . --features profiler --profile dist
  pjrt package --library libacme.so --manifest acme.json --version 1.2.0
  pjrt package --library libacme.so --name acme --version 1.2.0 --compat
  pjrt package --manifest acme.json    all libraries that the manifest lists for this system")]
pub(crate) struct Args {
    /// The plugin's library.
    #[arg(long, value_name = "FILE", conflicts_with = "crate_dir")]
    pub(super) library: Option<PathBuf>,
    #[command(flatten)]
    pub(super) build: Build,
    /// The plugin's manifest. By default `pjrt_plugin.json` beside the library or in the crate's folder, or else the
    /// description within the library, which is loaded to read it.
    #[arg(long, value_name = "FILE")]
    pub(super) manifest: Option<PathBuf>,
    /// The plugin's name, in place of the manifest's; enough for a plugin without a manifest.
    #[arg(long)]
    pub(super) name: Option<String>,
    /// The wheel's version, in place of the manifest's or the crate's.
    #[arg(long)]
    pub(super) version: Option<String>,
    /// The folder to write the wheel to.
    #[arg(long, short, value_name = "DIR", default_value = ".")]
    pub(super) output: PathBuf,
    /// The platform tag of the wheel, in place of the one derived from the library.
    #[arg(long, value_name = "TAG")]
    pub(super) platform_tag: Option<String>,
    /// A file the library needs in its own folder; may be given several times.
    #[arg(long, value_name = "FILE")]
    pub(super) include: Vec<PathBuf>,
    /// A Python module for JAX with lowerings that a manifest cannot name. Its `register(platform)` is called after the
    /// plugin is registered.
    #[arg(long, value_name = "FILE", conflicts_with = "no_jax")]
    pub(super) jax_hook: Option<PathBuf>,
    /// Leave out what JAX needs to find the plugin.
    #[arg(long)]
    pub(super) no_jax: bool,
    /// Leave out what PyTorch needs to find the plugin.
    #[arg(long)]
    pub(super) no_torch: bool,
    /// Put the layer `compat` in front of the library, so that frameworks of other versions of the PJRT API can use it.
    /// The wheel then contains the library with the layers, too.
    #[arg(long)]
    pub(super) compat: bool,
    /// The library with the layers, if it is not beside this command. Also read from PJRT_LAYERS_LIBRARY.
    #[arg(long, value_name = "FILE", requires = "compat")]
    pub(super) layers_library: Option<PathBuf>,
    /// Replace a wheel of the same name.
    #[arg(long)]
    pub(super) force: bool,
}
