#!/usr/bin/env bash
# All that a change of the plugin must pass, for any CI: needs Rust and the `pjrt` command.
#   PJRT=…     the command, where it is not in PATH
#   PYTHON=…   an interpreter with JAX; pypjrt's conformance suite runs where that is installed, too
set -euo pipefail
cd "$(dirname "$0")"
pjrt=${PJRT:-pjrt} python=${PYTHON:-python3}

echo "== tests, through the caller's side of PJRT"
cargo test --quiet

echo "== the library that users get"
cargo build --quiet --release
target=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
case $(uname) in
Darwin) name=libpjrt_plugin_minimal.dylib ;;
*) name=libpjrt_plugin_minimal.so ;;
esac
library=$target/release/$name
"$pjrt" inspect --plugin "$library"

echo "== x + 1"
found=$("$pjrt" run --plugin "$library" programs/add_one.mlir f32[4]=0,1,2,3)
echo "$found"
grep -q '1.0, 2.0, 3.0, 4.0' <<<"$found"

echo "== a wheel for JAX and PyTorch/XLA"
"$pjrt" package --library "$library" --output "$target/wheels" --force

echo "== JAX"
if "$python" -c 'import jax' 2>/dev/null; then
    "$python" tests/jax_add_one.py "$library"
else
    echo "SKIPPED JAX: $python has none"
fi

echo "== conformance"
if "$python" -c 'import pypjrt' 2>/dev/null; then
    # The suite's programs are text, which the library that users get does not read.
    cargo build --quiet --features text
    "$python" -m pypjrt.conform "$target/debug/$name"
else
    echo "SKIPPED conformance: $python has no pypjrt"
fi
