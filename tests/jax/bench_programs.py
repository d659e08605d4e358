"""Runs the programs in `programs/` on the CPU plugin and on JAX's own CPU backend, alternately in one process.

Usage: python bench_programs.py [--held-out] [--seconds S] [NAME ...]

Without names, runs the programs that are not held out; with `--held-out`, runs all. Needs the wheel of the CPU plugin.
Compares the results first. Prints a table of the kinds and a table of the programs, those with the largest ratios
first, and writes a chart of the kinds to `target/programs.svg`. A ratio is the value of the CPU plugin divided by that
of JAX's backend: of the median time of a call, of the time for compiling and the first call, and of the bytes of
temporaries.
"""

import argparse
import math
import os
import pathlib
import statistics
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "pjrt_cpu,cpu")

import jax  # noqa: E402
import numpy as np  # noqa: E402
import programs  # noqa: E402

CHART = pathlib.Path(__file__).parents[2] / "target/programs.svg"
#: A batch of calls takes at least this long, so that reading the clock does not matter.
BATCH = 1e-3
#: Programs whose temporaries are at most this large on both sides get no ratio of temporaries.
SMALL = 1 << 20


class Side:
    """A program that is compiled for one platform."""

    def __init__(self, program, platform):
        arguments = jax.device_put(program.arguments, jax.devices(platform)[0])
        lowered = jax.jit(program.function).lower(*arguments)
        start = time.perf_counter()
        compiled = lowered.compile()
        self.call = lambda: jax.block_until_ready(compiled(*arguments))
        self.results = [np.asarray(leaf) for leaf in jax.tree.leaves(self.call())]
        self.first = time.perf_counter() - start
        self.temporaries = compiled.memory_analysis().temp_size_in_bytes
        self.times = []

    def batch(self, calls):
        start = time.perf_counter()
        for _ in range(calls):
            self.call()
        return (time.perf_counter() - start) / calls


class Row:
    """The measured ratios of a program."""

    def __init__(self, program, seconds):
        self.program = program
        # The first side that runs a program may pay for what both need.
        order = ("pjrt_cpu", "cpu") if len(program.name) % 2 else ("cpu", "pjrt_cpu")
        sides = {platform: Side(program, platform) for platform in order}
        ours, theirs = sides["pjrt_cpu"], sides["cpu"]
        self.difference = difference(ours.results, theirs.results)
        calls = max(1, math.ceil(BATCH / min(ours.batch(2), theirs.batch(2))))
        end = time.perf_counter() + seconds
        while len(ours.times) < 5 or time.perf_counter() < end:
            for side in (ours, theirs):
                side.times.append(side.batch(calls))
        self.ours, self.theirs = statistics.median(ours.times), statistics.median(theirs.times)
        self.time = self.ours / self.theirs
        self.first = ours.first / theirs.first
        sizes = ours.temporaries, theirs.temporaries
        self.memory = max(sizes[0], SMALL) / max(sizes[1], SMALL) if max(sizes) > SMALL else None


def difference(ours, theirs):
    """Describes the first difference of results, or returns None."""
    if len(ours) != len(theirs):
        return f"{len(ours)} results, not {len(theirs)}"
    for number, (x, y) in enumerate(zip(ours, theirs)):
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"result {number} is {x.dtype}{x.shape}, not {y.dtype}{y.shape}"
        if x.dtype.kind in "biu":
            count = np.count_nonzero(x != y)
            # Rounding may change a comparison of floating-point numbers.
            if count > x.size // 1000:
                return f"result {number} differs in {count} of {x.size} integers"
            continue
        narrow = x.dtype.itemsize < 4
        wide = np.complex128 if x.dtype.kind == "c" else np.float64
        x, y = x.astype(wide), y.astype(wide)
        finite = np.isfinite(y)
        scale = np.max(np.abs(y[finite]), initial=0)
        close = np.isclose(x, y, rtol=0, atol=(3e-2 if narrow else 1e-3) * scale, equal_nan=True)
        if not close.all():
            return f"result {number} differs in {np.count_nonzero(~close)} of {x.size} numbers"
    return None


def mean(ratios):
    """The geometric mean of the ratios, if there are any."""
    ratios = [ratio for ratio in ratios if ratio is not None]
    return statistics.geometric_mean(ratios) if ratios else None


def formatted(ratio):
    return "-" if ratio is None else f"{ratio:.2f}"


def duration(seconds):
    unit, factor = next((u, f) for u, f in (("s", 1), ("ms", 1e3), ("µs", 1e6)) if seconds * f >= 1 or u == "µs")
    return f"{seconds * factor:.3g} {unit}"


def kind_rows(rows):
    """One line for each kind and one for all programs: means of the ratios."""
    kinds = {}
    for row in rows:
        kinds.setdefault(row.program.kind, []).append(row)
    groups = sorted(kinds.items(), key=lambda group: -mean(row.time for row in group[1]))
    groups.append(("all", rows))
    groups.append(("all that are held out", [row for row in rows if row.program.is_held_out]))
    for kind, group in groups:
        if group:
            worst = max(group, key=lambda row: row.time)
            first = statistics.median(row.first for row in group)
            time, memory = mean(row.time for row in group), mean(row.memory for row in group)
            slowest = f"{worst.time:.2f} ({worst.program.name})"
            yield kind, time, (len(group), formatted(time), slowest, formatted(first), formatted(memory))


def table(*lines):
    for number, line in enumerate(lines):
        print("|", " | ".join(map(str, line)), "|")
        if number == 0:
            print("|---|" + "--:|" * (len(line) - 1))
    print()


def chart(kinds):
    """Draws the mean ratio of each kind as a bar from 1 to the left (faster) or right, on a logarithmic scale."""
    at = lambda ratio: 330 + 100 * math.log2(min(max(ratio, 0.25), 4))
    height = 46 + 22 * len(kinds)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 620 {height}" width="620" font-family="sans-serif" '
        'font-size="12" fill="currentColor" role="img">',
        "<title>Time of the embedded CPU device divided by that of JAX's own CPU backend</title>",
    ]
    for ratio in (0.25, 0.5, 1, 2, 4):
        lines.append(f'<text x="{at(ratio)}" y="18" text-anchor="middle">{ratio}</text>')
        lines.append(f'<path d="M{at(ratio)} 26V{height - 8}" stroke="currentColor" stroke-opacity="0.4"/>')
    for number, (kind, ratio, _) in enumerate(kinds):
        y, left, right = 34 + 22 * number, at(min(ratio, 1)), at(max(ratio, 1))
        color = "#2b8a57" if ratio <= 1 else "#c2571a"
        lines.append(f'<text x="0" y="{y + 12}">{kind}</text>')
        lines.append(f'<rect x="{left:.1f}" y="{y}" width="{max(right - left, 1):.1f}" height="14" fill="{color}"/>')
        lines.append(f'<text x="560" y="{y + 12}">{ratio:.2f}</text>')
    CHART.parent.mkdir(exist_ok=True)
    CHART.write_text("\n".join([*lines, "</svg>", ""]))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    known = programs.load()
    for name in set(options.names) - {program.name for program in known}:
        sys.exit(f"no program is named {name}")
    rows = []
    for program in known:
        if program.name in options.names or (not options.names and (options.held_out or not program.is_held_out)):
            with jax.enable_x64(program.needs_x64):
                row = Row(program, options.seconds)
            rows.append(row)
            print(f"{program.name}: {row.time:.2f}", row.difference or "", file=sys.stderr, flush=True)
    kinds = list(kind_rows(rows))
    heads = "kind", "programs", "time, mean", "slowest", "compiling and first call, median", "temporaries, mean"
    table(heads, *((kind, *cells) for kind, _, cells in kinds))
    rows.sort(key=lambda row: -row.time)
    heads = "program", "kind", "CPU plugin", "JAX's backend", "time", "compiling and first call", "temporaries"
    table(heads, *(
        (row.program.name, row.program.kind, duration(row.ours), duration(row.theirs), formatted(row.time),
         formatted(row.first), formatted(row.memory))
        for row in rows
    ))
    chart(kinds)
    wrong = [f"{row.program.name}: {row.difference}" for row in rows if row.difference]
    sys.exit("\n".join(wrong) or None)


if __name__ == "__main__":
    main()
