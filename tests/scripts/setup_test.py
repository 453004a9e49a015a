"""scripts/setup on machines that lack something."""

import unittest

from stand_ins import PACKAGES, ROOT, ScriptTest


class Setup(ScriptTest):
    def setup_log(self):
        return f"(all of it: {self.root}/build/setup.log)"

    def test_without_root_names_the_packages(self):
        (self.bin / "cmake").unlink()
        self.install_packages([name for name in PACKAGES if name not in ("libyaml-cpp-dev", "zlib1g-dev")])
        self.stand_in("apt-get")
        self.make_venv()
        self.check_failure(self.run_script("setup"),
                           "these Debian packages are missing: cmake libyaml-cpp-dev zlib1g-dev; "
                           "as root run: apt-get install cmake libyaml-cpp-dev zlib1g-dev")

    def test_without_apt(self):
        (self.bin / "ninja").unlink()
        self.make_venv()
        self.check_failure(self.run_script("setup"), "missing: ninja-build (names of Debian's packages); "
                                                     "install them, there is no apt-get here")

    def test_python_that_makes_no_environments(self):
        self.stand_in("python3", '[[ "$*" != *ensurepip* ]]')
        self.stand_in("apt-get")
        self.check_failure(self.run_script("setup"), "these Debian packages are missing: python3-venv; "
                                                     "as root run: apt-get install python3-venv")

    def test_root_installs_with_fresh_package_lists(self):
        """The first installation fails, as it does with old package lists."""
        (self.bin / "ninja").unlink()
        self.stand_in("id", "echo 0")
        self.stand_in("apt-get", f"""
            echo "$*" >>{self.folder}/apt.log
            [[ $* == *update* ]] && touch {self.folder}/updated
            [[ -e {self.folder}/updated ]]""")
        self.make_venv()
        result = self.run_script("setup", BOV_TORCH=self.make_torch())
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("bov: installing Debian packages: ninja-build\n", result.stderr)
        calls = (self.folder / "apt.log").read_text().splitlines()
        self.assertEqual(len(calls), 3)
        self.assertIn("install --no-install-recommends ninja-build", calls[2])

    def test_failing_apt(self):
        (self.bin / "ninja").unlink()
        self.stand_in("id", "echo 0")
        self.stand_in("apt-get", "echo 'E: no network'; exit 100")
        self.make_venv()
        self.check_failure(self.run_script("setup"), "installing Debian packages: ninja-build",
                           f"apt-get could not install ninja-build: E: no network {self.setup_log()}")

    def test_wrong_torch(self):
        self.make_venv()
        self.check_failure(self.run_script("setup", BOV_TORCH="/no/such"),
                           "BOV_TORCH is '/no/such', which holds no share/cmake/Torch/TorchConfig.cmake; "
                           "point it to a LibTorch folder")

    def test_torch_of_the_user(self):
        self.make_venv()
        torch = self.make_torch()
        for name, value in [("BOV_TORCH", torch), ("CMAKE_PREFIX_PATH", f"/no/such;{torch}"),
                            ("CMAKE_PREFIX_PATH", f"/no/such:{torch}/share/cmake")]:
            with self.subTest(name=name, value=value):
                result = self.run_script("setup", **{name: value})
                self.assertEqual((result.returncode, result.stdout), (0, ""), result.stderr)
                self.assertEqual(result.stderr,
                                 f"bov: installing Python packages\nbov: ready: LibTorch in {torch}\n")
                self.assertNotIn("torch==", self.pip_calls())

    def test_torch_of_the_active_environment(self):
        torch = self.make_torch()
        self.write_script(self.folder / "active/bin/python3", f"cat >/dev/null; echo {torch}")
        result = self.run_script("setup", VIRTUAL_ENV=self.folder / "active")
        self.assertEqual((result.returncode, result.stderr), (0, f"bov: ready: LibTorch in {torch}\n"))

    def test_second_time_does_nothing(self):
        self.make_venv()
        torch = self.make_torch()
        self.run_script("setup", BOV_TORCH=torch)
        calls = self.pip_calls()
        again = self.run_script("setup", "--quiet", BOV_TORCH=torch)
        self.assertEqual((again.returncode, again.stdout, again.stderr), (0, "", ""))
        self.assertEqual(self.pip_calls(), calls)

    def test_for_tests(self):
        """Packages of reports, a browser and doxygen; what cannot be had is said, and does not stop."""
        self.make_venv()
        self.write_script(self.root / "build/report_venv/bin/python3",
                          f'if [[ ${{1:-}} == -m ]]; then echo "$*" >>"{self.folder}/report_pip.log"; fi')
        self.add_test_requirements()
        self.stand_in("apt-get")
        torch = self.make_torch()
        result = self.run_script("setup", "--quiet", "--for-tests", BOV_TORCH=torch)
        self.assertEqual((result.returncode, result.stdout), (0, ""))
        self.assertEqual(result.stderr.splitlines()[1:], [
            "bov: these Debian packages are missing: chromium chromium-driver doxygen; "
            "as root run: apt-get install chromium chromium-driver doxygen",
            "bov: going on without them: the tests that need a browser or doxygen will be skipped",
            "bov: installing the Python packages of scripts/reporting/requirements.txt (first use only)",
            "bov: installing the Python packages of tests/report/requirements.txt (first use only)"])
        calls = (self.folder / "report_pip.log").read_text().splitlines()
        self.assertEqual(len(calls), 2)
        for name in ("chromium", "chromedriver", "doxygen"):
            self.stand_in(name)
        again = self.run_script("setup", "--quiet", "--for-tests", BOV_TORCH=torch)
        self.assertEqual((again.returncode, again.stdout, again.stderr), (0, "", ""))

    def test_for_tests_without_packages(self):
        self.make_venv()
        self.write_script(self.root / "build/report_venv/bin/python3", '[[ ${1:-} != -m ]] || { echo "ERROR: No matching distribution"; exit 1; }')
        self.add_test_requirements()
        for name in ("chromium", "chromedriver", "doxygen"):
            self.stand_in(name)
        result = self.run_script("setup", "--quiet", "--for-tests", BOV_TORCH=self.make_torch())
        self.assertEqual((result.returncode, result.stdout), (0, ""))
        self.assertEqual(result.stderr.splitlines()[-1], "bov: going on without: the tests of reports will be skipped")

    def add_test_requirements(self):
        target = self.root / "tests/report/requirements.txt"
        target.parent.mkdir(parents=True)
        target.write_bytes((ROOT / "tests/report/requirements.txt").read_bytes())

    def test_unknown_option(self):
        self.check_failure(self.run_script("setup", "--all"),
                           "scripts/setup has no option '--all'; it has --quiet and --for-tests")

    def test_failing_pip(self):
        self.make_venv(pip="echo 'ERROR: No matching distribution'; exit 1")
        self.check_failure(self.run_script("setup"), "installing LibTorch 2.11.0 (0.5 GB)",
                           "pip could not install LibTorch 2.11.0 (0.5 GB): ERROR: No matching distribution " +
                           self.setup_log())

    def test_pip_without_network(self):
        self.make_venv(pip="echo 'WARNING: Retrying after connection broken by X'; echo 'ERROR: No matching distribution'; exit 1")
        self.check_failure(self.run_script("setup"), "installing LibTorch 2.11.0 (0.5 GB)",
                           "pip could not install LibTorch 2.11.0 (0.5 GB): the package index cannot be reached " +
                           self.setup_log())

    def test_offline_with_torch_of_the_user(self):
        """The Python packages are for tests; without them the program still works."""
        self.make_venv(pip="echo 'ERROR: no network'; exit 1")
        result = self.run_script("setup", BOV_TORCH=self.make_torch())
        self.assertEqual(result.returncode, 0)
        self.assertIn("the Python tests will be skipped", result.stderr)


if __name__ == "__main__":
    unittest.main()
