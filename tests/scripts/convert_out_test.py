"""Where `bov convert` writes: a bad name is refused first, and what a killed command leaves is removed.

Usage: convert_out_test.py BOV [UNITTEST_ARGUMENT...]     (BOV: the program that was built)
"""

import signal
import subprocess
import time

from convert_case import ConvertCase, TrainedCase, main


class BadNames(ConvertCase):
    def test_a_bad_name_is_refused_before_all_else(self):
        # None of this is what the commands take, which they would say if they had come to it.
        (self.folder / "nothing").mkdir()
        (self.folder / "file").write_text("x")
        for command in (["fold", "nothing", "--calibrate", "file"], ["quantize", "nothing"], ["export", "nothing"],
                        ["import", "file", "--config", "file"]):
            for out, expected in [("nothing/", "nothing/ exists; choose another name"),
                                  ("file", "file exists; choose another name"),
                                  ("none/out", f"none/out cannot be made: there is no folder {self.folder / 'none'}"),
                                  ("file/out", f"file/out cannot be made: there is no folder {self.folder / 'file'}"),
                                  ("", "the name of what is to be made is empty"),
                                  ("/sys/out", "/sys/out")]:  # where not even root can make something
                with self.subTest(command=command, out=out):
                    self.check_refused(["convert", *command, "--out", out], expected)
        self.assertEqual(sorted(path.name for path in self.folder.rglob("*")), ["file", "nothing"])


class Killed(TrainedCase):
    def test_what_a_killed_command_leaves_is_removed_by_the_next(self):
        self.train("standard", "{preset: standard}")
        arguments = ["convert", "fold", "standard", "--calibrate", "text.jsonl", "--tokens", "512", "--out", "means"]
        process = subprocess.Popen([self.program, *arguments], cwd=self.folder, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while not list(self.folder.glob("means*")) and time.monotonic() < deadline:
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        self.assertEqual(process.wait(), -signal.SIGKILL)
        self.assertEqual([path.name for path in self.folder.glob("means*")], [f"means.tmp-{process.pid}"])
        self.bov(*arguments)
        self.assertEqual([path.name for path in self.folder.glob("means*")], ["means"])


if __name__ == "__main__":
    main()
