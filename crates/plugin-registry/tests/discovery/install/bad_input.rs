//! Packages that cannot be installed. Each error names the package or file, and nothing remains.

use std::fmt::Write;

use expect_test::expect;
use plugin_registry::install::InstallError;

use super::index_server::IndexServer;
use super::wheels::{Here, Wheel, elf};
use crate::common::{Elf, binaries};

/// Installs a wheel with this name as the package `acme-pjrt`.
fn error_of(test: &str, wheel: &Wheel, bytes: Option<Vec<u8>>) -> InstallError {
    let server = IndexServer::start(std::slice::from_ref(wheel));
    if let Some(bytes) = bytes {
        let hash = super::wheels::sha256(&bytes);
        let page = serde_json::json!({ "files": [{
            "filename": wheel.file_name(),
            "url": format!("/files/{}", wheel.file_name()),
            "hashes": { "sha256": hash },
            "size": bytes.len(),
        }] });
        server.change(wheel, |route| route.body = bytes);
        let kind = "application/vnd.pypi.simple.v1+json";
        let route = super::index_server::Route { kind, body: page.to_string().into_bytes(), ..Default::default() };
        server.route("/simple/acme-pjrt/", route);
    }
    let here = Here::new(test, &server.url());
    let error = here.install("acme-pjrt").unwrap_err();
    assert!(here.left().is_empty(), "{:?}", here.left());
    assert!(!here.machine.path("home/.local/share/pjrt/outside").exists());
    error
}

#[test]
fn wheels() {
    let plugin = || Wheel::plugin("1");
    let mut link = plugin().file("acme/link.so", "/etc/passwd");
    link.entries[1].2 = 0o120_777;
    let other = Elf { machine: binaries::AARCH64, ..elf().exporting() };
    let bomb = vec![0; 80 << 20];
    let cases = [
        ("no library", Wheel::new("acme-pjrt", "1").file("acme/__init__.py", "")),
        ("no plugin", Wheel::new("acme-pjrt", "1").library("acme/a.so", &elf()).library("acme/b.so", &elf())),
        ("not a library", Wheel::new("acme-pjrt", "1").file("acme/a.so", "GetPjrtApi")),
        ("other architecture", Wheel::new("acme-pjrt", "1").library("acme/acme.so", &other)),
        ("outside", plugin().file("../../../../outside", "")),
        ("data outside", plugin().file("acme_pjrt-1.data/data/../../../outside", "")),
        ("absolute", plugin().file("/tmp/outside", "")),
        ("drive", plugin().file("C:/outside", "")),
        ("backslash", plugin().file("..\\..\\outside", "")),
        ("control character", plugin().file("acme/\u{1b}[2J", "")),
        ("link", link),
        ("bomb", plugin().file("acme/bomb", bomb)),
        ("file and folder", plugin().file("acme/acme.so/x", "")),
        ("other system", plugin().tags("py3-none-win_amd64.macosx_11_0_arm64")),
    ];
    let mut messages = String::new();
    for (name, wheel) in cases {
        let error = error_of(&format!("bad-{}", name.replace(' ', "-")), &wheel, None);
        if name == "file and folder" {
            assert!(matches!(error, InstallError::Io { .. }), "{error}");
            continue;
        }
        // Paths have the same form on every system.
        let error = error.to_string().replace(r"\\", "/").replace('\\', "/");
        writeln!(messages, "{name}: {error}").unwrap();
    }
    expect![[r#"
        no library: acme-pjrt 1 is not a PJRT plugin: it contains no shared library; install the package that contains the plugin
        no plugin: acme-pjrt 1 is not a PJRT plugin: none of its 2 shared libraries exports GetPjrtApi; install the package that contains the plugin
        not a library: acme-pjrt 1 is not a PJRT plugin: its shared library does not export GetPjrtApi; install the package that contains the plugin
        other architecture: acme-pjrt 1: lib/python3/site-packages/acme/acme.so was built for aarch64 on Linux, and this program runs on x86_64 on Linux: install the build for this host
        outside: acme_pjrt-1-py3-none-manylinux_2_17_x86_64.whl is not a wheel that can be unpacked: "../../../../outside" is not a path below its folder; report this to the package's authors
        data outside: acme_pjrt-1-py3-none-manylinux_2_17_x86_64.whl is not a wheel that can be unpacked: "acme_pjrt-1.data/data/../../../outside" is not a path below its folder; report this to the package's authors
        absolute: acme_pjrt-1-py3-none-manylinux_2_17_x86_64.whl is not a wheel that can be unpacked: "/tmp/outside" is not a path below its folder; report this to the package's authors
        drive: acme_pjrt-1-py3-none-manylinux_2_17_x86_64.whl is not a wheel that can be unpacked: "C:/outside" is not a path below its folder; report this to the package's authors
        backslash: acme_pjrt-1-py3-none-manylinux_2_17_x86_64.whl is not a wheel that can be unpacked: "../../outside" is not a path below its folder; report this to the package's authors
        control character: acme_pjrt-1-py3-none-manylinux_2_17_x86_64.whl is not a wheel that can be unpacked: "acme//u{1b}[2J" is not a path below its folder; report this to the package's authors
        link: acme_pjrt-1-py3-none-manylinux_2_17_x86_64.whl is not a wheel that can be unpacked: "acme/link.so" is a link; report this to the package's authors
        bomb: acme_pjrt-1-py3-none-manylinux_2_17_x86_64.whl is not a wheel that can be unpacked: it unpacks to more than 100 times its size; report this to the package's authors
        other system: acme-pjrt has no wheel for this machine (x86_64 on Linux, glibc 2.36); only for macosx_11_0_arm64, win_amd64; ask its authors for one
    "#]].assert_eq(&messages);
}

#[test]
fn archives() {
    let wheel = Wheel::plugin("1");
    let good = wheel.bytes();
    let mut unequal = good.clone();
    // The size in the directory of the archive, which follows the hash and the compressed size.
    let directory = unequal.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
    unequal[directory + 24..directory + 28].copy_from_slice(&7u32.to_le_bytes());
    let mut damaged = good.clone();
    damaged[80] ^= 0xff;
    let mut encrypted = good.clone();
    encrypted[directory + 8] |= 1;
    for (name, bytes) in [
        ("not an archive", b"<html>".to_vec()),
        ("empty", Vec::new()),
        ("cut", good[..good.len() - 30].to_vec()),
        ("other size", unequal),
        ("damaged", damaged),
        ("encrypted", encrypted),
    ] {
        let error = error_of(&format!("archive-{}", name.replace(' ', "-")), &wheel, Some(bytes));
        assert!(matches!(error, InstallError::BadWheel { .. }), "{name}: {error}");
    }
}

#[test]
fn messages() {
    let server = IndexServer::start(&[Wheel::plugin("1"), Wheel::plugin("2rc1"), Wheel::new("acme-source", "1")]);
    let here = Here::new("messages", &server.url());
    let mut messages = String::new();
    server.add(&Wheel::new("acme-yanked", "1"), |entry| entry["yanked"] = true.into());
    for request in [
        "",
        "../acme",
        "acme-pjrt=1",
        "acme-pjrt==1; extra == 'x'",
        "acme-pjrt>2",
        "acme-pjrt==3",
        "nothing",
        "acme-yanked",
        "acme @ http://x",
    ] {
        let error = here.plan(request).unwrap_err().to_string();
        writeln!(messages, "{request:?}: {error}").unwrap();
    }
    for url in ["example.com", "ftp://me:secret@example.com", "https://"] {
        let error = here.settings.clone().index(url).unwrap_err();
        writeln!(messages, "{error}").unwrap();
    }
    let error = here.installer().uninstall("acme", &mut |_| {}).unwrap_err();
    writeln!(messages, "{error}").unwrap();
    let messages = messages.replace(&format!(":{}/", server.port), ":PORT/");
    expect![[r#"
        "": "" cannot be installed: "" is not a package's name; write a name such as `xla-cpu` or `libtpu==0.0.52`
        "../acme": "../acme" cannot be installed: ".." is not a package's name; write a name such as `xla-cpu` or `libtpu==0.0.52`
        "acme-pjrt=1": "acme-pjrt=1" cannot be installed: "=1" is not a version: no such comparison operator "=", must be one of ~= == != <= >= < > ===; write a name such as `xla-cpu` or `libtpu==0.0.52`
        "acme-pjrt==1; extra == 'x'": "acme-pjrt==1; extra == 'x'" cannot be installed: it has a marker; write a name such as `xla-cpu` or `libtpu==0.0.52`
        "acme-pjrt>2": no version of acme-pjrt satisfies acme-pjrt>2 (required by the request); request one that has a wheel for this machine: 2rc1, 1
        "acme-pjrt==3": no version of acme-pjrt satisfies acme-pjrt==3 (required by the request); request one that has a wheel for this machine: 2rc1, 1
        "nothing": no package "nothing" in http://127.0.0.1:PORT/simple/: correct the name, or add an index that has it (--extra-index)
        "acme-yanked": no version of acme-yanked satisfies the request, because all are yanked; request one that has a wheel for this machine: 1
        "acme @ http://x": "acme @ http://x" cannot be installed: a requirement with an address is not supported; write a name such as `xla-cpu` or `libtpu==0.0.52`
        "example.com" is not the address of an index (relative URL without a base): write one such as https://pypi.org/simple
        "ftp://example.com" is not the address of an index (only http and https are supported): write one such as https://pypi.org/simple
        "https://" is not the address of an index (empty host): write one such as https://pypi.org/simple
        no plugin "acme" is installed in ROOT/home/.local/share/pjrt/installed; the folder contains no plugins
    "#]].assert_eq(&here.machine.relative(&messages));
}
