"""Prints how many tests passed, failed and were skipped, with the reasons, from ctest's JUnit file."""

import collections
import re
import sys
import xml.etree.ElementTree as xml


def skip_reason(case):
    """The text behind "SKIPPED:" in the test's output, or what ctest says."""
    output = case.findtext("system-out") or ""
    said = re.search(r"SKIPPED:\s*(.+)", output)
    return said.group(1).strip() if said else case.find("skipped").get("message", "no reason given")


def main(path):
    cases = xml.parse(path).getroot().findall("testcase")
    failed = [case.get("name") for case in cases if case.find("failure") is not None]
    skipped = collections.defaultdict(list)
    for case in cases:
        if case.find("skipped") is not None:
            skipped[skip_reason(case)].append(case.get("name"))
    skips = sum(len(names) for names in skipped.values())
    print(f"\n{len(cases) - len(failed) - skips} passed, {len(failed)} failed, {skips} skipped")
    for reason, names in skipped.items():
        print(f"  skipped, {reason}:")
        for name in names:
            print(f"    {name}")
    for name in failed:
        print(f"  failed: {name}")


if __name__ == "__main__":
    main(sys.argv[1])
