"""Imported first by tests of scripts/report: runs them with the Python that has its packages, or skips them."""

import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORDS = ROOT / "tests/report/records"
ENVIRONMENT = ROOT / "build/report_venv"


def skip(reason):
    print(f"SKIPPED: {reason}; scripts/setup --for-tests installs it")
    sys.exit(77)


if pathlib.Path(sys.prefix).resolve() != ENVIRONMENT.resolve():
    python = ENVIRONMENT / "bin/python3"
    if not python.exists():
        skip("the Python packages of scripts/report are not there")
    os.execv(python, [str(python), *sys.argv])
sys.path.insert(0, str(ROOT / "scripts"))
