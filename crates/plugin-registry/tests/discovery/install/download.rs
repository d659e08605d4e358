//! Downloads that break, and the cache.

use std::fs;

use plugin_registry::install::{Event, InstallError};
use serde_json::json;

use super::index_server::{IndexServer, Route};
use super::wheels::{Here, Wheel, sha256};

/// A plugin whose wheel has more than 100 kB.
fn large() -> Wheel {
    let noise: Vec<u8> =
        (0..30_000u32).flat_map(|number| sha256(&number.to_le_bytes()).into_bytes()[..8].to_vec()).collect();
    Wheel::plugin("1").file("acme/data.bin", noise)
}

#[test]
fn continues_where_it_broke() {
    let (server, wheel) = (IndexServer::start(&[large()]), large());
    let size = wheel.bytes().len();
    server.change(&wheel, |route| route.cuts = vec![20_000, 0, 30_000]);
    let here = Here::new("continues", &server.url());
    let mut received = 0;
    let mut watch = |event: Event<'_>| match event {
        Event::Received(bytes) => received += bytes,
        Event::Discarded(_) => panic!("nothing is discarded"),
        _ => {}
    };
    here.install_and_watch("acme-pjrt", &mut watch).unwrap();
    assert_eq!(usize::try_from(received).unwrap(), size);
    let ranges: Vec<String> =
        server.downloads().iter().map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect();
    assert_eq!(ranges, ["", "20000-", "20000-", "50000-"]);
}

#[test]
fn continues_in_the_next_run() {
    let (server, wheel) = (IndexServer::start(&[large()]), large());
    server.change(&wheel, |route| route.cuts = [vec![50_000], vec![0; 20]].concat());
    let here = Here::new("next-run", &server.url());
    let error = here.install("acme-pjrt").unwrap_err();
    assert!(matches!(error, InstallError::Incomplete { have: 50_000, .. } | InstallError::Network { .. }), "{error}");
    assert!(here.left().is_empty());
    server.change(&wheel, |route| route.cuts.clear());
    server.downloads();
    here.install("acme-pjrt").unwrap();
    let downloads = server.downloads();
    assert!(downloads.len() == 1 && downloads[0].ends_with(" 50000-"), "{downloads:?}");
}

#[test]
fn server_without_parts() {
    let (server, wheel) = (IndexServer::start(&[large()]), large());
    server.change(&wheel, |route| (route.whole_only, route.cuts) = (true, vec![usize::MAX, 60_000]));
    let here = Here::new("no-parts", &server.url());
    let mut discarded = 0;
    let mut watch = |event: Event<'_>| {
        if let Event::Discarded(bytes) = event {
            discarded += bytes;
        }
    };
    here.install_and_watch("acme-pjrt", &mut watch).unwrap();
    // The first cut was the request for the metadata, which downloaded the whole wheel.
    assert!(discarded <= 60_000);
}

#[test]
fn server_that_always_breaks() {
    let (server, wheel) = (IndexServer::start(&[large()]), large());
    server.change(&wheel, |route| (route.whole_only, route.cuts) = (true, vec![60_000; 30]));
    let here = Here::new("breaks", &server.url());
    let error = here.install("acme-pjrt").unwrap_err();
    assert!(matches!(error, InstallError::Incomplete { .. } | InstallError::Network { .. }), "{error}");
    // A wrong file that breaks each time is downloaded twice.
    let wrong = IndexServer::empty();
    wrong.add(&wheel, |entry| entry["hashes"]["sha256"] = json!("ab".repeat(32)));
    wrong.change(&wheel, |route| route.cuts = [60_000, usize::MAX].repeat(9));
    let error = Here::new("breaks-wrong", &wrong.url()).install("acme-pjrt").unwrap_err();
    assert!(matches!(error, InstallError::WrongHash { .. }), "{error}");
    assert_eq!(wrong.downloads().len(), 4);
}

#[test]
fn wrong_hash() {
    let server = IndexServer::empty();
    let wheel = large();
    server.add(&wheel, |entry| entry["hashes"]["sha256"] = json!("ab".repeat(32)));
    let here = Here::new("wrong-hash", &server.url());
    assert!(matches!(here.install("acme-pjrt"), Err(InstallError::WrongHash { .. })));
    // Neither the plugin nor the download remains.
    assert!(here.left().is_empty());
    assert_eq!(fs::read_dir(here.settings.cache_folder()).unwrap().count(), 0);
    let longer = IndexServer::empty();
    longer.add(&wheel, |entry| entry["size"] = json!(1000));
    let here = Here::new("wrong-size", &longer.url());
    assert!(here.install("acme-pjrt").is_err());
    assert!(here.left().is_empty());
    let none = IndexServer::empty();
    none.add(&wheel, |entry| entry["hashes"] = json!({ "md5": "00" }));
    assert!(matches!(Here::new("no-hash", &none.url()).plan("acme-pjrt"), Err(InstallError::NoHash { .. })));
}

#[test]
fn beginning_of_another_file() {
    let (server, wheel) = (IndexServer::start(&[large()]), large());
    let here = Here::new("another-file", &server.url());
    let hash = sha256(&wheel.bytes());
    fs::create_dir_all(here.settings.cache_folder()).unwrap();
    for content in [vec![7; 1000], vec![7; 1_000_000], wheel.bytes()] {
        fs::write(here.settings.cache_folder().join(format!("{hash}.part")), content).unwrap();
        here.install("acme-pjrt").unwrap();
        here.installer().uninstall("acme-pjrt", &mut |_| {}).unwrap();
        fs::remove_file(here.settings.cache_folder().join(format!("{hash}.whl"))).unwrap();
    }
}

#[test]
fn cache() {
    let (server, wheel) = (IndexServer::start(&[large()]), large());
    let here = Here::new("cache", &server.url());
    here.install("acme-pjrt").unwrap();
    assert_eq!(server.downloads().len(), 1);
    let uninstall = || here.installer().uninstall("acme-pjrt", &mut |_| {}).unwrap();
    uninstall();
    here.install("acme-pjrt").unwrap();
    assert_eq!(server.downloads().len(), 0);
    // A damaged file in the cache is downloaded again.
    uninstall();
    fs::write(here.settings.cache_folder().join(format!("{}.whl", sha256(&wheel.bytes()))), "damaged").unwrap();
    here.install("acme-pjrt").unwrap();
    assert_eq!(server.downloads().len(), 1);
    let plan = here.plan("acme-pjrt").unwrap();
    here.installer().discard_downloads(&plan);
    assert_eq!(fs::read_dir(here.settings.cache_folder()).unwrap().count(), 0);
}

#[test]
fn servers_that_refuse() {
    let (server, wheel) = (IndexServer::start(&[large()]), large());
    let here = Here::new("refuse", &server.url());
    for status in [403, 404, 500] {
        server.change(&wheel, |route| route.status = status);
        let error = here.install("acme-pjrt").unwrap_err();
        assert!(matches!(error, InstallError::Status { status: found, .. } if found == status), "{error}");
    }
    server.route("/simple/acme-pjrt/", Route { status: 401, ..Route::default() });
    assert!(matches!(here.install("acme-pjrt"), Err(InstallError::Status { status: 401, .. })));
    for (kind, body) in [("application/json", "{"), ("application/json", "{}"), ("text/plain", "hello")] {
        server.route("/simple/acme-pjrt/", Route { kind, body: body.into(), ..Route::default() });
        assert!(matches!(here.install("acme-pjrt"), Err(InstallError::IndexPage { .. })), "{body}");
    }
    // Nothing listens on this port.
    let nobody = Here::new("nobody", "http://127.0.0.1:9/simple");
    assert!(matches!(nobody.install("acme-pjrt"), Err(InstallError::Network { .. })));
    assert!(here.left().is_empty() && nobody.left().is_empty());
}

#[test]
fn two_at_once() {
    let (server, wheel) = (IndexServer::start(&[large()]), large());
    server.change(&wheel, |route| route.slow = true);
    let here = Here::new("two-at-once", &server.url());
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(|| here.install("acme-pjrt"))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap().unwrap()).collect()
    });
    assert_eq!(results.iter().filter(|installed| !installed.unchanged).count(), 1);
    assert_eq!(server.downloads().len(), 1);
    assert_eq!(here.left(), ["acme-pjrt"]);
}
