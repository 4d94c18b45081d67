#!/usr/bin/env python3
"""`train_gpt --wandb=` and `--csv=`: the offline run is read back by the package `wandb`, beside --json's log.
`wandb_test.py BIN`, by a Python that has the package: $TCC_TORCH_PYTHON, or this one. Exit status 77: neither has it."""

import csv
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib
from pathlib import Path

try:
    from wandb.proto import wandb_internal_pb2 as protocol
except ImportError:
    other = os.environ.get("TCC_TORCH_PYTHON")
    if other and os.path.abspath(other) != os.path.abspath(sys.executable):  # a virtual one is a link to the other
        os.execv(other, [other] + sys.argv)
    print("skipped: this Python has no package `wandb` (`pip install wandb`; test.sh --torch installs it)")
    sys.exit(77)
try:
    from wandb.sdk.internal.datastore import DataStore
except ImportError:  # newer versions read in Go alone
    DataStore = None

BIN = sys.argv[1]
TEXT = "in the beginning was the word and the word was with the beginning of all words\n" * 200


def frames(path):
    """The records of a file, by wandb's own reader, or by LevelDB's description of the format."""
    if DataStore:
        store = DataStore()
        store.open_for_scan(str(path))
        try:
            while (record := store.scan_data()) is not None:
                yield record
        finally:
            store.close()
        return
    data, at, parts = Path(path).read_bytes(), 7, b""
    assert data[:7] == struct.pack("<4sHB", b":W&B", 0xBEE1, 0), "the head of the file"
    while at < len(data):
        left = 32768 - at % 32768
        if left < 7:
            assert not any(data[at:at + left]), "padding"
            at += left
            continue
        sum_, length, kind = struct.unpack_from("<IHB", data, at)
        bytes_ = data[at + 7:at + 7 + length]
        assert zlib.crc32(bytes_, zlib.crc32(bytes([kind]))) == sum_ and (kind in (1, 2)) == (not parts)
        parts, at = parts + bytes_, at + 7 + length
        if kind in (1, 4):
            yield parts
            parts = b""


def values(items):
    return {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in items}


class Run:
    """What wandb reads in a folder."""

    def __init__(self, place):
        self.config, self.history, self.summary, self.exit, self.numbers = {}, [], {}, [], []
        for bytes_ in frames(place / f"run-{place.name.split('-')[-1]}.wandb"):
            record = protocol.Record.FromString(bytes_)
            self.numbers.append(record.num)
            kind = record.WhichOneof("record_type")
            if kind == "header":
                self.header = record.header
            elif kind == "run":
                self.run = record.run
                self.config = values(record.run.config.update)
            elif kind == "history":
                row = values(record.history.item)
                assert row["_step"] == record.history.step.num
                self.history.append(row)
            elif kind == "summary":
                self.summary.update(values(record.summary.update))
            else:
                assert kind == "exit", kind
                self.exit.append(record.exit.exit_code)


class WandbTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "data.txt").write_text(TEXT, encoding="utf-8")

    def train(self, *arguments, status=0):
        done = subprocess.run(
            [os.path.join(BIN, "train_gpt"), "--data=data.txt", "--layers=1", "--width=16", "--heads=1", "--seq=8",
             "--batch=2", "--threads=1", *arguments], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr

    def runs(self):
        return sorted((self.folder / "wandb").iterdir())

    def log(self):
        lines = [json.loads(line) for line in (self.folder / "log.jsonl").read_text().splitlines()]
        return [line for line in lines if "step" in line]

    def check(self, run, exit_codes):
        lines = self.log()
        self.assertEqual([row["_step"] for row in run.history], [line["step"] for line in lines])
        for row, line in zip(run.history, lines):
            for ours, theirs in (("loss", "loss/training"), ("lr", "learning_rate"), ("norm", "gradient_norm"),
                                 ("tokens", "tokens"), ("tokens_per_second", "tokens_per_second"),
                                 ("skipped", "skipped_steps"), ("elapsed_s", "_runtime"), ("val_loss", "loss/held_out")):
                self.assertEqual(row.get(theirs), line.get(ours), theirs)
        self.assertEqual(run.summary["loss/training"], lines[-1]["loss"])
        self.assertEqual(run.exit, exit_codes)
        self.assertEqual(run.numbers, list(range(1, len(run.numbers) + 1)))
        with open(self.folder / "log.csv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([int(row["step"]) for row in rows], [line["step"] for line in lines])
        for row, line in zip(rows, lines):
            self.assertEqual({name: float(value) for name, value in row.items() if value},
                             {name: float(value) for name, value in line.items() if not isinstance(value, dict)})

    def test_a_run(self):
        said = self.train("--steps=400", "--eval-every=100", "--wandb=wandb", "--csv=log.csv", "--json=log.jsonl",
                          "--lr=3e-3", "--dtype=bf16")
        (place,) = self.runs()
        self.assertRegex(place.name, r"^offline-run-\d{8}_\d{6}-[0-9a-z]{8}$")
        self.assertIn(f"`wandb sync wandb/{place.name}` uploads the run", said)
        self.assertGreater((place / f"run-{place.name[-8:]}.wandb").stat().st_size, 4 * 32768, "several blocks")
        run = Run(place)
        self.check(run, [0])
        self.assertEqual(run.run.run_id, place.name[-8:])
        self.assertEqual(run.run.display_name, "baby on data.txt")
        self.assertTrue(run.header.version_info.producer.startswith("tcc "))
        for name, value in {"model": "baby", "batch": 2, "lr": 3e-3, "steps": 400, "dtype": "bf16", "seq": 8,
                            "optimizer": "adamw"}.items():
            self.assertEqual(run.config[name], value, name)
        self.assertGreater(run.summary["peak_bytes"], 0)

        wandb = Path(sys.executable).parent / "wandb"
        if wandb.exists() and "--dry-run" in subprocess.run([wandb, "sync", "--help"], capture_output=True, text=True,
                                                            check=False).stdout:
            found = subprocess.run([wandb, "sync", "--dry-run", place], cwd=self.folder, capture_output=True,
                                   text=True, check=False)
            self.assertIn("Would sync 1 run", found.stdout + found.stderr)

    def test_a_run_that_goes_on(self):
        kept = ["--checkpoint=kept", "--checkpoint-every=50", "--wandb=wandb", "--csv=log.csv", "--json=log.jsonl"]
        self.train("--steps=170", *kept)
        shutil.rmtree(self.folder / "kept" / "step-000000170")  # as if it had been killed: 150 is the newest
        (place,) = self.runs()
        path = place / f"run-{place.name[-8:]}.wandb"
        path.with_name(path.name + ".synced").touch()
        self.train("--steps=230", "--resume", *kept)
        self.assertEqual(self.runs(), [place])
        self.assertFalse(path.with_name(path.name + ".synced").exists(), "what was uploaded is not the whole run")
        run = Run(place)
        self.assertEqual(len(run.history), 230)
        self.check(run, [0])

        # A process that was killed leaves half a record, and half a line.
        path.write_bytes(path.read_bytes()[:-20])
        with open(self.folder / "log.csv", "a", encoding="utf-8") as file:
            file.write("230,0.1")
        self.train("--steps=300", "--resume", *kept)
        self.check(Run(place), [0])

        # Another folder begins in the middle, and says so.
        shutil.rmtree(self.folder / "wandb")
        self.assertIn("no run is in it, so the new one has no step before 300",
                      self.train("--steps=310", "--resume", *kept))
        self.assertEqual([row["_step"] for row in Run(self.runs()[0]).history], list(range(300, 310)))

    def test_a_run_that_diverges(self):
        self.train("--steps=60", "--warmup=0", "--schedule=constant", "--lr=1e38", "--max-skipped=3", "--wandb=wandb",
                   "--csv=log.csv", status=1)
        run = Run(self.runs()[0])
        self.assertEqual(run.exit, [1])
        self.assertEqual(len(run.history), 4)
        self.assertNotEqual(run.history[-1]["loss/training"], run.history[-1]["loss/training"], "NaN")

    def test_places_that_cannot_be_written(self):
        (self.folder / "file").touch()
        (self.folder / "other.csv").write_text("a,b\n1,2\n")
        for arguments, expected in ((["--wandb=file"], r"--wandb file: cannot make the folder: "),
                                    (["--wandb=file/deep"], r"--wandb file/deep: cannot make the folder: "),
                                    (["--csv=absent/log.csv"], r"--csv absent/log\.csv: cannot write the log: "),
                                    (["--csv=data.txt"], r"--csv data\.txt is the same file as --data data\.txt")):
            said = self.train("--steps=3", "--json=never.jsonl", *arguments, status=1)
            self.assertRegex(said, re.compile(r"^error: " + expected + r"[^\n]*$", re.M))
            self.assertNotIn("compiling", said)
        self.train("--steps=2", "--checkpoint=kept")
        said = self.train("--steps=4", "--checkpoint=kept", "--resume", "--csv=other.csv", status=1)
        self.assertIn("other.csv: its first line is `a,b`", said)
        self.assertEqual((self.folder / "other.csv").read_text(), "a,b\n1,2\n")
        place = self.folder / "wandb" / "offline-run-20260101_000000-abcdefgh"
        place.mkdir(parents=True)
        (place / "run-abcdefgh.wandb").write_text("no run")
        said = self.train("--steps=4", "--checkpoint=kept", "--resume", "--wandb=wandb", status=1)
        self.assertIn("no run of Weights & Biases is in the file", said)
        self.assertEqual((place / "run-abcdefgh.wandb").read_text(), "no run")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
