#!/bin/sh
# Rustdoc with its unstable JSON output, for `cargo xtask public-api`. The variable is set here and not for Cargo, because
# build scripts of dependencies observe it and would run again.
RUSTC_BOOTSTRAP=1 exec rustdoc "$@"
