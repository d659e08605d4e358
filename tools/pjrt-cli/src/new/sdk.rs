//! The location of this SDK's crates, on which a new project depends.

use std::path::{Path, PathBuf};

use semver::VersionReq;

#[derive(clap::Args)]
pub(crate) struct SdkArgs {
    /// A checkout of the SDK.
    #[arg(long, value_name = "DIR", group = "sdk")]
    sdk_path: Option<PathBuf>,
    /// A git repository of the SDK.
    #[arg(long, value_name = "URL", group = "sdk")]
    sdk_git: Option<String>,
    /// The commit or tag of that repository; by default the newest commit of its default branch.
    #[arg(long, value_name = "REV", requires = "sdk_git")]
    sdk_rev: Option<String>,
    /// A version of the SDK's crates in a registry.
    #[arg(long, value_name = "VERSION", group = "sdk")]
    sdk_version: Option<String>,
}

/// The checkout from which this command was built. It may no longer exist. A published command has none.
const BUILT_FROM: Option<&str> = match option_env!("PJRT_RELEASE") {
    Some(_) => None,
    None => Some(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")),
};

/// The location of the SDK's crates.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sdk {
    /// A checkout, and whether it is the default.
    Path(PathBuf, bool),
    /// A git repository, and optionally a revision.
    Git(String, Option<String>),
    /// A version in a package registry.
    Version(String),
}

pub(crate) fn of(args: &SdkArgs) -> Result<Sdk, String> {
    if let Some(path) = &args.sdk_path {
        return checkout(path, false).map_err(|reason| format!("--sdk-path {}: {reason}", path.display()));
    }
    if let Some(url) = &args.sdk_git {
        check_url(url)?;
        if let Some(rev) = args.sdk_rev.as_deref().filter(|rev| rev.trim().is_empty()) {
            return Err(format!(
                "--sdk-rev {rev:?} is not a commit or tag; leave the option out for the newest commit"
            ));
        }
        return Ok(Sdk::Git(url.clone(), args.sdk_rev.clone()));
    }
    if let Some(version) = &args.sdk_version {
        check_version(version)?;
        return Ok(Sdk::Version(version.clone()));
    }
    by_default(BUILT_FROM.map(Path::new))
}

/// Returns the location of the crates from which this command was built.
fn by_default(built_from: Option<&Path>) -> Result<Sdk, String> {
    // Cargo keeps the sources of fetched packages and repositories in its home folder, and may remove them. A new
    // project must not depend on them.
    let is_below = |path: &Path, folders: &str| path.to_string_lossy().replace('\\', "/").contains(folders);
    let Some(built_from) = built_from.filter(|path| !is_below(path, "/registry/src/")) else {
        return Ok(Sdk::Version(env!("CARGO_PKG_VERSION").to_owned()));
    };
    let found = checkout(built_from, true).ok().filter(|_| !is_below(built_from, "/git/checkouts/"));
    found.ok_or_else(|| {
        "the checkout from which this command was built no longer exists, so the location of the SDK's crates is \
         unknown; give --sdk-path DIR for a checkout, --sdk-git URL for a repository, --sdk-version VERSION for a \
         registry"
            .to_owned()
    })
}

/// Checks that a folder is a checkout with the SDK's crates. `chosen` is `true` if the folder is the default rather
/// than one that the user passed.
fn checkout(path: &Path, chosen: bool) -> Result<Sdk, String> {
    let path = path.canonicalize().map_err(|error| error.to_string())?;
    if path.to_str().is_none() {
        return Err("Cargo cannot name a path that is not UTF-8; move the checkout".to_owned());
    }
    for (krate, package) in [("device-plugin", "device-plugin"), ("pjrt", "pjrt-rs")] {
        let manifest = path.join("crates").join(krate).join("Cargo.toml");
        let text = std::fs::read_to_string(&manifest).unwrap_or_default();
        if !text.lines().any(|line| line.trim() == format!("name = \"{package}\"")) {
            return Err(format!("not a checkout of this SDK, because it has no crate crates/{krate}"));
        }
    }
    Ok(Sdk::Path(path, chosen))
}

/// Rejects a string that cannot be the URL of a repository. Cargo reports all other faults.
fn check_url(url: &str) -> Result<(), String> {
    let schemes = ["https://", "http://", "ssh://", "git://", "file://"];
    let fault = |what: &str| Err(format!("--sdk-git {url:?}: {what}"));
    if url.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return fault("a URL cannot contain spaces");
    }
    if !schemes.iter().any(|scheme| url.len() > scheme.len() && url.starts_with(scheme)) {
        return fault("Cargo takes URLs such as https://HOST/REPOSITORY, ssh://git@HOST/REPOSITORY or file:///FOLDER");
    }
    Ok(())
}

/// Rejects a string that Cargo does not accept as the version of a dependency. Also rejects `*`, which Cargo accepts
/// but a registry does not.
fn check_version(version: &str) -> Result<(), String> {
    let example = env!("CARGO_PKG_VERSION");
    match VersionReq::parse(version) {
        Ok(requirement) if requirement == VersionReq::STAR => {
            Err(format!("--sdk-version {version:?}: not a version such as \"{example}\""))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(format!("--sdk-version {version:?}: not a version such as \"{example}\": {error}")),
    }
}

impl Sdk {
    /// Returns the TOML keys that locate the crate in a folder of the SDK, such as `path = ...`.
    pub(crate) fn source(&self, folder: &str) -> Result<String, String> {
        // TOML's basic strings have the same syntax as JSON's strings.
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        Ok(match self {
            Self::Path(path, _) => {
                let path = path.join(folder);
                let path = path.to_str().ok_or_else(|| format!("{}: not UTF-8", path.display()))?;
                format!("path = {}", quoted(path))
            }
            Self::Git(url, None) => format!("git = {}", quoted(url)),
            Self::Git(url, Some(rev)) => format!("git = {}, rev = {}", quoted(url), quoted(rev)),
            Self::Version(version) => format!("version = {}", quoted(version)),
        })
    }

    /// Describes the location for display.
    pub(crate) fn description(&self) -> String {
        match self {
            Self::Path(path, true) => {
                format!("{}, the checkout this command was built from (--sdk-git URL for a repository)", path.display())
            }
            Self::Path(path, false) => path.display().to_string(),
            Self::Git(url, rev) => {
                let rev = rev.as_deref().unwrap_or("the newest commit");
                format!("{rev} of {url}, which `cargo build` fetches")
            }
            Self::Version(version) => format!("version {version} of Cargo's registry, which `cargo build` fetches"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_written_as_toml() {
        let source = |sdk: &Sdk| sdk.source("crates/pjrt").unwrap();
        let path = Sdk::Path(PathBuf::from("/a \"b\"/c"), false);
        let separator = if cfg!(windows) { r"\\" } else { "/" };
        assert_eq!(source(&path), format!(r#"path = "/a \"b\"/c{separator}crates/pjrt""#));
        assert_eq!(source(&Sdk::Git("https://h/r".into(), None)), r#"git = "https://h/r""#);
        assert_eq!(source(&Sdk::Git("https://h/r".into(), Some("v1".into()))), r#"git = "https://h/r", rev = "v1""#);
        assert_eq!(source(&Sdk::Version("0.1".into())), r#"version = "0.1""#);
    }

    #[test]
    fn default_is_where_the_command_was_built() {
        let version = Ok(Sdk::Version(env!("CARGO_PKG_VERSION").to_owned()));
        assert_eq!(by_default(None), version);
        assert_eq!(
            by_default(Some(Path::new("/home/a/.cargo/registry/src/index.crates.io-1/pjrt-cli-0.1.0/../.."))),
            version
        );
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
        assert_eq!(by_default(Some(root)), Ok(Sdk::Path(root.canonicalize().unwrap(), true)));
        for gone in ["/home/a/.cargo/git/checkouts/sdk-1/2/tools/pjrt-cli/../..", "/nowhere"] {
            assert!(by_default(Some(Path::new(gone))).unwrap_err().contains("--sdk-version"), "{gone}");
        }
    }

    #[test]
    fn sources_that_are_none_are_refused() {
        for version in ["1", "0.1.0", "^0.1", ">=0.1, <0.3", "1.0.0-rc.1"] {
            assert_eq!(check_version(version), Ok(()), "{version}");
        }
        for version in ["", "newest", "https://h/r", "1\"", "../x", "*", "1.x.y", "1.0.0.0"] {
            assert!(check_version(version).unwrap_err().contains("not a version"), "{version}");
        }
        for url in ["https://h/r", "ssh://git@h/r", "file:///r"] {
            assert_eq!(check_url(url), Ok(()), "{url}");
        }
        for url in ["", "h/r", "https://", "git@h:r", "https://h/a b"] {
            assert!(check_url(url).is_err(), "{url}");
        }
        assert!(checkout(Path::new("/"), false).unwrap_err().contains("no crate crates/device-plugin"));
    }
}
