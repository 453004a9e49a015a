"""Each public header compiles alone: it includes all that it uses.

Usage: public_headers_test.py FOLDER LIBTORCH CXX [LAUNCHER...]

LibTorch's headers take nearly all the time of a compilation. So those that a header brings, itself or through others of
bov, are precompiled in FOLDER, once for all headers that bring the same ones, and never more than these.
"""

import concurrent.futures
import functools
import pathlib
import re
import shlex
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]', re.MULTILINE)
FLAGS = ("-Wall", "-Wextra", "-Werror", "-Winvalid-pch", "-Wno-unused-parameter", "-O0", f"-I{ROOT}")


def torch_folders():
    return pathlib.Path(TORCH, "include"), pathlib.Path(TORCH, "include/torch/csrc/api/include")


@functools.cache
def includes_of(name):
    """What the file includes directly, of bov and of LibTorch."""
    for folder in (ROOT, *torch_folders()):
        if (folder / name).is_file():
            return frozenset(INCLUDE.findall((folder / name).read_text(errors="replace")))
    return frozenset()


def reached(names, follow):
    """The names and what they include, through files that `follow` accepts."""
    found, waiting = set(), list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            if follow(name):
                waiting += includes_of(name)
    return found


def of_torch(name):
    return name.startswith(("torch/", "ATen/", "c10/"))


@functools.cache
def reached_in_torch(name):
    return reached(includes_of(name), lambda _: True)


def torch_headers(header):
    """LibTorch's headers that this one brings, without those that others of them bring."""
    brought = {name for name in reached([header], lambda name: not of_torch(name)) if of_torch(name)}
    return tuple(sorted(name for name in brought if not any(name in reached_in_torch(other) for other in brought - {name})))


def compile_file(standard, source, output, *flags):
    system = [word for folder in torch_folders() for word in ("-isystem", str(folder))]
    command = [*LAUNCHER, CXX, f"-std={standard}", *FLAGS, *system, *flags, "-c", source, "-o", output]
    result = subprocess.run(command, cwd=FOLDER, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return "" if result.returncode == 0 else f"{shlex.join(command)}\n{result.stdout}"


def write(name, includes):
    """A file in FOLDER; one that is there already keeps its time."""
    text = "".join(f"#include {include}\n" for include in includes)
    file = FOLDER / name
    if not file.exists() or file.read_text() != text:
        file.write_text(text)
    return name


def check_group(number, standard, precompiled, headers):
    """What is wrong, by header."""
    prefix = write(f"group_{number}.h", [f"<{name}>" for name in precompiled])
    problem = compile_file(standard, prefix, f"{prefix}.gch", "-x", "c++-header")
    if problem:
        return {" ".join(precompiled): problem}
    problems = {}
    for header in headers:
        source = write(header.replace("/", "__") + ".cpp", [f'"{header}"'] * 2)  # twice: it guards itself
        problem = compile_file(standard, source, source + ".o", "-include", prefix)
        if problem:
            problems[header] = problem
    (FOLDER / f"{prefix}.gch").unlink()  # half a gigabyte; ccache keeps a smaller one
    return problems


class PublicHeaders(unittest.TestCase):
    def test_each_compiles_alone(self):
        headers = re.findall(r"^\| `(\S+\.h)` \|", (ROOT / "docs/api.md").read_text(), re.MULTILINE)
        groups = {}
        for header in headers:
            # What the targets ask of a program that includes it.
            standard = "c++17" if header.startswith("csrc/") else "c++20"
            groups.setdefault((standard, torch_headers(header)), []).append(header)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            results = pool.map(lambda numbered: check_group(numbered[0], *numbered[1][0], numbered[1][1]), enumerate(sorted(groups.items())))
            for problems in results:
                for header, problem in problems.items():
                    with self.subTest(header=header):
                        self.fail(problem)

    def test_a_missing_include_is_found(self):
        (FOLDER / "missing.h").write_text("inline std::vector<int> missing() { return {}; }\n")
        problem = compile_file("c++20", write("missing.cpp", ['"missing.h"']), "missing.o")
        self.assertIn("error", problem)


if __name__ == "__main__":
    _, FOLDER, TORCH, CXX, *LAUNCHER = sys.argv
    FOLDER = pathlib.Path(FOLDER)
    FOLDER.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=sys.argv[:1])
