"""scripts/gpu_check: its bookkeeping, with stand-ins for the GPU, the build, the tests and the program."""

import contextlib
import json
import shutil
import sys
import time
import unittest

from stand_ins import ScriptTest

GPU = "echo 'NVIDIA H100 80GB HBM3, 580.65.06, 9.0, 81559 MiB'"
CMAKE = """
if [[ $1 == -S ]]; then
  mkdir -p "$2/build/$4"
  touch "$2/build/$4/build.ninja"
else
  mkdir -p "$2/bin"
  cat >"$2/bin/bov" <<'EOF'
#!/bin/bash
{program}
EOF
  printf '#!/bin/bash\\nexit 0\\n' >"$2/bin/cuda_test"
  chmod +x "$2/bin/bov" "$2/bin/cuda_test"
fi
"""
# A problem that is measured, then whatever a test adds.
BENCH = """
if [[ $4 == --list ]]; then
  echo 'value_gather: forward'
  exit 0
fi
echo '{"measurements": [{"op": "value_gather", "problem": "forward"}]}' >"$5.new"
mv "$5.new" "$5"
"""
SANITIZER = 'if [[ $1 == --version ]]; then echo "Version 2025.3.0"; else echo "$*" >"{log}"; exit {status}; fi'
CTEST = """
while [[ $1 != --output-junit ]]; do shift; done
cat >"$2" <<'EOF'
<testsuite><testcase name="cuda_test: a" status="run"/>{more}</testsuite>
EOF
exit {status}
"""


class GpuCheck(ScriptTest):
    def setUp(self):
        super().setUp()
        # Not the python3 of PATH: it may be a script of a version manager, which needs more than the folder holds.
        for tool, program in (("chmod", shutil.which("chmod")), ("mv", shutil.which("mv")), ("python3", sys.executable)):
            (self.bin / tool).unlink(missing_ok=True)
            (self.bin / tool).symlink_to(program)
        self.make_venv()
        self.torch = self.make_torch()
        self.stand_in("git", "echo abc1234")
        self.stand_in("nvcc", "echo 'Cuda compilation tools, release 13.0, V13.0.88'")
        self.stand_in("nvidia-smi", GPU)
        self.make_build()
        self.make_tests()
        self.make_sanitizer()

    def make_sanitizer(self, status=0):
        self.stand_in("compute-sanitizer", SANITIZER.format(log=self.folder / "sanitizer.log", status=status))

    def make_build(self, program=BENCH):
        self.stand_in("cmake", CMAKE.replace("{program}", program))

    def make_tests(self, more="", status=0):
        self.stand_in("ctest", CTEST.format(more=more, status=status))

    def check(self, **variables):
        """Runs the script; its process and the file that it wrote."""
        process = self.run_script("gpu_check", self.folder / "out/gpu.json", BOV_TORCH=self.torch, **variables)
        files = list((self.folder / "out").iterdir())
        self.assertEqual([file.name for file in files], ["gpu.json"], process.stderr)
        return process, json.loads(files[0].read_text())

    def outcomes(self, result):
        return {step["name"]: step["outcome"] for step in result["steps"]}

    def test_writes_what_it_found(self):
        process, result = self.check()
        self.assertEqual(process.returncode, 0, process.stderr)
        self.assertTrue(result["passed"] and result["finished"])
        self.assertEqual(result["gpus"], [{"name": "NVIDIA H100 80GB HBM3", "driver_version": "580.65.06",
                                           "compute_cap": "9.0", "memory.total": "81559 MiB"}])
        self.assertEqual((result["commit"], result["nvcc"]), ("abc1234", "13.0"))
        self.assertEqual(result["tests"], {"cuda_test: a": "passed"})
        self.assertEqual(result["bench"], {"measurements": [{"op": "value_gather", "problem": "forward"}]})
        self.assertEqual(result["bench_left_out"], [])
        self.assertEqual(self.outcomes(result), dict.fromkeys(("build", "tests", "sanitizer", "bench"), "passed"))
        self.assertIn(str(self.folder / "out/gpu.json"), process.stdout)

    def test_a_skipped_test_counts_as_failed(self):
        self.make_tests(more='<testcase name="cuda_test: b"><skipped message="no CUDA device"/></testcase>')
        process, result = self.check()
        self.assertEqual((process.returncode, result["passed"]), (1, False))
        self.assertEqual(result["tests"], {"cuda_test: a": "passed", "cuda_test: b": "skipped"})
        self.assertEqual(self.outcomes(result)["skips"], "failed: 1 tests were skipped")

    def test_goes_on_after_a_failed_test_and_keeps_the_numbers(self):
        self.make_tests(more='<testcase name="cuda_test: b"><failure message="Failed"/></testcase>', status=8)
        process, result = self.check()
        self.assertEqual((process.returncode, result["passed"]), (1, False))
        self.assertEqual(result["tests"]["cuda_test: b"], "failed")
        self.assertEqual(self.outcomes(result)["tests"], "failed with exit status 8")
        self.assertIn("bench", result)

    def test_a_missing_sanitizer_is_a_failure(self):
        (self.bin / "compute-sanitizer").unlink()
        process, result = self.check()
        self.assertEqual((process.returncode, result["passed"], result["compute_sanitizer"]), (1, False, None))
        self.assertEqual(self.outcomes(result)["sanitizer"], "failed: compute-sanitizer is not installed")
        self.assertEqual(self.outcomes(result)["bench"], "passed")

    def test_runs_the_small_tests_under_the_sanitizer(self):
        self.make_sanitizer(status=9)
        process, result = self.check()
        self.assertEqual(result["compute_sanitizer"], "2025.3.0")
        self.assertEqual((process.returncode, self.outcomes(result)["sanitizer"]), (1, "failed with exit status 9"))
        self.assertTrue((self.folder / "sanitizer.log").read_text().endswith("bin/cuda_test [small]\n"))

    def test_stops_after_a_failed_build(self):
        self.stand_in("cmake", "exit 3")
        process, result = self.check()
        self.assertEqual(process.returncode, 1)
        self.assertTrue(result["finished"])
        self.assertEqual(self.outcomes(result), {
            "build": "failed with exit status 1",
            **dict.fromkeys(("tests", "sanitizer", "bench"), "not run: there is no build")})

    def test_stops_when_the_time_is_up_and_says_what_was_left_out(self):
        self.make_build(program=BENCH.replace("forward'\n", "forward'\n  echo 'copy: 64 MiB'\n", 1) + "sleep 60")
        process, result = self.check(BOV_GPU_CHECK_SECONDS=10)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(self.outcomes(result)["bench"], r"stopped after \d+ seconds")
        self.assertEqual(len(result["bench"]["measurements"]), 1)
        self.assertEqual(result["bench_left_out"], ["copy: 64 MiB"])
        self.assertLess(result["seconds"], 30)

    def test_each_step_has_a_limit_of_its_own(self):
        self.stand_in("ctest", "sleep 60")
        process, result = self.check(BOV_GPU_CHECK_SECONDS=12)
        self.assertEqual(process.returncode, 1)
        self.assertEqual(self.outcomes(result), {"build": "passed", "tests": "stopped after 3 seconds",
                                                 "sanitizer": "passed", "bench": "passed"})

    def test_takes_numbers_as_they_come(self):
        self.make_build(program=BENCH + f'until [[ -e "{self.folder}/go" ]]; do sleep 0.1; done; exit 3')
        process = self.start("gpu_check", self.folder / "out/gpu.json", BOV_TORCH=self.torch)
        self.addCleanup(process.communicate)
        self.addCleanup((self.folder / "go").touch)
        found = []
        for _ in range(300):
            with contextlib.suppress(FileNotFoundError):
                found = json.loads((self.folder / "out/gpu.json").read_text()).get("bench", {}).get("measurements", [])
            if found:
                break
            time.sleep(0.1)
        self.assertEqual([m["op"] for m in found], ["value_gather"])
        self.assertIsNone(process.poll())

    def test_says_in_one_line_that_there_is_no_gpu(self):
        self.stand_in("nvidia-smi", "echo 'NVIDIA-SMI has failed because it could not reach the driver.'; exit 9")
        self.check_failure(self.run_script("gpu_check"),
                           "no GPU: nvidia-smi says: NVIDIA-SMI has failed because it could not reach the driver.")
        self.stand_in("nvidia-smi")
        self.check_failure(self.run_script("gpu_check"), "no GPU: nvidia-smi lists none")
        (self.bin / "nvidia-smi").unlink()
        self.check_failure(self.run_script("gpu_check"),
                           "no GPU: there is no nvidia-smi here; scripts/gpu_check needs an NVIDIA GPU and its driver")
        self.assertFalse((self.root / "build").exists())


if __name__ == "__main__":
    unittest.main()
