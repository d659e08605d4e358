#!/bin/sh
# Cargo calls this script instead of the compiler for the packages of the workspace, as `rustc.sh RUSTC ARGUMENT...`. It
# adds the options in COVERAGE for the packages in COVERED. `cargo xtask fuzz` sets both.
case " $COVERED " in
*" ${CARGO_PKG_NAME-} "*)
    # The options contain no spaces.
    # shellcheck disable=SC2086
    exec "$@" $COVERAGE
    ;;
esac
exec "$@"
