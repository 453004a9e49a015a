"""A copy of scripts/ in a folder of its own, with stand-ins for every program that it could run."""

import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What the scripts themselves use is real.
TOOLS = ["awk", "bash", "cat", "cut", "dirname", "env", "flock", "grep", "head", "ldd", "mkdir", "nproc", "paste", "readlink", "rm",
         "sed", "sha256sum", "sleep", "sort", "tail", "touch", "tr"]
PROGRAMS = ["g++", "cmake", "ninja", "ccache", "git", "pkg-config", "clang-format", "python3"]
PACKAGES = ["catch2", "libbenchmark-dev", "libcli11-dev", "libsentencepiece-dev", "libspdlog-dev", "libyaml-cpp-dev", "nlohmann-json3-dev",
            "zlib1g-dev"]


class ScriptTest(unittest.TestCase):
    """Starts on a machine that has everything but LibTorch, as a user other than root."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.root = self.folder / "bov"
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        shutil.copytree(ROOT / "scripts", self.root / "scripts")
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool))
        for program in PROGRAMS:
            self.stand_in(program)
        self.stand_in("id", "echo 1000")
        self.install_packages(PACKAGES)

    def stand_in(self, name, script="exit 0"):
        self.write_script(self.bin / name, script)

    def write_script(self, path, script):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    def install_packages(self, packages):
        lines = "".join(f"{package} installed\n" for package in packages)
        self.stand_in("dpkg-query", f"echo -n '{lines}'; exit 1")

    def make_torch(self):
        folder = self.folder / "libtorch"
        config = folder / "share/cmake/Torch/TorchConfig.cmake"
        config.parent.mkdir(parents=True, exist_ok=True)
        config.touch()
        return folder

    def make_venv(self, pip="exit 0"):
        """A .venv without torch, whose pip notes its arguments and does as told."""
        self.write_script(self.root / ".venv/bin/python3",
                          f'if [[ ${{1:-}} == -m ]]; then echo "$*" >>"{self.folder}/pip.log"; {pip}; fi')

    def pip_calls(self):
        return (self.folder / "pip.log").read_text()

    def start(self, script, *arguments, **variables):
        environment = {"PATH": str(self.bin), "HOME": "/nonexistent", **{k: str(v) for k, v in variables.items()}}
        return subprocess.Popen([self.root / "scripts" / script, *arguments], env=environment, cwd="/", text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)

    def run_script(self, script, *arguments, **variables):
        process = self.start(script, *arguments, **variables)
        stdout, stderr = process.communicate()
        return subprocess.CompletedProcess(script, process.returncode, stdout, stderr)

    def check_failure(self, result, *messages):
        """One line of each message on standard error, and nothing else."""
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        self.assertEqual(result.stderr, "".join(f"bov: {message}\n" for message in messages))
