"""scripts/bov and scripts/test: what they build, say and return."""

import shutil
import sys
import unittest

from stand_ins import ScriptTest

# Configures by leaving a build.ninja, builds by leaving a program; notes both.
CMAKE = """
echo "$*" >>{folder}/cmake.log
if [[ $1 == -S ]]; then
  mkdir -p "$2/build/$4"
  touch "$2/build/$4/build.ninja"
  echo "-- bov: CUDA kernels OFF (a reason); everything else is built"
else
  echo "[1/2] Building CXX object"
  {build}
  mkdir -p "$2/bin"
  printf '#!/bin/bash\\necho "program: $*"; echo "$PWD"; exit 3\\n' >"$2/bin/bov"
  chmod +x "$2/bin/bov"
fi
"""
CTEST = """
echo "$*" >{folder}/ctest.log
while [[ $1 != --output-junit ]]; do shift; done
cat >"$2" <<'EOF'
<testsuite><testcase name="good" status="run"/>
<testcase name="bad" status="fail"><failure message="Failed"/></testcase>
<testcase name="gpu" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>
<system-out>start
SKIPPED: no GPU
end</system-out></testcase>
<testcase name="python" status="notrun"><skipped message="SKIP_RETURN_CODE=77"/></testcase></testsuite>
EOF
exit 8
"""
BUILDING = "bov: building in build/release (the first time takes some twenty minutes on two cores)\n"


class Build(ScriptTest):
    def setUp(self):
        super().setUp()
        # Not the python3 of PATH: it may be a script of a version manager, which needs more than the folder holds.
        for tool, program in (("chmod", shutil.which("chmod")), ("python3", sys.executable)):
            (self.bin / tool).unlink(missing_ok=True)
            (self.bin / tool).symlink_to(program)
        self.make_venv()
        self.torch = self.make_torch()
        self.run_script("setup", BOV_TORCH=self.torch)
        self.make_cmake()

    def make_cmake(self, build=""):
        self.stand_in("cmake", CMAKE.format(folder=self.folder, build=build))

    def cmake_calls(self):
        return (self.folder / "cmake.log").read_text().splitlines()

    def run_bov(self, *arguments, **variables):
        return self.run_script("bov", *arguments, BOV_TORCH=self.torch, **variables)

    def test_program_gets_arguments_and_folder(self):
        result = self.run_bov("train", "a b", "--json")
        self.assertEqual((result.returncode, result.stdout), (3, "program: train a b --json\n/\n"))
        self.assertEqual(result.stderr, "bov: CUDA kernels OFF (a reason); everything else is built\n" + BUILDING)
        self.assertIn("--preset release", self.cmake_calls()[0])
        self.assertIn("--target bov_program", self.cmake_calls()[1])

    def test_second_time_is_silent_and_configures_nothing(self):
        self.run_bov()
        again = self.run_bov("again")
        self.assertEqual((again.stdout, again.stderr), ("program: again\n/\n", ""))
        self.assertEqual(len(self.cmake_calls()), 3)

    def test_another_torch_is_configured_again(self):
        self.run_bov()
        other = self.folder / "other"
        self.torch.rename(other)
        self.torch = other
        self.run_bov()
        self.assertIn(f"BOV_TORCH={other}", self.cmake_calls()[2])

    def test_preset(self):
        self.run_bov(BOV_PRESET="asan")
        self.assertIn("--preset asan", self.cmake_calls()[0])

    def test_failing_build(self):
        self.make_cmake(build="echo 'error: no such thing'; exit 1")
        result = self.run_bov()
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertTrue(result.stderr.endswith(BUILDING + "error: no such thing\nbov: the build failed; see above\n"),
                        result.stderr)

    def test_builds_wait_for_each_other(self):
        busy = self.folder / "busy"
        self.make_cmake(build=f'[[ ! -e {busy} ]] || {{ echo "two builds at once"; exit 1; }}; touch {busy}; sleep 0.5; rm {busy}')
        processes = [self.start("bov", str(i), BOV_TORCH=self.torch) for i in range(3)]
        outputs = [process.communicate() for process in processes]
        self.assertEqual([process.returncode for process in processes], [3, 3, 3], outputs)
        self.assertIn("bov: waiting: another build of release is running\n", "".join(error for _, error in outputs))

    def test_tests_return_the_status_of_ctest_and_a_summary(self):
        self.stand_in("ctest", CTEST.format(folder=self.folder))
        result = self.run_script("test", "-R", "value", BOV_TORCH=self.torch)
        self.assertEqual(result.returncode, 8)
        self.assertEqual(result.stdout, """
1 passed, 1 failed, 2 skipped
  skipped, no GPU:
    gpu
  skipped, SKIP_RETURN_CODE=77:
    python
  failed: bad
""")
        self.assertIn("--target all", self.cmake_calls()[1])
        self.assertIn("-R value", (self.folder / "ctest.log").read_text())


if __name__ == "__main__":
    unittest.main()
