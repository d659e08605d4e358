//! Paths that only root controls.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{lchown, symlink};
use std::path::Path;

use expect_test::expect;
use private_files::{PathError, trusted};

use super::{OTHER, TestFolder, give_away, is_root, set_mode};

/// Returns the folder of a test whose ancestors only root controls, or reports that the test is skipped.
fn folder_of_root(test: &str) -> Option<TestFolder> {
    let folder = TestFolder::new(test);
    match trusted(&folder.0) {
        Ok(path) => {
            assert_eq!(path, folder.0);
            Some(folder)
        }
        Err(error) => {
            assert!(!is_root(), "{error}");
            println!("SKIPPED trusted::{test}: only root has folders of root");
            None
        }
    }
}

#[test]
fn missing_path() {
    let error = trusted(Path::new("/etc/private-files-missing/file")).unwrap_err();
    assert!(error.is_not_found() && error.path() == "/etc/private-files-missing", "{error}");
    let error = trusted(Path::new("/etc/passwd/file")).unwrap_err();
    assert!(matches!(error, PathError::Io { error, .. } if error.kind() == ErrorKind::NotADirectory));
}

/// Other users may create files in a folder with the sticky bit, but cannot replace those of root.
#[test]
fn folder_with_sticky_bit() {
    let Some(folder) = folder_of_root("sticky") else { return };
    let shared = folder.folder("shared", 0o1777);
    fs::write(shared.join("file"), "").unwrap();
    assert_eq!(trusted(&shared.join("file")).unwrap(), shared.join("file"));
    assert!(matches!(trusted(&shared), Err(PathError::Writable { path, .. }) if path == shared));
    assert!(matches!(trusted(&folder.0.join("shared/../shared/.")), Err(PathError::Writable { .. })));
}

#[test]
fn returns_path_without_links() {
    let Some(folder) = folder_of_root("resolved") else { return };
    let inner = folder.folder("inner", 0o755);
    fs::write(inner.join("file"), "").unwrap();
    symlink("../resolved/../inner", inner.join("loop")).unwrap();
    symlink(&inner, folder.0.join("absolute")).unwrap();
    symlink("inner/./file", folder.0.join("relative")).unwrap();
    for path in ["inner/file", "absolute/file", "relative", "inner/../absolute/file"] {
        assert_eq!(trusted(&folder.0.join(path)).unwrap(), inner.join("file"), "{path}");
    }
    assert_eq!(trusted(&folder.0.join("absolute/..")).unwrap(), folder.0);
    assert!(trusted(&inner.join("loop")).unwrap_err().is_not_found());
    symlink("endless", folder.0.join("endless")).unwrap();
    assert!(matches!(trusted(&folder.0.join("endless")), Err(PathError::Io { .. })));
}

#[test]
fn file_of_other_user() {
    let Some(folder) = folder_of_root("file") else { return };
    let file = folder.0.join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(trusted(&file).unwrap(), file);
    set_mode(&file, 0o664);
    assert!(matches!(trusted(&file), Err(PathError::Writable { path, mode: 0o664 }) if path == file));
    set_mode(&file, 0o600);
    assert!(give_away(&file, "trusted::file_of_other_user"));
    assert!(matches!(trusted(&file), Err(PathError::Owner { path, owner: OTHER, .. }) if path == file));
}

#[test]
fn folder_of_other_user() {
    let Some(folder) = folder_of_root("ancestor") else { return };
    let inner = folder.folder("inner", 0o755);
    let file = inner.join("file");
    fs::write(&file, "").unwrap();
    set_mode(&inner, 0o775);
    assert!(matches!(trusted(&file), Err(PathError::Writable { path, mode: 0o775 }) if path == inner));
    // In a folder with the sticky bit, other users cannot replace root's file.
    set_mode(&inner, 0o1777);
    assert_eq!(trusted(&file).unwrap(), file);
    assert!(give_away(&inner, "trusted::folder_of_other_user"));
    let error = trusted(&file).unwrap_err();
    assert!(matches!(&error, PathError::Owner { path, owner: OTHER, .. } if *path == inner));
    let text = error.to_string().replace(&*folder.0.to_string_lossy(), "FOLDER");
    expect!["FOLDER/inner belongs to user 65534, who could replace it; use a path on which everything belongs to root"]
        .assert_eq(&text);
}

/// A link of another user leads to a file of root, until the user replaces the link.
#[test]
fn link_of_other_user() {
    let Some(folder) = folder_of_root("link") else { return };
    let shared = folder.folder("shared", 0o1777);
    let file = folder.0.join("file");
    fs::write(&file, "").unwrap();
    let link = shared.join("link");
    symlink(&file, &link).unwrap();
    assert_eq!(trusted(&link).unwrap(), file);
    lchown(&link, Some(OTHER), Some(OTHER)).unwrap();
    assert!(matches!(trusted(&link), Err(PathError::Owner { path, .. }) if path == link));
}
