//! Folders that only this user controls, and their files.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::symlink;
use std::process::Command;

use expect_test::expect;
use private_files::{Folder, PathError, UNFINISHED};

use super::{OTHER, TestFolder, give_away, is_root, mode, set_mode};

#[test]
fn created_for_this_user_only() {
    let folder = TestFolder::new("created");
    let path = folder.0.join("a/b");
    let private = Folder::private(&path).unwrap();
    assert_eq!((private.path(), mode(&folder.0.join("a")), mode(&path)), (&*path, 0o700, 0o700));
    let mut file = private.create_new("file").unwrap();
    file.write_all(b"text").unwrap();
    assert_eq!((mode(&path.join("file")), fs::read(path.join("file")).unwrap()), (0o600, b"text".to_vec()));
    assert_eq!(private.create_new("file").unwrap_err().kind(), ErrorKind::AlreadyExists);
    // The folder may have been opened to readers, but not to writers.
    set_mode(&path, 0o755);
    let mut text = String::new();
    Folder::private(&path).unwrap().read("file").unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "text");
}

#[test]
fn writable_by_others() {
    let folder = TestFolder::new("writable");
    let path = folder.folder("open", 0o777);
    for bits in [0o777, 0o1777, 0o772, 0o702] {
        set_mode(&path, bits);
        let error = Folder::private(&path).unwrap_err();
        assert!(matches!(&error, PathError::NotPrivate { path: found, mode } if *found == path && *mode == bits));
        if bits == 0o777 {
            expect!["other users can write to FOLDER/open (mode 777), so its files may be theirs; use another folder, or delete this one"]
                .assert_eq(&error.to_string().replace(&*folder.0.to_string_lossy(), "FOLDER"));
        }
    }
    set_mode(&path, 0o700);
    set_mode(&folder.0, 0o757);
    let error = Folder::private(&path).unwrap_err();
    assert!(matches!(&error, PathError::Writable { path, mode: 0o757 } if *path == folder.0));
    expect!["other users can write to FOLDER (mode 757); use another path, or remove that right with `chmod go-w`"]
        .assert_eq(&error.to_string().replace(&*folder.0.to_string_lossy(), "FOLDER"));
    set_mode(&folder.0, 0o1777);
    Folder::private(&path).unwrap();
}

/// With the file mode creation mask 002, which is common for users with a group of their own, folders are writable for
/// this group.
#[test]
#[cfg(target_os = "linux")]
fn writable_by_group() {
    let folder = TestFolder::new("group");
    if !is_root() {
        println!("SKIPPED folder::writable_by_group: only root can give files to another group");
        return;
    }
    let path = folder.folder("open", 0o775);
    set_mode(&folder.0, 0o775);
    // Root's group has root's name and no other member.
    Folder::private(&path).unwrap();
    // An access control list shows its rights as those of the group.
    match Command::new("setfacl").args(["-m", "u:65534:rwx"]).arg(&path).status() {
        Ok(status) if status.success() => {
            let error = Folder::private(&path).unwrap_err();
            assert!(matches!(&error, PathError::NotPrivate { path: found, .. } if *found == path), "{error}");
            assert!(Command::new("setfacl").arg("-b").arg(&path).status().unwrap().success());
        }
        _ => println!("SKIPPED folder::writable_by_group (part): setfacl does not run here"),
    }
    std::os::unix::fs::chown(&path, None, Some(OTHER)).unwrap();
    let error = Folder::private(&path).unwrap_err();
    assert!(matches!(&error, PathError::NotPrivate { path: found, mode: 0o775 } if *found == path), "{error}");
    set_mode(&path, 0o755);
    std::os::unix::fs::chown(&folder.0, None, Some(OTHER)).unwrap();
    let error = Folder::private(&path).unwrap_err();
    assert!(matches!(&error, PathError::Writable { path, mode: 0o775 } if *path == folder.0), "{error}");
}

#[test]
fn owned_by_other_user() {
    let folder = TestFolder::new("owned");
    let parent = folder.folder("parent", 0o755);
    let path = parent.join("cache");
    Folder::private(&path).unwrap();
    if !give_away(&parent, "folder::owned_by_other_user") {
        return;
    }
    let error = Folder::private(&path).unwrap_err();
    assert!(matches!(error, PathError::Owner { path, owner: OTHER, .. } if path == parent));
    let other = folder.folder("other", 0o700);
    assert!(give_away(&other, ""));
    let error = Folder::private(&other).unwrap_err();
    assert!(matches!(error, PathError::Owner { path, owner: OTHER, .. } if path == other));
}

/// The folder stays the one that was checked, even if another folder gets its path.
#[test]
fn replaced_after_open() {
    let folder = TestFolder::new("replaced");
    let path = folder.0.join("cache");
    let private = Folder::private(&path).unwrap();
    private.create_new("file").unwrap().write_all(b"mine").unwrap();
    fs::rename(&path, folder.0.join("moved")).unwrap();
    fs::create_dir(&path).unwrap();
    fs::write(path.join("file"), "planted").unwrap();
    let mut text = String::new();
    private.read("file").unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "mine");
    private.replace("new", |file| file.write_all(b"new")).unwrap();
    private.remove("file").unwrap();
    assert_eq!(fs::read(path.join("file")).unwrap(), b"planted");
    assert_eq!(fs::read_dir(&path).unwrap().count(), 1);
    assert_eq!(fs::read(folder.0.join("moved/new")).unwrap(), b"new");
}

#[test]
fn prepared_files_are_rejected() {
    let folder = TestFolder::new("prepared");
    let path = folder.0.join("cache");
    let private = Folder::private(&path).unwrap();
    let treasure = folder.0.join("treasure");
    fs::write(&treasure, "precious").unwrap();
    symlink(&treasure, path.join("link")).unwrap();
    symlink("absent", path.join("dangling")).unwrap();
    fs::hard_link(&treasure, path.join("hard")).unwrap();
    assert!(Command::new("mkfifo").arg(path.join("pipe")).status().unwrap().success());
    fs::create_dir(path.join("folder")).unwrap();
    for (name, mode) in [("group", 0o620), ("all", 0o602)] {
        fs::write(path.join(name), "planted").unwrap();
        set_mode(&path.join(name), mode);
    }
    let rejected = |name: &str| {
        let error = private.read(name).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{name}: {error}");
        assert_eq!(private.open_or_create(name).unwrap_err().kind(), ErrorKind::PermissionDenied);
        assert!(private.touch(name).is_err());
        format!("{name}: {error}\n")
    };
    let messages: String =
        ["link", "dangling", "hard", "pipe", "group", "all", "folder"].map(rejected).into_iter().collect();
    expect![[r#"
        link: it is a link; delete the file
        dangling: it is a link; delete the file
        hard: it has another name, through which it may be changed; delete the file
        pipe: it is not a regular file; delete the file
        group: other users can write to it (mode 620); delete the file
        all: other users can write to it (mode 602); delete the file
        folder: it is not a regular file; delete the file
    "#]]
    .assert_eq(&messages);
    fs::write(path.join("other"), "planted").unwrap();
    if give_away(&path.join("other"), "folder::prepared_files_are_rejected (part)") {
        expect![[r#"
            other: it belongs to user 65534, and this process is user 0; delete the file
        "#]]
        .assert_eq(&rejected("other"));
    }
    assert!(private.remove("folder").is_err());
    for name in ["", ".", "..", "../treasure", "folder/x"] {
        assert_eq!(private.read(name).unwrap_err().kind(), ErrorKind::InvalidInput, "{name}");
    }
    // Replacing and removing names does not follow links.
    private.replace("link", |file| file.write_all(b"mine")).unwrap();
    private.remove("dangling").unwrap();
    private.remove("hard").unwrap();
    assert_eq!(fs::read_to_string(&treasure).unwrap(), "precious");
    assert_eq!((fs::read(path.join("link")).unwrap(), mode(&path.join("link"))), (b"mine".to_vec(), 0o600));
}

#[test]
fn failed_replacement_leaves_old_file() {
    let folder = TestFolder::new("failed");
    let private = Folder::private(&folder.0.join("x")).unwrap();
    private.replace("file", |file| file.write_all(b"old")).unwrap();
    let failed = private.replace("file", |file| {
        file.write_all(b"new")?;
        let names = private.entries()?;
        assert_eq!(names.iter().filter(|entry| entry.name.to_string_lossy().ends_with(UNFINISHED)).count(), 1);
        Err(ErrorKind::StorageFull.into())
    });
    assert_eq!(failed.unwrap_err().kind(), ErrorKind::StorageFull);
    let entries = private.entries().unwrap();
    assert_eq!((entries.len(), &*entries[0].name, entries[0].bytes), (1, "file".as_ref(), 3));
    assert!(entries[0].modified.elapsed().unwrap().as_secs() < 600);
}
