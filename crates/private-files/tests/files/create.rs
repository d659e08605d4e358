//! New files and folders.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::symlink;

use private_files::{create_folder, create_new, create_numbered};

use super::{TestFolder, mode};

#[test]
fn new_file_is_private() {
    let folder = TestFolder::new("new");
    let path = folder.0.join("recording");
    create_new(&path).unwrap().write_all(b"secret").unwrap();
    assert_eq!((mode(&path), fs::read(&path).unwrap()), (0o600, b"secret".to_vec()));
    assert_eq!(create_new(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(fs::read(&path).unwrap(), b"secret");
}

#[test]
fn links_are_not_followed() {
    let folder = TestFolder::new("links");
    let treasure = folder.0.join("treasure");
    fs::write(&treasure, "precious").unwrap();
    for (name, target) in [("link", "treasure"), ("dangling", "absent")] {
        let path = folder.0.join(name);
        symlink(target, &path).unwrap();
        assert_eq!(create_new(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
    }
    assert_eq!(fs::read_to_string(&treasure).unwrap(), "precious");
    assert!(!folder.0.join("absent").exists());
}

#[test]
fn numbered_files_skip_names_in_use() {
    let folder = TestFolder::new("numbered");
    symlink("absent", folder.0.join("tally-7.json")).unwrap();
    fs::write(folder.0.join("tally-7-2.json"), "old").unwrap();
    let (path, mut file) = create_numbered(&folder.0, "tally-7", "json").unwrap();
    file.write_all(b"new").unwrap();
    assert_eq!(path, folder.0.join("tally-7-3.json"));
    assert_eq!((mode(&path), fs::read(&path).unwrap()), (0o600, b"new".to_vec()));
    assert_eq!(fs::read(folder.0.join("tally-7-2.json")).unwrap(), b"old");
    assert!(!folder.0.join("absent").exists());
}

#[test]
fn new_folders_are_private() {
    let folder = TestFolder::new("folders");
    let path = folder.0.join("a/b");
    create_folder(&path).unwrap();
    create_folder(&path).unwrap();
    assert_eq!([mode(&folder.0), mode(&folder.0.join("a")), mode(&path)], [0o755, 0o700, 0o700]);
}
