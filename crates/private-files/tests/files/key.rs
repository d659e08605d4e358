//! The user's key.

use std::fs;
use std::process::{Command, Stdio};

use private_files::{PathError, UserKey};

use super::{TestFolder, mode, set_mode};

const FILE: &str = "file-key";

#[test]
fn created_once() {
    let folder = TestFolder::new("key");
    let tag = UserKey::in_folder(&folder.0).unwrap().sign("x", &[b"text"]);
    let path = folder.0.join(FILE);
    assert_eq!((mode(&path), fs::read(&path).unwrap().len()), (0o600, 32));
    let key = UserKey::in_folder(&folder.0).unwrap();
    assert!(key.verify("x", &[b"text"], &tag));
    assert!(!key.verify("y", &[b"text"], &tag) && !key.verify("x", &[b"tex", b"t"], &tag));
    assert!(!key.verify("x", &[b"text"], &tag[1..]) && !key.verify("x", &[b"text"], &[0; 32]));
}

/// The expected value is from Python's `hmac`.
#[test]
fn signature_is_hmac_sha256() {
    let folder = TestFolder::new("vector");
    let bytes: Vec<u8> = (0..32).collect();
    fs::write(folder.0.join(FILE), bytes).unwrap();
    set_mode(&folder.0.join(FILE), 0o600);
    let tag = UserKey::in_folder(&folder.0).unwrap().sign("purpose", &[b"ab", b"", b"c"]);
    let tag: String = tag.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(tag, "ec1dc1004c7a265d738f1de18ec1b6bf1c975e744d0c190189b5da7aa46ac004");
}

#[test]
fn unsafe_or_damaged_key_is_replaced() {
    let folder = TestFolder::new("damaged");
    let path = folder.0.join(FILE);
    for (bytes, bits) in [(32, 0o640), (32, 0o604), (32, 0o660), (31, 0o600), (33, 0o600), (0, 0o600)] {
        fs::write(&path, vec![7; bytes]).unwrap();
        set_mode(&path, bits);
        let tag = UserKey::in_folder(&folder.0).unwrap().sign("x", &[]);
        let new = fs::read(&path).unwrap();
        assert_eq!((new.len(), mode(&path)), (32, 0o600), "{bytes} bytes, mode {bits:o}");
        assert_ne!(new, vec![7; 32]);
        assert!(UserKey::in_folder(&folder.0).unwrap().verify("x", &[], &tag));
    }
}

/// A process of `racing_processes_agree`. Prints its signature.
#[test]
fn process_of_race() {
    let Some(folder) = std::env::var_os("PRIVATE_FILES_RACE") else { return };
    let tag = UserKey::in_folder(folder.as_ref()).unwrap().sign("race", &[]);
    println!("tag {tag:?}");
}

#[test]
fn racing_processes_agree() {
    let folder = TestFolder::new("race");
    for round in 0..5 {
        let key = folder.0.join(round.to_string());
        let processes: Vec<_> = (0..8)
            .map(|_| {
                let mut command = Command::new(std::env::current_exe().unwrap());
                command.args(["--exact", "key::process_of_race", "--nocapture"]).env("PRIVATE_FILES_RACE", &key);
                command.stdout(Stdio::piped()).spawn().unwrap()
            })
            .collect();
        let mut tags: Vec<String> = Vec::new();
        for process in processes {
            let output = String::from_utf8(process.wait_with_output().unwrap().stdout).unwrap();
            tags.push(output.lines().find_map(|line| line.find("tag [").map(|at| line[at..].to_owned())).unwrap());
        }
        tags.dedup();
        assert_eq!(tags.len(), 1, "{tags:?}");
    }
}

#[test]
fn error_names_the_lock() {
    let folder = TestFolder::new("lock");
    let lock = folder.0.join("file-key.lock");
    let target = folder.0.join("target");
    fs::write(&target, "").unwrap();
    for kind in ["link", "pipe"] {
        match kind {
            "link" => std::os::unix::fs::symlink(&target, &lock).unwrap(),
            _ => assert!(Command::new("mkfifo").arg(&lock).status().unwrap().success()),
        }
        match UserKey::in_folder(&folder.0) {
            Err(PathError::Io { path, .. }) => assert_eq!(path.file_name(), lock.file_name(), "{kind}"),
            other => panic!("{kind}: {other:?}"),
        }
        fs::remove_file(&lock).unwrap();
    }
}
