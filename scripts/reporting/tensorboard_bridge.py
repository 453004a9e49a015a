"""Follows the logs of runs and writes what they say as TensorBoard event files.

Every metrics.jsonl below the folders is followed, also of runs that start later. Each gives a TensorBoard run of the same
path with the scalars loss, validation_bpb, tokens_per_second, rates/*, and coefficients/layer_08/gamma. Stop it and start it
again at any time: what the event files hold is not written twice.
"""

import argparse
import json
import pathlib
import sys
import time

from tensorboard.backend.event_processing.event_accumulator import SCALARS, EventAccumulator
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

SKIPPED = {"step", "time", "coefficients", "rates"}


def scalars(row):
    """Every number of a log row by its TensorBoard name."""
    named = {key: value for key, value in row.items() if key not in SKIPPED}
    named |= {f"rates/{key}": value for key, value in (row.get("rates") or {}).items()}
    for layer, coefficients in (row.get("coefficients") or {}).items():
        named |= {f"coefficients/layer_{int(layer):02d}/{key}": value for key, value in coefficients.items()}
    return {name: float(value) for name, value in named.items() if isinstance(value, (int, float))}


class LogFollower:
    """Reads the whole lines that were added to a file; a file that was replaced or cut off is read anew."""

    def __init__(self, path):
        self.path = path
        self.file = None
        self.rest = b""

    def rows(self):
        try:
            status = self.path.stat()
        except FileNotFoundError:
            return
        replaced = self.file is not None and (status.st_ino != self.inode or status.st_size < self.file.tell())
        if replaced:
            yield from self.new_rows()  # what came before it was replaced
            self.file.close()
        if self.file is None or replaced:
            # Kept open, so that no other file can get its number.
            self.file, self.inode, self.rest = open(self.path, "rb"), status.st_ino, b""
        yield from self.new_rows()

    def new_rows(self):
        *lines, self.rest = (self.rest + self.file.read()).split(b"\n")
        for line in lines:
            try:
                row = json.loads(line)
                row["step"] + 0
            except (ValueError, TypeError, KeyError):
                continue  # no log row
            yield row

    def close(self):
        if self.file:
            self.file.close()


class RunBridge:
    """One log and its event files, which alone tell what was written: no state that a kill could make wrong."""

    def __init__(self, log, folder):
        self.follower = LogFollower(log)
        self.folder = folder
        self.written = read_events(folder)
        self.writer = None
        environment = log.with_name("environment.json")  # written when the run starts
        self.start = environment.stat().st_mtime if environment.exists() else time.time()

    def update(self):
        """Writes what is new; returns the number of scalars."""
        count = 0
        for row in self.follower.rows():
            step, named = int(row["step"]), scalars(row)
            when = self.start + (row.get("time") or 0.0)
            known = self.written.get(step, {})
            # A run that went on from a checkpoint may give other values than those that it lost.
            if any(name in known and not same(known[name], value) for name, value in named.items()):
                self.forget_from(step, when)
                known = {}
            new = {name: value for name, value in named.items() if name not in known}
            if new:
                self.write(Event(step=step, wall_time=when, summary=Summary(
                    value=[Summary.Value(tag=name, simple_value=value) for name, value in new.items()])))
                self.written.setdefault(step, {}).update(new)
                count += len(new)
        if count:
            self.writer.flush()
        return count

    def forget_from(self, step, when):
        """Tells TensorBoard to drop what it has from this step on."""
        self.write(Event(step=step, wall_time=when, session_log=SessionLog(status=SessionLog.START)))
        self.written = {earlier: named for earlier, named in self.written.items() if earlier < step}

    def write(self, event):
        if self.writer is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.writer = EventFileWriter(str(self.folder))
        self.writer.add_event(event)

    def close(self):
        self.follower.close()
        if self.writer:
            self.writer.close()


def read_events(folder):
    """{step: {name: value}} of the event files in the folder."""
    written = {}
    if folder.exists():
        events = EventAccumulator(str(folder), size_guidance={SCALARS: 0}).Reload()
        for name in events.Tags()["scalars"]:
            for event in events.Scalars(name):
                written.setdefault(event.step, {})[name] = event.value
    return written


def same(stored, value):
    """Event files hold 32-bit floats."""
    return stored == value or abs(stored - value) <= 1e-6 * abs(value) or (stored != stored and value != value)


class Bridge:
    def __init__(self, folders, out):
        self.folders, self.out, self.runs = folders, out, {}

    def update(self):
        for folder in self.folders:
            for log in sorted(folder.rglob("metrics.jsonl")):
                if log not in self.runs:
                    name = pathlib.Path(folder.resolve().name) / log.parent.relative_to(folder)
                    self.runs[log] = RunBridge(log, self.out / name)
        return sum(run.update() for run in self.runs.values())

    def close(self):
        for run in self.runs.values():
            run.close()


def make_parser():
    parser = argparse.ArgumentParser(prog="scripts/tensorboard_bridge", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="Example: scripts/tensorboard_bridge runs/quickstart --out runs/tensorboard")
    parser.add_argument("folders", nargs="+", metavar="FOLDER", type=pathlib.Path, help="a run, a grid, or a folder of them")
    parser.add_argument("--out", required=True, metavar="DIR", type=pathlib.Path, help="TensorBoard's log folder")
    parser.add_argument("--interval", metavar="SECONDS", type=float, default=5.0, help="between two looks (default: 5)")
    parser.add_argument("--once", action="store_true", help="write what there is, and end")
    return parser


def main():
    arguments = make_parser().parse_args()
    for folder in arguments.folders:
        if not folder.is_dir():
            sys.exit(f"scripts/tensorboard_bridge: {folder} is no folder")
    bridge = Bridge(arguments.folders, arguments.out)
    try:
        while True:
            count = bridge.update()
            if count or arguments.once:
                print(f"{count} scalars of {len(bridge.runs)} runs", flush=True)
            if arguments.once:
                break
            time.sleep(arguments.interval)
    except KeyboardInterrupt:
        pass
    finally:
        bridge.close()


if __name__ == "__main__":
    main()
