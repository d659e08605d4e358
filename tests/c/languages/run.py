"""Runs programs in other languages that import the C headers. Arguments: folder of the headers, path of the shared
library, folder for what is built. PJRT_NAMES_AND_LIBRARY_PATHS must name the CPU device `pjrt_cpu`.

Uses no network. The tests of a language are skipped if its tools are missing: cffi and ziglang, which requirements.txt
names, are packages of the Python that runs this file; `go` with a C compiler, and `mcs` with `mono`, are programs."""
import hashlib
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 300


class Skipped(Exception):
    """A tool is missing."""


def needs(present, tool):
    if not present:
        raise Skipped(f"no {tool}")


def run(*command, **variables):
    environment = os.environ | {name: str(value) for name, value in variables.items()}
    done = subprocess.run([str(part) for part in command], cwd=HERE, env=environment, check=True, timeout=SECONDS,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout


def has_package(name):
    return importlib.util.find_spec(name) is not None


def python(include, library, work):
    needs(has_package("cffi"), "cffi in this Python")
    run(sys.executable, "-B", HERE / "caller.py", include, library)


def go(include, library, work):
    needs(shutil.which("go"), "go")
    needs(shutil.which(os.environ.get("CC", "cc")), "C compiler")
    program = work / "caller-go"
    # Go's cache does not notice changes of headers, but those of flags.
    headers = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(include.glob("device_plugin/*.h"))))
    run("go", "build", "-o", program, HERE / "caller.go", CGO_ENABLED=1,
        CGO_CFLAGS=f"-I{include} -DHEADERS=0x{headers.hexdigest()}",
        CGO_LDFLAGS=f"-L{library.parent} -ldevice_plugin -Wl,-rpath,{library.parent}", CC=os.environ.get("CC", "cc"),
        GO111MODULE="off", GOCACHE=work / "go-cache", GOPATH=work / "go-path", GOPROXY="off", GOTOOLCHAIN="local")
    run(program)


def zig(include, library, work):
    needs(has_package("ziglang"), "ziglang in this Python")
    zig, caches = [sys.executable, "-m", "ziglang"], ["--cache-dir", work / "zig", "--global-cache-dir", work / "zig"]
    translated, program = work / "device_plugin.zig", work / "caller-zig"
    text = run(*zig, "translate-c", include / "device_plugin.h", "-I", include, "-lc", *caches)
    translated.write_bytes(text)
    run(*zig, "build-exe", "--dep", "c", f"-Mroot={HERE / 'caller.zig'}", f"-Mc={translated}", "-L", library.parent,
        "-ldevice_plugin", "-lc", "-rpath", library.parent, *caches, f"-femit-bin={program}")
    run(program)


def csharp_declarations(include, library, work):
    needs(has_package("cffi"), "cffi in this Python")
    for name in "DevicePlugin.cs", "Sizes.cs":
        (work / name).unlink(missing_ok=True)
    run(sys.executable, "-B", HERE / "csharp.py", include, library, work)


def csharp(include, library, work):
    needs(has_package("cffi"), "cffi in this Python")
    needs(shutil.which("mcs") and shutil.which("mono"), "mcs and mono")
    program = work / "Caller.exe"
    run("mcs", "-unsafe", f"-out:{program}", HERE / "Caller.cs", work / "DevicePlugin.cs", work / "Sizes.cs")
    folders = [str(library.parent), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
    run("mono", program, LD_LIBRARY_PATH=os.pathsep.join(folders))


def outcome(test, *arguments):
    """What to print about a test, and whether it failed."""
    try:
        test(*arguments)
    except Skipped as why:
        return f"SKIPPED ({why})", False
    except subprocess.CalledProcessError as error:
        said = error.stdout.decode(errors="replace").strip()
        return f"FAILED ({pathlib.Path(error.cmd[0]).name}: exit status {error.returncode})\n{said}", True
    except subprocess.TimeoutExpired as error:
        return f"FAILED ({pathlib.Path(error.cmd[0]).name}: no end after {SECONDS} s)", True
    return "ok", False


def main(include, library, work):
    paths = [pathlib.Path(path).resolve() for path in (include, library, work)]
    paths[2].mkdir(parents=True, exist_ok=True)
    tests = {"Python (cffi)": python, "Go (cgo)": go, "Zig (translate-c)": zig, "C# declarations": csharp_declarations,
             "C# (P/Invoke)": csharp}
    failed = False
    for name, test in tests.items():
        line, bad = outcome(test, *paths)
        print(f"languages: {name} ... {line}", flush=True)
        failed |= bad
    return int(failed)


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(f"usage: {sys.argv[0]} INCLUDE_FOLDER SHARED_LIBRARY WORK_FOLDER")
    sys.exit(main(*sys.argv[1:]))
