//! Tests that [`ExecutableCache`] does not load executables that another user wrote, replaced or prepared.
//!
//! The attacker knows the name of the file of a program and plants an executable that triples instead of doubling.
//! Tests with files of another user need root.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, process};

use expect_test::{Expect, expect};

use crate::real::embedded;
use pjrt::{Client, CompileOptions, ErrorKind, ExecutableCache, Program};

/// User id of the attacker. The account does not need to exist.
const ATTACKER: u32 = 65534;
/// Environment variable for a child process. Its value is the path of a cache.
const DIRECTORY: &str = "PJRT_TEST_ATTACKED_CACHE";
/// Length of the magic number in front of the key in a file.
const MAGIC: usize = 8;

fn program(factor: u32) -> Program {
    Program::mlir(format!(
        "func.func @main(%x: tensor<f32>) -> tensor<f32> {{
           %c = stablehlo.constant dense<{factor}.0> : tensor<f32>
           %y = stablehlo.multiply %x, %c : tensor<f32>
           return %y : tensor<f32>
         }}"
    ))
}

/// Compiles the program that doubles, and checks that it does.
#[track_caller]
fn double(cache: &ExecutableCache, client: &Client) {
    let executable = cache.compile(client, &program(2), &CompileOptions::default()).unwrap();
    let x = client.buffer_from_host(&[5.0f32], &[]).unwrap();
    assert_eq!(executable.execute(&[&x]).unwrap()[0].to_host::<f32>().unwrap(), [10.0], "a planted executable ran");
}

/// A folder with the caches of a test. Dropping the value deletes it.
struct Setup {
    folder: PathBuf,
    client: Client,
    /// Name of the file of the program that doubles.
    name: String,
    /// A file with this name that contains the program that triples.
    planted: Vec<u8>,
}

impl Setup {
    fn new(test: &str) -> Self {
        let folder = env::temp_dir().join(format!("pjrt-cache-attack-{test}-{}", process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        let client = embedded();
        let file = |factor: u32| {
            let path = folder.join(format!("of-{factor}"));
            let cache = ExecutableCache::in_directory(&path).unwrap();
            cache.compile(&client, &program(factor), &CompileOptions::default()).unwrap();
            let mut files = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
            let file = files.find(|path| path.extension().is_some_and(|end| end == "pjrt")).unwrap();
            (file.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(file).unwrap())
        };
        let ((name, good), (_, mut planted)) = (file(2), file(3));
        planted[MAGIC..MAGIC + 32].copy_from_slice(&good[MAGIC..MAGIC + 32]);
        Self { folder, client, name, planted }
    }

    fn cache(&self) -> PathBuf {
        self.folder.join("cache")
    }

    /// Writes the planted file into a folder.
    fn plant(&self, folder: &Path, mode: u32) -> PathBuf {
        let path = folder.join(&self.name);
        fs::write(&path, &self.planted).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        path
    }

    /// Checks that a new cache rejects the planted file and compiles the program.
    #[track_caller]
    fn rejects_planted_file(&self) {
        let cache = ExecutableCache::in_directory(self.cache()).unwrap();
        double(&cache, &self.client);
        let counts = cache.statistics();
        assert_eq!((counts.rejected_files, counts.compilations, counts.directory_hits), (1, 1, 0));
        let later = ExecutableCache::in_directory(self.cache()).unwrap();
        double(&later, &self.client);
        assert_eq!((later.statistics().directory_hits, later.statistics().compilations), (1, 0));
    }

    fn refusal(&self, expected: Expect) {
        let error = ExecutableCache::in_directory(self.cache()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        let text = error.to_string().replace(&*fs::canonicalize(&self.folder).unwrap().to_string_lossy(), "FOLDER");
        expected.assert_eq(&text.replace(&*self.folder.to_string_lossy(), "FOLDER"));
    }
}

impl Drop for Setup {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Gives a file to the attacker. Returns `false` and reports that the test is skipped if this process is not root.
fn give_away(path: &Path, test: &str) -> bool {
    let given = chown(path, Some(ATTACKER), Some(ATTACKER)).is_ok();
    if !given {
        println!("SKIPPED executable_cache_attacks::{test}: only root can give files to another user");
    }
    given
}

#[test]
fn owner_of_parent_replaces_directory() {
    let setup = Setup::new("parent");
    let parent = setup.cache();
    let path = parent.join("mine");
    let cache = ExecutableCache::in_directory(&path).unwrap();
    // The owner of the parent moves the directory away, and puts another one in its place.
    fs::rename(&path, parent.join("moved")).unwrap();
    fs::create_dir(&path).unwrap();
    setup.plant(&path, 0o600);
    double(&cache, &setup.client);
    assert_eq!((cache.statistics().compilations, cache.statistics().directory_hits), (1, 0));
    assert!(parent.join("moved").join(&setup.name).exists(), "the executable is stored in the checked directory");
}

#[test]
fn parent_of_other_user() {
    let setup = Setup::new("owner");
    fs::create_dir(setup.cache().parent().unwrap().join("cache")).unwrap();
    if !give_away(&setup.folder, "parent_of_other_user") {
        return;
    }
    setup.refusal(
        expect!["the cache directory FOLDER/cache is not safe to load code from: FOLDER belongs to user 65534, who could replace it; use a path on which everything belongs to root"],
    );
}

#[test]
fn group_writable_file() {
    let setup = Setup::new("group");
    double(&ExecutableCache::in_directory(setup.cache()).unwrap(), &setup.client);
    let stored = setup.cache().join(&setup.name);
    assert_eq!(fs::metadata(&stored).unwrap().permissions().mode() & 0o777, 0o600);
    setup.plant(&setup.cache(), 0o664);
    setup.rejects_planted_file();
    // A member of the group overwrote the file, and then its owner removed the right to write.
    setup.plant(&setup.cache(), 0o600);
    setup.rejects_planted_file();
}

#[test]
fn prepared_directory() {
    let setup = Setup::new("prepared");
    fs::create_dir(setup.cache()).unwrap();
    fs::set_permissions(setup.cache(), Permissions::from_mode(0o777)).unwrap();
    let planted = setup.plant(&setup.cache(), 0o644);
    let given = give_away(&planted, "prepared_directory (part)");
    setup.refusal(
        expect!["the cache directory FOLDER/cache is not safe to load code from: other users can write to FOLDER/cache (mode 777), so its files may be theirs; use another folder, or delete this one"],
    );
    fs::set_permissions(setup.cache(), Permissions::from_mode(0o755)).unwrap();
    setup.rejects_planted_file();
    if given {
        // The user takes over the attacker's files with `chown -R`.
        chown(setup.plant(&setup.cache(), 0o600), Some(0), Some(0)).unwrap();
        setup.rejects_planted_file();
        give_away(&setup.cache(), "");
        setup.refusal(
            expect!["the cache directory FOLDER/cache is not safe to load code from: FOLDER/cache belongs to user 65534, who could replace it; use a path on which everything belongs to root"],
        );
    }
}

#[test]
fn link_to_other_file() {
    let setup = Setup::new("link");
    fs::create_dir(setup.cache()).unwrap();
    let target = setup.folder.join("target");
    fs::rename(setup.plant(&setup.folder, 0o600), &target).unwrap();
    std::os::unix::fs::symlink(&target, setup.cache().join(&setup.name)).unwrap();
    setup.rejects_planted_file();
    assert_eq!(fs::read(&target).unwrap(), setup.planted);
}

/// A child process. Compiles the program with the cache in [`DIRECTORY`], and prints its statistics or the error.
#[test]
fn compile_in_child() {
    let Some(directory) = env::var_os(DIRECTORY) else { return };
    match ExecutableCache::in_directory(directory) {
        Ok(cache) => {
            double(&cache, &embedded());
            let counts = cache.statistics();
            println!("child: {} {} {}", counts.directory_hits, counts.compilations, counts.rejected_files);
        }
        Err(error) => println!("child: {error}"),
    }
}

fn child(command: &mut Command, directory: &Path) -> String {
    command.args(["--exact", "executable_cache_attacks::compile_in_child", "--nocapture"]).env(DIRECTORY, directory);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let said = text.lines().find_map(|line| Some(line.split_once("child: ")?.1.to_owned()));
    said.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// Executables that another key signed are compiled again. The second key is also that of a user who lost the first
/// key.
#[test]
fn key_of_other_user() {
    let setup = Setup::new("key");
    let run = |state: &str| {
        let mut command = Command::new(env::current_exe().unwrap());
        child(command.env("XDG_STATE_HOME", setup.folder.join(state)), &setup.cache())
    };
    assert_eq!(run("first"), "0 1 0");
    assert_eq!(run("first"), "1 0 0");
    assert_eq!(run("second"), "0 1 1");
    assert_eq!(run("second"), "1 0 0");
    let key = setup.folder.join("second/pjrt/file-key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    fs::remove_file(key).unwrap();
    assert_eq!(run("second"), "0 1 1");
}

#[test]
fn key_in_home_folder() {
    let setup = Setup::new("home");
    let mut command = Command::new(env::current_exe().unwrap());
    command.env("HOME", setup.folder.join("home")).env("XDG_STATE_HOME", "relative");
    assert_eq!(child(&mut command, &setup.cache()), "0 1 0");
    assert!(setup.folder.join("home/.local/state/pjrt/file-key").exists());
    // Without the variable, the system's data base of users names the home folder.
    let mut command = Command::new(env::current_exe().unwrap());
    fs::remove_dir_all(setup.cache()).unwrap();
    assert_eq!(child(command.env_remove("HOME").env_remove("XDG_STATE_HOME"), &setup.cache()), "0 1 0");
    let mut command = Command::new(env::current_exe().unwrap());
    fs::write(setup.folder.join("file"), "").unwrap();
    command.env("HOME", setup.folder.join("file")).env_remove("XDG_STATE_HOME");
    let text = child(&mut command, &setup.cache());
    let text = text.replace(&*fs::canonicalize(&setup.folder).unwrap().to_string_lossy(), "FOLDER");
    expect!["the cache directory FOLDER/cache cannot be used without the key that signs its files: FOLDER/file: not a directory; set XDG_STATE_HOME to a folder of yours that lasts as long as the cache"]
        .assert_eq(&text.replace(&*setup.folder.to_string_lossy(), "FOLDER"));
}

#[test]
fn elevated_privileges() {
    let setup = Setup::new("elevated");
    let mut command = Command::new("setpriv");
    command.args(["--ruid", &ATTACKER.to_string(), "--"]).arg(env::current_exe().unwrap());
    match Command::new("setpriv").args(["--ruid", &ATTACKER.to_string(), "--", "true"]).status() {
        Ok(status) if status.success() => {}
        _ => return println!("SKIPPED executable_cache_attacks::elevated_privileges: needs root and setpriv"),
    }
    let text = child(&mut command, &setup.cache()).replace(&*setup.folder.to_string_lossy(), "FOLDER");
    expect!["the cache directory FOLDER/cache is not safe to load code from: this process has elevated privileges, and the user who started it may control the directory or the key of its files; use `ExecutableCache::in_memory`"]
        .assert_eq(&text);
}
