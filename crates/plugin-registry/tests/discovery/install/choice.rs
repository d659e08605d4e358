//! Which versions and files are chosen.

use plugin_registry::install::{InstallError, InstallRequest, Settings, known_plugins};
use serde_json::json;

use super::index_server::{IndexServer, Route};
use super::wheels::{ANY_PYTHON, Here, Wheel, elf};

#[test]
fn newest_that_fits() {
    let server = IndexServer::start(&[
        Wheel::plugin("1.9"),
        Wheel::plugin("1.10").tags("py3-none-manylinux_2_17_aarch64"),
        Wheel::plugin("1.10").tags("py3-none-manylinux_2_17_x86_64"),
        Wheel::plugin("1.10").tags("py3-none-manylinux_2_28_x86_64"),
        Wheel::plugin("1.10").tags("py3-none-manylinux_2_39_x86_64"),
        Wheel::plugin("1.10").tags("cp313-cp313-manylinux_2_28_x86_64"),
        Wheel::plugin("1.11").tags("py3-none-macosx_11_0_arm64"),
        Wheel::plugin("2.0rc1"),
        Wheel::plugin("2.0.dev3"),
    ]);
    server.add(&Wheel::plugin("1.12"), |entry| entry["yanked"] = json!("broken"));
    let here = Here::new("newest", &server.url());
    let file = |request: &str| here.files(request).remove(0);
    assert_eq!(file("Acme.PJRT"), "acme_pjrt-1.10-py3-none-manylinux_2_28_x86_64.whl");
    assert_eq!(file("acme-pjrt<1.10"), format!("acme_pjrt-1.9-{ANY_PYTHON}.whl"));
    assert_eq!(file("acme-pjrt==1.12"), format!("acme_pjrt-1.12-{ANY_PYTHON}.whl"));
    assert_eq!(file("acme-pjrt>=2.0rc1"), format!("acme_pjrt-2.0rc1-{ANY_PYTHON}.whl"));
    // There is nothing else.
    assert_eq!(file("acme-pjrt>1.12,<3"), format!("acme_pjrt-2.0rc1-{ANY_PYTHON}.whl"));
    assert!(matches!(here.plan("acme-pjrt==1.11"), Err(InstallError::NoWheel { .. })));
    assert!(matches!(here.plan("acme-pjrt>3"), Err(InstallError::NoVersion { .. })));
    assert!(matches!(here.plan("acme"), Err(InstallError::NoPackage { .. })));
}

#[test]
fn html_index() {
    let server = IndexServer::empty();
    server.add_html(&[Wheel::plugin("1"), Wheel::plugin("2").requires("runtime; sys_platform == 'linux'")]);
    server.add_html(&[Wheel::new("runtime", "3").library("runtime/lib.so", &elf())]);
    let here = Here::new("html", &server.url());
    assert_eq!(here.files("acme-pjrt").len(), 2);
    assert_eq!(here.install("acme-pjrt").unwrap().record.version, "2");
}

#[test]
fn metadata_of_its_own() {
    let server = IndexServer::empty();
    let wheel = Wheel::plugin("1").requires("runtime");
    server.add(&wheel, |entry| {
        entry["core-metadata"] = json!({ "sha256": super::wheels::sha256(b"Requires-Dist: other\n") })
    });
    server.add(&Wheel::new("other", "1"), |_| {});
    let path = format!("/files/{}.metadata", wheel.file_name());
    server.route(&path, Route { body: b"Requires-Dist: other\n".to_vec(), ..Route::default() });
    let here = Here::new("metadata", &server.url());
    assert_eq!(here.files("acme-pjrt").len(), 2);
    // The wheel has other metadata.
    assert!(matches!(here.install("acme-pjrt"), Err(InstallError::BadWheel { .. })));
    server.route(&path, Route { body: b"Requires-Dist: changed\n".to_vec(), ..Route::default() });
    assert!(matches!(here.plan("acme-pjrt"), Err(InstallError::WrongHash { .. })));
    assert!(here.left().is_empty());
}

#[test]
fn libraries_of_other_packages() {
    let lib = |name: &str, version: &str| Wheel::new(name, version).library(&format!("{name}/lib.so"), &elf());
    let server = IndexServer::start(&[
        Wheel::plugin("1")
            .requires("blas>=2")
            .requires("numpy>=7")
            .requires("scipy")
            .requires("docs>2")
            .requires("notes")
            .requires("absent")
            .requires("only-windows; sys_platform == 'win32'")
            .requires("fft; extra == 'fft'")
            .requires("odd; hostname == 'x'"),
        // `blas` 3 and its requirement contradict the choice of `runtime`.
        lib("blas", "3").requires("runtime<2").requires("notes"),
        lib("fft", "1"),
        lib("runtime", "1"),
        lib("runtime", "2"),
        Wheel::new("numpy", "1").tags("cp313-cp313-manylinux_2_17_x86_64").requires("never-read"),
        Wheel::new("scipy", "1").tags("cp313-cp313-manylinux_2_17_x86_64"),
        Wheel::new("docs", "1").tags("py3-none-any"),
        Wheel::new("notes", "1").tags("py3-none-any").requires("runtime"),
    ]);
    let here = Here::new("libraries", &server.url());
    let shown = |request: &str| -> Vec<String> {
        let plan = here.plan(request).unwrap();
        plan.packages().iter().map(|package| format!("{} {}", package.name(), package.version())).collect()
    };
    assert_eq!(shown("acme-pjrt"), ["acme-pjrt 1", "blas 3", "runtime 1"]);
    assert_eq!(shown("acme-pjrt[FFT]"), ["acme-pjrt 1", "blas 3", "fft 1", "runtime 1"]);
    let plan = here.plan("acme-pjrt").unwrap();
    let left_out = plan.left_out().iter();
    let left_out: Vec<_> = left_out.map(|left| (left.requirement.as_str(), left.is_python_code)).collect();
    let expected =
        [("odd; hostname == 'x'", false), ("numpy>=7", true), ("scipy", true), ("docs>2", true), ("absent", false)];
    assert_eq!(left_out, expected);
    let request: InstallRequest = "acme-pjrt".parse().unwrap();
    let alone = here.installer().plan(&request.clone().without_libraries(), &mut |_| {}).unwrap();
    assert_eq!((alone.packages().len(), alone.left_out().len()), (1, 0));
    let with = request.clone().with("fft").unwrap();
    assert_eq!(here.installer().plan(&with, &mut |_| {}).unwrap().packages().len(), 4);
    // A package that the user names is installed, also if its wheel is for one Python version or for any platform.
    for (name, tags) in [("one-python", "cp313-cp313-manylinux_2_17_x86_64"), ("any-platform", "py3-none-any")] {
        server.add(&Wheel::new(name, "1").tags(tags), |_| {});
        let with = request.clone().with(name).unwrap();
        let plan = here.installer().plan(&with, &mut |_| {}).unwrap();
        assert!(plan.packages().iter().any(|package| package.name() == name), "{name}");
    }
    let marker = request.clone().with("fft; sys_platform == 'win32'");
    assert!(matches!(marker, Err(InstallError::Request { .. })));
    // A package that the user names must exist.
    let absent = request.with("absent").unwrap();
    assert!(matches!(here.installer().plan(&absent, &mut |_| {}), Err(InstallError::NoPackage { .. })));
}

#[test]
fn contradiction() {
    let server = IndexServer::start(&[
        Wheel::plugin("1").requires("blas<2").requires("fft"),
        Wheel::new("blas", "1"),
        Wheel::new("fft", "1").requires("blas>=2"),
    ]);
    let here = Here::new("contradiction", &server.url());
    let error = here.plan("acme-pjrt").unwrap_err();
    let InstallError::NoVersion { package, wanted, .. } = error else { panic!("{error}") };
    let by: Vec<&str> = wanted.iter().map(|wanted| wanted.by.as_str()).collect();
    assert_eq!((package.as_str(), by), ("blas", vec!["acme-pjrt", "fft"]));
}

#[test]
fn known_plugin() {
    let plugin = |version: &str| {
        Wheel::new("jax-cuda13-pjrt", version)
            .library(
                "jax_plugins/xla_cuda13/xla_cuda_plugin.so",
                &elf().exporting().runpath("$ORIGIN/../../nvidia/cu13/lib").needing(&["libcublas.so.13"]),
            )
            .file(
                &format!("jax_cuda13_pjrt-{version}.dist-info/entry_points.txt"),
                "[jax_plugins]\nxla_cuda13 = jax_plugins.xla_cuda13\n",
            )
    };
    let companion = |version: &str| {
        Wheel::new("jax-cuda13-plugin", version)
            .tags("cp313-cp313-manylinux_2_17_x86_64")
            .requires(&format!("jax-cuda13-pjrt=={version}"))
            .requires("nvidia-cublas>=13; sys_platform == \"linux\" and extra == \"with-cuda\"")
    };
    let server = IndexServer::start(&[
        plugin("0.11"),
        plugin("0.12"),
        companion("0.11"),
        companion("0.12"),
        Wheel::new("nvidia-cublas", "13.1").library("nvidia/cu13/lib/libcublas.so.13", &elf()),
    ]);
    let here = Here::new("known", &server.url());
    for (request, version) in [("cuda13", "0.12"), ("cuda13==0.11", "0.11"), ("jax-cuda13-pjrt<0.12", "0.11")] {
        let plan = here.plan(request).unwrap();
        let shown: Vec<_> = plan.packages().iter().map(|package| (package.name(), package.version())).collect();
        assert_eq!(shown, [("jax-cuda13-pjrt", version.to_owned()), ("nvidia-cublas", "13.1".to_owned())]);
    }
    let alone = "cuda13".parse::<InstallRequest>().unwrap().without_libraries();
    assert_eq!(here.installer().plan(&alone, &mut |_| {}).unwrap().packages().len(), 1);
    let installed = here.install("cuda13").unwrap();
    assert_eq!((installed.record.name.as_str(), &installed.missing[..]), ("cuda13", &[][..]));
    assert_eq!(installed.record.aliases, ["cuda", "xla_cuda13"]);
    // The names that install it also remove it.
    for name in ["cuda", "Jax_CUDA13_PJRT"] {
        assert_eq!(here.installer().uninstall(name, &mut |_| {}).unwrap().name, "cuda13");
        here.install("cuda13").unwrap();
    }
}

#[test]
fn indexes_in_order() {
    let (vendor, public) = (IndexServer::start(&[Wheel::plugin("1")]), IndexServer::start(&[Wheel::plugin("2")]));
    let url = |server: &IndexServer| server.url();
    let version = |here: &Here| here.plan("acme-pjrt").unwrap().packages()[0].version();
    let only = Here::with("indexes", &[("PIP_INDEX_URL", &url(&vendor)), ("UV_DEFAULT_INDEX", &url(&public))]);
    assert_eq!(version(&only), "2");
    // The first index that has a package is used for it, so that another index cannot replace it.
    let extra = format!("http://127.0.0.1:9/ acme={}", url(&vendor));
    let extra = &extra[extra.find("acme").unwrap()..];
    let mut both = Here::with("indexes-2", &[("PIP_INDEX_URL", &url(&public)), ("UV_INDEX", extra)]);
    assert_eq!(version(&both), "1");
    both.settings = both.settings.index(&url(&public)).unwrap();
    assert_eq!(version(&both), "2");
    both.settings = both.settings.extra_index(&url(&vendor)).unwrap();
    assert_eq!(version(&both), "1");
    // Other programs may use such an address. It is an error only if it is needed.
    let invalid = Here::with("indexes-3", &[("PIP_INDEX_URL", &url(&public)), ("PIP_EXTRA_INDEX_URL", "file:///a")]);
    assert!(matches!(invalid.plan("acme-pjrt"), Err(InstallError::IndexUrl { .. })));
    let replaced = Here { settings: invalid.settings.index(&url(&public)).unwrap(), ..invalid };
    assert_eq!(version(&replaced), "2");
    assert!(matches!(Settings::of(both.discovery().elevated(true)), Err(InstallError::Elevated)));
}

#[test]
fn redirected_index() {
    let (index, other) = (IndexServer::start(&[Wheel::plugin("1")]), IndexServer::empty());
    other.route("/a/acme-pjrt/", Route { location: format!("{}/acme-pjrt/", index.url()), ..Route::default() });
    let here = Here::new("redirected", &format!("http://127.0.0.1:{}/a", other.port));
    assert_eq!(here.install("acme-pjrt").unwrap().record.version, "1");
    assert!(
        here.plan("acme-pjrt").unwrap().packages()[0]
            .url()
            .starts_with(&format!("http://127.0.0.1:{}/files/", index.port))
    );
}

#[test]
fn every_known_plugin_is_a_request() {
    // Anyone may own a package whose name is an alias.
    for (alias, name) in [("cpu", "xla-cpu"), ("CUDA", "cuda13"), ("rocm", "rocm7"), ("tenstorrent", "tt")] {
        assert_eq!(alias.parse::<InstallRequest>().unwrap().name(), name);
    }
    for known in known_plugins() {
        let request: InstallRequest = known.name.parse().unwrap();
        assert_eq!(request.known(), Some(known));
    }
}
