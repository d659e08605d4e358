//! Tests the XLA CPU plugins in `PJRT_TEST_PLUGINS`, in the folders of their Python packages.

use std::path::{Path, PathBuf};

use plugin_registry::discovery::{Discovery, Place, inspect};

/// Returns the nearest folder above a library that also contains a `*.dist-info`.
fn site(library: &Path) -> Option<PathBuf> {
    let has_metadata = |folder: &Path| {
        std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .any(|entry| entry.path().extension().is_some_and(|extension| extension == "dist-info"))
    };
    library.ancestors().skip(1).find(|folder| has_metadata(folder)).map(Path::to_owned)
}

#[test]
fn real_plugins() {
    let list = std::env::var_os("PJRT_TEST_PLUGINS").unwrap_or_default();
    let libraries: Vec<PathBuf> = std::env::split_paths(&list).filter(|path| path.is_file()).collect();
    if libraries.is_empty() {
        println!("SKIPPED real_plugins: PJRT_TEST_PLUGINS names no plugin");
        return;
    }
    for library in &libraries {
        let facts = inspect(library).unwrap_or_else(|refusal| panic!("{refusal}"));
        assert!(facts.exports.get_pjrt_api, "{}", library.display());
        assert!(!facts.needed.is_empty());
    }
    let sites: Vec<PathBuf> = libraries.iter().filter_map(|library| site(library)).collect();
    if sites.is_empty() {
        println!("SKIPPED real_plugins in packages: none of them lies beside a *.dist-info folder");
        return;
    }
    // The plugins depend on libraries of the system, so search the root of this machine.
    let discovery = Discovery::isolated("/").variable("PYTHONPATH", std::env::join_paths(&sites).unwrap());
    let found = discovery.discover();
    for library in libraries.iter().filter(|library| site(library).is_some()) {
        let candidate = found
            .candidates
            .iter()
            .find(|candidate| candidate.location.path().is_some_and(|path| same(path, library)))
            .unwrap_or_else(|| panic!("{} was not found in {:#?}", library.display(), found.candidates));
        assert!(candidate.is_usable(), "{candidate}");
        match &candidate.provenance.place {
            Place::Python { distribution: Some(_), version: Some(_), directory, .. } => {
                assert!(library.starts_with(directory));
            }
            other => panic!("{other}"),
        }
        println!("{candidate}");
    }
}

fn same(a: &Path, b: &Path) -> bool {
    std::fs::canonicalize(a).ok() == std::fs::canonicalize(b).ok()
}
