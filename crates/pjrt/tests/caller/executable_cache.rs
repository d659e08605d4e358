//! Tests [`ExecutableCache`], in memory and in a directory, on the embedded CPU device and on real plugins.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, SystemTime};
use std::{env, fs};

use crate::real::{each_client, embedded};
use pjrt::{
    CacheStatistics, Client, ClientOptions, CompileOptions, ErrorKind, ExecutableCache, LoadedExecutable, Program,
};

/// Environment variable for the child processes that a test starts. Its value is the directory that the processes
/// share.
const SHARED: &str = "PJRT_TEST_CACHE_DIRECTORY";

/// Returns a program that multiplies its argument by `factor`.
fn program(factor: u32) -> Program {
    Program::mlir(format!(
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {{
           %c = stablehlo.constant dense<{factor}.0> : tensor<2xf32>
           %y = stablehlo.multiply %x, %c : tensor<2xf32>
           return %y : tensor<2xf32>
         }}"
    ))
}

fn compile(cache: &ExecutableCache, client: &Client, factor: u32) -> Arc<LoadedExecutable> {
    let executable = cache.compile(client, &program(factor), &CompileOptions::default()).unwrap();
    assert_eq!(run(&executable, client), [factor as f32, 2.0 * factor as f32]);
    executable
}

fn run(executable: &LoadedExecutable, client: &Client) -> Vec<f32> {
    let x = client.buffer_from_host(&[1.0f32, 2.0], &[2]).unwrap();
    executable.execute(&[&x]).unwrap()[0].to_host::<f32>().unwrap()
}

/// The path of a temporary folder. Dropping the value deletes the folder and its files.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(env::temp_dir().join(format!("pjrt-executable-cache-{}-{number}", std::process::id())))
    }

    fn cache(&self) -> ExecutableCache {
        ExecutableCache::in_directory(&self.0).unwrap()
    }

    /// Returns the files with stored executables.
    fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = entries.filter(|path| path.extension().is_some_and(|end| end == "pjrt")).collect();
        files.sort();
        files
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[track_caller]
fn check(cache: &ExecutableCache, expected: &[(&str, u64)]) {
    let CacheStatistics {
        memory_hits, directory_hits, compilations, rejected_files, not_stored, evicted_files, ..
    } = cache.statistics();
    let found = [
        ("memory_hits", memory_hits),
        ("directory_hits", directory_hits),
        ("compilations", compilations),
        ("rejected_files", rejected_files),
        ("not_stored", not_stored),
        ("evicted_files", evicted_files),
    ];
    let found: Vec<_> = found.into_iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(found, expected);
}

#[test]
fn memory_returns_the_same_executable() {
    let (client, cache) = (embedded(), ExecutableCache::in_memory());
    let first = compile(&cache, &client, 2);
    assert!(Arc::ptr_eq(&first, &compile(&cache, &client, 2)));
    compile(&cache, &client, 3);
    check(&cache, &[("memory_hits", 1), ("compilations", 2)]);
    cache.clear_memory();
    compile(&cache, &client, 2);
    check(&cache, &[("memory_hits", 1), ("compilations", 3)]);
}

#[test]
fn key_covers_options_formats_and_clients() {
    let (client, cache) = (embedded(), ExecutableCache::in_memory());
    compile(&cache, &client, 2);
    let options = CompileOptions::default().with_portable_executable(true);
    cache.compile(&client, &program(2), &options).unwrap();
    let same_bytes = Program::new("unknown", program(2).code().to_vec());
    cache.compile(&client, &same_bytes, &CompileOptions::default()).unwrap_err();
    compile(&cache, &embedded(), 2);
    check(&cache, &[("compilations", 4)]);
}

#[test]
fn memory_drops_least_recently_used() {
    let client = embedded();
    let cache = ExecutableCache::in_memory().with_max_executables(2);
    for factor in [1, 2, 1, 3, 1, 2] {
        compile(&cache, &client, factor);
    }
    // Executable 3 replaces executable 2, which is then compiled again and replaces executable 3.
    check(&cache, &[("memory_hits", 2), ("compilations", 4)]);
    let none = ExecutableCache::in_memory().with_max_executables(0);
    for _ in 0..2 {
        compile(&none, &client, 1);
    }
    check(&none, &[("compilations", 2)]);
}

#[test]
fn threads_share_a_compilation() {
    let (client, cache) = (embedded(), ExecutableCache::in_memory());
    let barrier = Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                compile(&cache, &client, 7);
            });
        }
    });
    check(&cache, &[("memory_hits", 7), ("compilations", 1)]);
}

#[test]
fn failures_reach_all_threads_and_are_not_kept() {
    let (client, cache) = (embedded(), ExecutableCache::in_memory());
    let bad = Program::mlir("not a program");
    let fail = || {
        let error = cache.compile(&client, &bad, &CompileOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Plugin);
    };
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(fail))));
    fail();
    let statistics = cache.statistics();
    assert!(statistics.compilations >= 2, "{statistics:?}");
    assert_eq!(statistics.compilations + statistics.memory_hits, 5);
}

/// Checks that a later cache in the same directory loads the stored executable, unless the client's options or the salt
/// differ.
fn directory_serves_a_later_cache(client: &Client) {
    let folder = Folder::new();
    compile(&folder.cache(), client, 5);
    let later = folder.cache();
    compile(&later, client, 5);
    compile(&later, client, 5);
    check(&later, &[("memory_hits", 1), ("directory_hits", 1)]);
    assert_eq!(folder.files().len(), 1);
    // The options of a client may change the compiled code, so a client with other options must not load the file.
    if client.plugin().path().is_none() {
        let client = client.plugin().client(&ClientOptions::new().with("deterministic", true)).unwrap();
        let other = folder.cache();
        compile(&other, &client, 5);
        check(&other, &[("compilations", 1)]);
    }
    let salted = folder.cache().with_salt("other flags");
    compile(&salted, client, 5);
    check(&salted, &[("compilations", 1)]);
}

#[test]
fn directory_serves_later_caches() {
    directory_serves_a_later_cache(&embedded());
}

#[test]
fn directory_serves_later_caches_on_real_plugins() {
    each_client("directory_serves_later_caches_on_real_plugins", directory_serves_a_later_cache);
}

/// In a shared directory, each plugin loads its own file. If the files are swapped, each plugin rejects the file of the
/// other plugin.
#[test]
fn plugins_share_a_directory() {
    each_client("plugins_share_a_directory", |real| {
        let (embedded, folder) = (embedded(), Folder::new());
        compile(&folder.cache(), &embedded, 5);
        let embedded_file = folder.files().remove(0);
        let first = folder.cache();
        compile(&first, real, 5);
        check(&first, &[("compilations", 1)]);
        let real_file = folder.files().into_iter().find(|file| *file != embedded_file).unwrap();
        for client in [&embedded, real] {
            let later = folder.cache();
            compile(&later, client, 5);
            check(&later, &[("directory_hits", 1)]);
        }
        let swapped = folder.0.join("swapped");
        fs::rename(&real_file, &swapped).unwrap();
        fs::rename(&embedded_file, &real_file).unwrap();
        fs::rename(&swapped, &embedded_file).unwrap();
        for client in [&embedded, real] {
            let later = folder.cache();
            compile(&later, client, 5);
            check(&later, &[("compilations", 1), ("rejected_files", 1)]);
        }
    });
}

#[test]
fn damaged_files_are_compiled_again() {
    let (client, folder) = (embedded(), Folder::new());
    compile(&folder.cache(), &client, 2);
    let file = folder.files().remove(0);
    let good = fs::read(&file).unwrap();
    let mut flipped = good.clone();
    flipped[good.len() / 2] ^= 1;
    let mut other_key = good.clone();
    other_key[10] ^= 1;
    let cases = [Vec::new(), b"text".to_vec(), good[..good.len() - 1].to_vec(), flipped, other_key];
    for damaged in cases {
        fs::write(&file, &damaged).unwrap();
        let cache = folder.cache();
        compile(&cache, &client, 2);
        check(&cache, &[("compilations", 1), ("rejected_files", 1)]);
        assert!(fs::read(&file).unwrap().len() > 40, "the file is written again");
        let later = folder.cache();
        compile(&later, &client, 2);
        check(&later, &[("directory_hits", 1)]);
    }
}

/// The cache must not load a file that was renamed to the key of another program.
#[test]
fn files_of_other_programs_are_refused() {
    let (client, folder) = (embedded(), Folder::new());
    compile(&folder.cache(), &client, 2);
    let two = folder.files().remove(0);
    compile(&folder.cache(), &client, 3);
    let three = folder.files().into_iter().find(|file| *file != two).unwrap();
    fs::copy(&two, &three).unwrap();
    let cache = folder.cache();
    compile(&cache, &client, 3);
    check(&cache, &[("compilations", 1), ("rejected_files", 1)]);
}

#[test]
fn directory_stays_within_limit() {
    let (client, folder) = (embedded(), Folder::new());
    compile(&folder.cache(), &client, 1);
    let size = fs::metadata(&folder.files()[0]).unwrap().len();
    let cache = || folder.cache().with_max_bytes(3 * size);
    compile(&cache(), &client, 2);
    compile(&cache(), &client, 3);
    assert_eq!(folder.files().len(), 3);
    // Mark all files as used long ago. Then use the first file, so that it is the most recently used file.
    for file in folder.files() {
        let time = SystemTime::now() - Duration::from_secs(1000);
        fs::File::options().append(true).open(file).unwrap().set_modified(time).unwrap();
    }
    compile(&cache(), &client, 1);
    let last = cache();
    compile(&last, &client, 4);
    check(&last, &[("compilations", 1), ("evicted_files", 1)]);
    let kept = cache();
    compile(&kept, &client, 1);
    check(&kept, &[("directory_hits", 1)]);
    let small = folder.cache().with_max_bytes(size - 1);
    compile(&small, &client, 9);
    check(&small, &[("compilations", 1), ("not_stored", 1)]);
}

#[cfg(unix)]
#[test]
fn rejects_directories_others_can_write() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    drop(folder.cache());
    assert_eq!(fs::metadata(&folder.0).unwrap().permissions().mode() & 0o777, 0o700);
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).unwrap();
    let error = ExecutableCache::in_directory(&folder.0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    let file = folder.0.join("file");
    fs::write(&file, "").unwrap();
    assert_eq!(ExecutableCache::in_directory(&file).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

/// A cache still compiles programs after its directory was deleted.
#[test]
fn removed_directory_is_tolerated() {
    let (client, folder) = (embedded(), Folder::new());
    let cache = folder.cache();
    fs::remove_dir_all(&folder.0).unwrap();
    compile(&cache, &client, 2);
    check(&cache, &[("compilations", 1), ("not_stored", 1)]);
}

/// Several processes use one directory at the same time and compile the same programs, while the size limit evicts
/// files.
#[test]
fn processes_share_a_directory() {
    if let Some(directory) = env::var_os(SHARED) {
        return compile_often(Path::new(&directory));
    }
    let folder = Folder::new();
    drop(folder.cache());
    let start = || {
        Command::new(env::current_exe().unwrap())
            .args(["--exact", "executable_cache::processes_share_a_directory"])
            .env(SHARED, &folder.0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    for child in [0; 4].map(|_| start()) {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }
    let leftovers = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().path());
    let unfinished: Vec<_> = leftovers.filter(|path| path.extension().is_some_and(|end| end == "unfinished")).collect();
    assert!(unfinished.is_empty(), "{unfinished:?}");
}

fn compile_often(directory: &Path) {
    let client = embedded();
    let mut limit = u64::MAX;
    for round in 0..5 {
        let cache = ExecutableCache::in_directory(directory).unwrap().with_max_bytes(limit);
        for factor in 1..8 {
            compile(&cache, &client, factor);
        }
        let statistics = cache.statistics();
        assert_eq!((statistics.rejected_files, statistics.not_stored), (0, 0), "round {round}");
        assert_eq!(statistics.directory_hits + statistics.compilations, 7);
        let files = fs::read_dir(directory).unwrap().flatten();
        limit = files.filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).max().unwrap() * 4;
    }
}
