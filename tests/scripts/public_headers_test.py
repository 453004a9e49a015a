"""Each public header compiles alone: it includes all that it uses.

Usage: public_headers_test.py FOLDER LIBTORCH CXX [LAUNCHER...]

LibTorch's headers take nearly all the time of a compilation. So headers that include each other share one, in an order in which
each includes the one before it, and the most common of LibTorch's is precompiled in FOLDER for those that bring it anyway: either
way a header finds nothing there that it does not include, itself or through others.
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
PRECOMPILED, PREFIX = "torch/types.h", "precompiled.h"
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


@functools.cache
def reached(header):
    """The header and all that it includes."""
    found, waiting = set(), [header]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += includes_of(name)
    return found


def standard_of(header):
    """What the targets ask of a program that includes it."""
    return "c++17" if header.startswith("csrc/") else "c++20"


def make_chains(headers):
    """Lists of headers of one standard in which each includes the one before it, and all bring PRECOMPILED or none does."""
    chains = []
    for header in sorted(headers, key=lambda header: len(reached(header))):
        for chain in sorted(chains, key=len, reverse=True):
            same = standard_of(chain[0]) == standard_of(header) and (PRECOMPILED in reached(chain[0])) == (PRECOMPILED in reached(header))
            if same and chain[-1] in reached(header):
                chain.append(header)
                break
        else:
            chains.append([header])
    return chains


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


def compile_chain(chain):
    """What is wrong, if anything."""
    source = write(chain[-1].replace("/", "__") + ".cpp", [f'"{header}"' for header in chain * 2])  # twice: they guard themselves
    prefix = ("-include", PREFIX) if PRECOMPILED in reached(chain[0]) else ()
    return compile_file(standard_of(chain[0]), source, source + ".o", *prefix)


class PublicHeaders(unittest.TestCase):
    def test_each_compiles_alone(self):
        headers = re.findall(r"^\| `(\S+\.h)` \|", (ROOT / "docs/api.md").read_text(), re.MULTILINE)
        chains = make_chains(headers)
        self.assertEqual(sorted(sum(chains, [])), sorted(headers))
        self.assertEqual(compile_file("c++20", write(PREFIX, [f"<{PRECOMPILED}>"]), f"{PREFIX}.gch", "-x", "c++-header"), "")
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for chain, problem in zip(chains, pool.map(compile_chain, chains)):
                with self.subTest(chain=chain):
                    self.assertEqual(problem, "")
        (FOLDER / f"{PREFIX}.gch").unlink()  # half a gigabyte; ccache keeps a smaller one

    def test_a_missing_include_is_found(self):
        (FOLDER / "missing.h").write_text("inline std::vector<int> missing() { return {}; }\n")
        problem = compile_file("c++20", write("missing.cpp", ['"missing.h"']), "missing.o")
        self.assertIn("error", problem)


if __name__ == "__main__":
    _, FOLDER, TORCH, CXX, *LAUNCHER = sys.argv
    FOLDER = pathlib.Path(FOLDER)
    FOLDER.mkdir(parents=True, exist_ok=True)
    unittest.main(argv=sys.argv[:1])
