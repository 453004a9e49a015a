"""Programs outside the tree use bov as docs/embedding.md says: installed, from packages, as a subdirectory, by FetchContent.

Usage: consumer_test.py BUILD_FOLDER LIBTORCH CXX [LAUNCHER...]

BUILD_FOLDER is where bov was built, CXX its compiler, LAUNCHER what is put before it: ccache and its settings.
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/embedding.md").read_text()
CONSUMERS = ROOT / "tests/consumer"
VERSION = re.search(r"project\(bov VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
MINOR = VERSION.rpartition(".")[0]
BANK_OUTPUT = f"bov {VERSION}: values [1, 3, 2, 16]\ngradient of row 7: 2, of row 42: 1, of row 8: 0\n"
# All that embedding needs of the source tree.
SOURCES = ("CMakeLists.txt", "CMakePresets.json", "LICENSE", "bov", "cmake", "csrc")
# Flags that do not come from bov: the consumer's own, and the standard, which a target may ask for.
CONSUMER_FLAGS = {"-Wall", "-Wextra", "-Werror", "-std=gnu++17", "-std=gnu++20", "-std=c++20"}


def blocks(language):
    """The fenced blocks of the page."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def commands(block):
    return block.replace("\\\n", " ").splitlines()


class Consumers(unittest.TestCase):
    """In a folder with copies of the consumers and of bov's sources, where no path leads back to the tree."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="bov_consumer_")
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name).resolve()
        cls.source = cls.folder / "bov"
        cls.source.mkdir()
        for name in SOURCES:
            (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, cls.source / name)
        shutil.copytree(CONSUMERS, cls.folder / "consumer")
        # No optimization and no debug information are the fastest to compile.
        cls.environment = {**os.environ, "CXX": CXX, "CMAKE_GENERATOR": "Ninja", "CMAKE_BUILD_TYPE": "None",
                           "CMAKE_EXPORT_COMPILE_COMMANDS": "ON", "CMAKE_BUILD_PARALLEL_LEVEL": "2", "LIBTORCH": TORCH, "BOV_TORCH": TORCH}
        if LAUNCHER:
            cls.environment |= dict(word.split("=", 1) for word in LAUNCHER if "=" in word)
            cls.environment |= {"CMAKE_CXX_COMPILER_LAUNCHER": LAUNCHER[-1], "CCACHE_BASEDIR": str(cls.folder)}

    def run_command(self, *command, cwd=None, **variables):
        words = [str(word) for word in command]
        result = subprocess.run(words, cwd=cwd, env={**self.environment, **variables}, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(result.returncode, 0, f"{shlex.join(words)} failed:\n{result.stdout}")
        return result.stdout

    def run_shell(self, command, cwd, home):
        """A command of the page. What was built is the build under test."""
        return self.run_command("bash", "-c", command.replace("build/release", str(BUILD)), cwd=cwd, HOME=str(home))

    def use_installed(self, home):
        """What the program prints that is built against HOME/bov, as the page says."""
        shutil.copytree(CONSUMERS / "find_package", home / "my_model")
        return [self.run_shell(command, home / "my_model", home) for command in commands(blocks("sh")[1])][-1]

    def check_flags(self, build):
        """The consumer's source is compiled with its own flags alone."""
        (command,) = [entry["command"] for entry in json.loads((build / "compile_commands.json").read_text())
                      if entry["file"].endswith("main.cpp")]
        words = shlex.split(command)
        words = words[words.index(CXX) + 1:]
        flags = set()
        while words:
            word = words.pop(0)
            if word in ("-isystem", "-o", "-c"):
                words.pop(0)
            elif not word.startswith("-I"):
                flags.add(word)
        self.assertEqual(flags - CONSUMER_FLAGS, set())

    def check_runpath(self, runpath):
        """A library finds what lies beside it, then CUDA's runtime, and looks nowhere else."""
        beside, *others = runpath.split(":")
        self.assertEqual(beside, "$ORIGIN")
        for folder in map(pathlib.Path, others):
            self.assertTrue(list(folder.glob("libcudart.so*")), f"{folder} holds no CUDA runtime")
            for place in map(pathlib.Path, (BUILD, ROOT, TORCH)):
                self.assertFalse(folder.resolve().is_relative_to(place.resolve()), f"{folder} lies in {place}")

    def check_prefix(self, prefix):
        """Nothing names the build's place or LibTorch's, libraries are versioned, headers lie in a folder of their own."""
        for file in (prefix / "lib/cmake/bov").iterdir():
            for place in (BUILD, ROOT, TORCH):
                self.assertNotIn(str(place), file.read_text(), file)
        for name in ("libbov", "libbov_ops"):
            library = prefix / f"lib/{name}.so"
            self.assertEqual(str(library.readlink()), f"{name}.so.{MINOR}")
            self.assertEqual(str((prefix / f"lib/{name}.so.{MINOR}").readlink()), f"{name}.so.{VERSION}")
            dynamic = self.run_command("readelf", "-d", library)
            self.assertIn(f"[{name}.so.{MINOR}]", dynamic)
            (runpath,) = re.findall(r"runpath: \[(.*)\]", dynamic)
            self.check_runpath(runpath)
        self.assertEqual([path.name for path in (prefix / "include").iterdir()], [f"bov-{MINOR}"])
        headers = prefix / f"include/bov-{MINOR}"
        self.assertEqual(sorted(path.name for path in headers.iterdir()), ["bov", "csrc"])
        listed = re.findall(r"^\| `(\S+\.h)` \| (?:yes|no) \|", (ROOT / "docs/api.md").read_text(), re.MULTILINE)
        installed = [path.relative_to(headers).as_posix() for path in headers.rglob("*") if path.is_file()]
        self.assertEqual(sorted(listed), sorted(installed))

    def test_the_page_shows_what_is_tested(self):
        for name in ("find_package", "add_subdirectory", "fetch_content"):
            self.assertIn((CONSUMERS / name / "CMakeLists.txt").read_text(), blocks("cmake"))
        self.assertIn((CONSUMERS / "find_package/main.cpp").read_text(), blocks("cpp"))
        self.assertIn(f"```\n{BANK_OUTPUT}```", PAGE)

    def test_install_and_move(self):
        setup, configure, build, install = commands(blocks("sh")[0])
        self.assertEqual((setup, build), ("scripts/setup", "cmake --build build/release"))  # both are done
        self.run_command("bash", "-c", configure, cwd=self.source)
        targets = self.run_command("ninja", "-C", self.source / "build/release", "-t", "targets", "all")
        self.assertNotRegex(targets, r"(?m)^(bov_program|\w+_test|\w+_example):")
        staged, home = self.folder / "staged", self.folder / "installed"
        self.run_shell(install, self.source, staged)
        staged.rename(home)
        self.assertEqual(self.use_installed(home), BANK_OUTPUT)
        self.check_flags(home / "my_model/build")
        self.check_prefix(home / "bov")

    @unittest.skipUnless(shutil.which("dpkg"), "dpkg is not installed")
    def test_packages(self):
        (command,) = [line for block in blocks("sh") for line in commands(block) if line.startswith("cpack")]
        self.run_shell(command, self.folder, self.folder)
        (package,) = (self.folder / "packages").glob("*.deb")
        (archive,) = (self.folder / "packages").glob("*.tar.gz")
        for file in (package, archive):
            self.assertIn(f"packages/{file.name}", PAGE)
        with self.subTest(package=package.name):
            self.check_debian_package(package)
        with self.subTest(package=archive.name):
            home = self.folder / "tar"
            home.mkdir()
            self.run_command("tar", "-xf", archive, "-C", home)
            (home / archive.name.removesuffix(".tar.gz")).rename(home / "bov")
            self.assertEqual(self.use_installed(home), BANK_OUTPUT)

    def check_debian_package(self, package):
        """dpkg installs it in a system that has nothing else, a program uses it there, and nothing is left once it is removed."""
        home = self.folder / "deb"
        root, database = home / "system", home / "system/var/lib/dpkg"
        for name in ("info", "updates"):
            (database / name).mkdir(parents=True)
        (database / "status").touch()
        # The package's scripts call ldconfig, which this system lacks, as it lacks what the package depends on.
        (home / "ldconfig").write_text('#!/bin/sh\ntouch "$DPKG_ROOT/ldconfig_was_called"\n')
        (home / "ldconfig").chmod(0o755)
        path = f"{home}:{os.environ['PATH']}:/usr/sbin:/sbin"
        dpkg = ("dpkg", f"--root={root}", f"--log={home}/dpkg.log", "--force-not-root", "--force-depends", "--force-script-chrootless")
        self.run_command(*dpkg, "--install", package, PATH=path)
        shown = self.run_command("dpkg-query", f"--admindir={database}", "--show",
                                 "--showformat=${Package} ${Version} ${Status}: ${Depends}", "libbov-dev")
        self.assertEqual(shown, f"libbov-dev {VERSION} install ok installed: libc6, libstdc++6, zlib1g")
        self.assertTrue((root / "ldconfig_was_called").exists())
        (home / "bov").symlink_to(root / "usr")
        self.assertEqual(self.use_installed(home), BANK_OUTPUT)
        self.run_command(*dpkg, "--purge", "libbov-dev", PATH=path)
        self.assertFalse((root / "usr").exists())

    def test_without_its_libtorch_bov_is_not_found(self):
        """That is an error where bov is required, and only there."""
        home = self.folder / "choosing"
        self.run_command("cmake", "--install", BUILD, "--prefix", home / "bov")
        other = home / "libtorch"
        header = other / "include/torch/headeronly/version.h"
        header.parent.mkdir(parents=True)
        header.write_text("#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR 99\n")
        (other / "share/cmake/Torch").mkdir(parents=True)
        (other / "share/cmake/Torch/TorchConfig.cmake").touch()
        (home / "python3").write_text("#!/bin/sh\nexit 1\n")  # a Python without torch
        (home / "python3").chmod(0o755)
        (home / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.25)\n"
                                             "project(choosing NONE)\n"
                                             "find_package(bov CONFIG ${WISH})\n"
                                             "message(STATUS \"found: '${bov_FOUND}', because: ${bov_NOT_FOUND_MESSAGE}\")\n")
        for torch, reason in [(home / "none", f"BOV_TORCH is '{home}/none', which holds no share/cmake/Torch/TorchConfig.cmake; "
                                              "point it to a LibTorch folder"),
                              ("", "LibTorch was not found; set BOV_TORCH or CMAKE_PREFIX_PATH to a LibTorch folder"),
                              (other, rf"bov was built with LibTorch [\d.]+, {other} is 2.99")]:
            with self.subTest(reason=reason):
                command = ["cmake", "-S", home, "-B", home / "build", f"-DCMAKE_PREFIX_PATH={home}/bov", f"-DBOV_TORCH={torch}"]
                lacking = {"PATH": f"{home}:{os.environ['PATH']}", "VIRTUAL_ENV": str(home / "none"), "CMAKE_PREFIX_PATH": ""}
                self.assertRegex(self.run_command(*command, "-DWISH=QUIET", **lacking), f"-- found: '0', because: {reason}\n")
                result = subprocess.run([*command, "-DWISH=REQUIRED"], env={**self.environment, **lacking}, text=True, capture_output=True)
                self.assertNotEqual(result.returncode, 0)
                self.assertRegex(" ".join(result.stderr.split()), reason)

    def embed(self, name):
        """Builds a consumer that builds bov; its build folder and what it prints."""
        build = self.folder / "consumer" / name / "build"
        self.run_command("cmake", "-S", build.parent, "-B", build, f"-DBOV_SOURCE={self.source}", "-DBOV_WITH_CUDA=OFF",
                         f"-DCMAKE_PROJECT_my_model_INCLUDE={self.folder}/consumer/in_batches.cmake")
        self.run_command("cmake", "--build", build)
        self.check_flags(build)
        return build, self.run_command(build / "my_model")

    def test_add_subdirectory(self):
        build, output = self.embed("add_subdirectory")
        self.assertEqual(output, BANK_OUTPUT)
        # Libraries alone: no program, no test, none of their packages, nothing to fetch or install.
        targets = self.run_command("ninja", "-C", build, "-t", "targets", "all")
        self.assertNotRegex(targets, r"(?m)^(bov_program|bov_experiments|\w+_test|\w+_example):")
        self.assertNotRegex((build / "CMakeCache.txt").read_text(), "yaml|spdlog|CLI11|Catch2|benchmark|sentencepiece")
        self.assertNotRegex((build / "_deps/bov-build/cmake_install.cmake").read_text(), r"file\(INSTALL")

    def test_add_subdirectory_with_what_is_found(self):
        """With CUDA where it can be built, which makes LibTorch's own targets part of the project; nvcc may lie outside its toolkit."""
        build, programs = self.folder / "found", self.folder / "programs"
        programs.mkdir()
        nvcc = re.search(r"^BOV_NVCC:FILEPATH=(/.+)$", (BUILD / "CMakeCache.txt").read_text(), re.MULTILINE)
        if nvcc:
            (programs / "nvcc").write_text(f'#!/bin/sh\nexec {shlex.quote(nvcc[1])} "$@"\n')
            (programs / "nvcc").chmod(0o755)
        self.run_command("cmake", "-S", self.folder / "consumer/add_subdirectory", "-B", build, f"-DBOV_SOURCE={self.source}",
                         "-DBOV_INSTALL=ON", PATH=f"{programs}:{os.environ['PATH']}")
        if nvcc:
            self.assertIn(f"BOV_NVCC:FILEPATH={programs}/nvcc\n", (build / "CMakeCache.txt").read_text())
        runpaths = re.findall(r'NEW_RPATH "\\([^"]*)"', (build / "_deps/bov-build/cmake_install.cmake").read_text())
        self.assertTrue(runpaths)
        for runpath in runpaths:
            self.check_runpath(runpath)

    def test_fetch_content(self):
        build, output = self.embed("fetch_content")
        self.assertEqual(output, f"bov {VERSION}: rows are those of the table\n")
        self.assertEqual([path.name for path in build.rglob("libbov*.so*")], ["libbov_ops.so"])


if __name__ == "__main__":
    _, BUILD, TORCH, CXX, *LAUNCHER = sys.argv
    BUILD = pathlib.Path(BUILD)
    unittest.main(argv=sys.argv[:1])
