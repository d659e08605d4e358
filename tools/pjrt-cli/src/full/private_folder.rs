//! Folders for temporary files.

use tempfile::TempDir;

/// Creates a folder for temporary files. It has a random name after `prefix`, and only this user may use it. It is
/// removed when the value is dropped.
pub(crate) fn private_folder(prefix: &str) -> Result<TempDir, String> {
    let parent = std::env::temp_dir();
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix);
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    let folder = builder
        .tempdir_in(&parent)
        .map_err(|error| format!("cannot create a folder in {}: {error}", parent.display()))?;
    // In a temporary folder that other users control, they could replace the new folder.
    private_files::Folder::private(folder.path())
        .map_err(|error| format!("{error}. TMPDIR can name another folder for temporary files"))?;
    Ok(folder)
}
