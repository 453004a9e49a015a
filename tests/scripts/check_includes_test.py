"""scripts/check_includes passes on this repository and finds each kind of violation planted in a folder."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

CLEAN = {
    "csrc/kernels/op.cu": "#include <cstdint>\n",
    "csrc/op.cpp": "#include <ATen/ATen.h>\n#ifdef BOV_HAVE_CUDA\n#endif\n",
    "bov/io/names.cpp": "#include <nlohmann/json.hpp>\n#include \"csrc/op.h\"\n",
    "experiments/log.cpp": "#include <spdlog/spdlog.h>\n#include \"experiments/log.h\"\n",
    "tests/some_test.cpp": "#include <torch/torch.h>\n#include \"support/catch.h\"\n",
}

# A file, its text, and what must be said about it.
PLANTED = [
    ("csrc/kernels/op.cu", "#include <ATen/ATen.h>\n", "csrc/kernels/op.cu:1: includes ATen/ATen.h"),
    ("csrc/kernels/op.cu", "\n#include <c10/util/Half.h>\n", "csrc/kernels/op.cu:2: includes c10/util/Half.h"),
    ("csrc/cuda/op.cpp", '#include "bov/export.h"\n', "csrc is below bov"),
    ("csrc/cuda/op.cpp", '#include "experiments/runtime.h"\n', "csrc is below bov and experiments"),
    ("csrc/cuda/op.cpp", "#ifndef BOV_HAVE_CUDA\n#endif\n", "one place decides"),
    ("csrc/cuda/op.cpp", "#if defined(BOV_HAVE_CUDA)\n#endif\n", "one place decides"),
    ("bov/a.h", '#include "experiments/runtime.h"\n', "bov is below experiments"),
    ("bov/a.h", "#  include <yaml-cpp/yaml.h>\n", "reads no YAML"),
    ("bov/a.cpp", "#include <fmt/format.h>\n", "reads no YAML and logs nothing"),
    ("bov/a.cpp", "#include <CLI/CLI.hpp>\n", "reads no YAML and logs nothing"),
    ("bov/a.cpp", "#include <iostream>\n", "prints nothing"),
    ("bov/model/a.cpp", "#include <nlohmann/json.hpp>\n", "bov/io alone"),
    ("bov/a.h", '#include "tests/support/catch.h"\n', "nothing outside tests"),
    ("experiments/a.cpp", '#include "support/catch.h"\n', "nothing outside tests"),
    ("experiments/a.h", "#include <torch/torch.h>\n", "few torch headers"),
    ("csrc/a.h", "#include <torch/extension.h>\n", "few torch headers"),
    ("bov/model/a.cpp", '#include "../value/b.h"\n', "from its root"),
    ("tests/a_test.cpp", '#include "bov/a.cpp"\n', "compiled, not included"),
    ("experiments/more.cpp", "#include <spdlog/sinks/sink.h>\n", "one file logs"),
    ("experiments/log.cpp", "#include <spdlog/spdlog.h>\n#include <ATen/ATen.h>\n", "beside spdlog"),
]


def check(folder):
    return subprocess.run([sys.executable, ROOT / "scripts/check_includes", folder], capture_output=True, text=True)


class CheckIncludes(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in CLEAN.items():
            self.write(name, text)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def test_this_repository(self):
        result = check(ROOT)
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_clean_folder(self):
        result = check(self.root)
        self.assertEqual((result.returncode, result.stdout), (0, ""))

    def test_planted_violations(self):
        for name, text, expected in PLANTED:
            with self.subTest(name=name, text=text):
                self.write(name, text)
                result = check(self.root)
                self.assertEqual(result.returncode, 1)
                self.assertIn(expected, result.stdout)
                self.assertEqual(result.stdout.count("\n"), 1, result.stdout)
                if name in CLEAN:
                    self.write(name, CLEAN[name])
                else:
                    (self.root / name).unlink()

    def test_folder_without_sources(self):
        with tempfile.TemporaryDirectory() as empty:
            result = check(empty)
        self.assertEqual(result.returncode, 1)
        self.assertIn("no C++ files", result.stderr)


if __name__ == "__main__":
    unittest.main()
