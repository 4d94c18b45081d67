#!/usr/bin/env python3
"""One trace of a whole run: what `tcc --profile=` and `train_gpt --profile=` write is read back, and its sums are those
of -emit=json, -ftime-report=json, the printed table and the log. `trace_test.py BIN ROOT`."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from collections import Counter

from read_trace import Malformed, Trace

BIN, ROOT = sys.argv[1], sys.argv[2]
TEXT = "in the beginning was the word and the word was with the beginning of all words\n" * 200

# Names of what this project records; passes are --print-pipeline's.
COMPILE = {"tcc", "read graph", "compile", "load", "capture", "cache", "passes", "plan", "code generation", "kernels",
           "lower to LLVM", "optimize", "machine code", "link"}
TRAIN = {"run", "training step", "evaluate", "write checkpoint", "load weights", "save weights", "sample"}
DATA = {"read data", "read batch", "wait for batch"}
INSTRUCTIONS = {"kernel", "matmul", "copy", "fill", "custom", "collective", "wait"}


def run(*command, folder=None, status=0, **environment):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode != status:
        raise AssertionError(f"{command}: status {done.returncode}\n{done.stderr}")
    return done


def tcc(*arguments, **options):
    return run(os.path.join(BIN, "tcc"), *arguments, **options)


PASSES = set(re.findall(r"[a-z][a-z0-9-]+", tcc("--print-pipeline").stdout))


class TraceTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.file = os.path.join(self.folder, "trace.json")

    def check_names(self, trace):
        for event in trace.events:
            if event.category == "pass":
                self.assertIn(event.name, PASSES)
            elif event.category == "train":
                self.assertIn(event.name, TRAIN)
            elif event.category == "data":
                self.assertIn(event.name, DATA)
            elif event.category == "compile":  # LLVM's own steps lie within ours
                within = event
                while within and within.name not in COMPILE:
                    within = within.parent
                self.assertIsNotNone(within, event.name)
            elif event.category not in ("step", "break"):
                self.assertIn(event.category, INSTRUCTIONS)
            if event.category in INSTRUCTIONS:
                self.assertEqual(event.parent.category, "step", event.name)
        for row in trace.rows.values():
            self.assertRegex(row, r"^(main|batch reading|code generation \d+|cuda:0 \(Emulated H200\))$")

    def test_a_graph_compiled_and_run(self):
        graph = os.path.join(ROOT, "models", "train_step.graph")
        done = tcc(graph, "--run=3", f"--profile={self.file}", "-ftime-report=json", "--no-cache")
        trace = Trace(self.file)
        self.check_names(trace)
        self.assertEqual(trace.title, graph)

        # The plan, and the table that is printed.
        plan = json.loads(tcc(graph, "-emit=json").stdout)
        ran = trace.of(*INSTRUCTIONS)
        for what in ("flops", "bytes"):
            self.assertEqual(sum(event.args[what] for event in ran),
                             3 * sum(one[what] for one in plan["instructions"]))
        steps = trace.of("step")
        self.assertEqual([event.parent.args["run"] for event in steps], [1, 2, 3])
        said = float(re.search(r"a step takes ([0-9.]+) ms", done.stderr).group(1))
        self.assertAlmostEqual(said, sum(event.ns for event in steps) / 3 * 1e-6, delta=0.001)

        # Passes, and what became of them. LLVM's profile is in microseconds and without what took less than 20.
        times = json.loads(re.search(r"^\{.*\}$", done.stderr, re.M | re.S).group(0))
        reported = Counter()
        for one in times["passes"]:
            reported[one["name"]] += one["ms"]
        traced = Counter()
        for event in trace.of("pass"):
            traced[event.name] += event.ns * 1e-6
        self.assertGreater(len(traced), 5)
        # An event holds what is reported, and more where the thread was stopped between the two clocks.
        apart = []
        for name, ms in reported.items():
            self.assertGreaterEqual(traced[name], ms - 0.05 - 0.05 * ms, msg=name)
            if traced[name] > ms + 0.05 + 0.05 * ms:
                apart.append(f"{name}: {traced[name]:.3f} ms, {ms:.3f} reported")
        self.assertLessEqual(len(apart), 1 + len(reported) // 8, msg=apart)
        (compile_,) = trace.named("compile")
        names = [event.name for event in compile_.children]
        for name in ("passes", "plan", "code generation"):
            self.assertIn(name, names)
        self.assertGreaterEqual(sum(event.row.startswith("code generation") for event in trace.named("kernels")), 0)
        self.assertGreaterEqual(len(trace.named("machine code")), 1)

        # Memory: the arena at its fullest, and nothing between steps.
        memory = json.loads(tcc(graph, "-emit=memory.json").stdout)
        gaps = sum(part["bytes"] for part in memory["parts"] if part["what"] == "arena: gaps")
        self.assertEqual(max(value for _, value in trace.counters["arena"]) + gaps, plan["arena_bytes"])
        self.assertEqual(len(trace.counters["arena"]), 3 * (len(plan["instructions"]) + 1))

    def on_stand_ins(self):
        """The environment that shows a program the CUDA machine of stand-ins (tests/cuda_machine)."""
        files = {f"TCC_{name}": os.path.join(BIN, "..", "lib", f"libtcc_machine_{file}.so")
                 for name, file in (("CUDA_DRIVER", "cuda"), ("NVRTC", "nvrtc"), ("CUBLASLT", "cublaslt"))}
        if not all(os.path.exists(file) for file in files.values()):
            self.skipTest("the CUDA machine of stand-ins is not built")
        return {**files, "TCC_CUDA_MACHINE": "late,plain"}

    def check_gpu(self, trace, plan, steps):
        """The instructions of a GPU are in its own row, within their steps, each while the host waits for its step."""
        self.check_names(trace)
        (row,) = [row for row in trace.rows.values() if row.startswith("cuda:")]
        self.assertEqual({event.category for event in trace.of_row(row)} - INSTRUCTIONS, {"step"})
        ran = trace.of(*INSTRUCTIONS)
        self.assertEqual({event.row for event in ran}, {row})
        for what in ("flops", "bytes"):
            self.assertEqual(sum(event.args[what] for event in ran), len(steps) * sum(one[what] for one in plan["instructions"]))
        recorded = trace.of("step")
        self.assertEqual(len(recorded), len(steps))
        for event, step in zip(recorded, steps):
            self.assertEqual(len(event.children), len(plan["instructions"]))
            self.assertLessEqual(step.start, event.start)
            self.assertLessEqual(event.end, step.end)

    def test_a_gpu(self):
        graph = os.path.join(ROOT, "models", "train_step.graph")
        machine = self.on_stand_ins()
        done = tcc(graph, "--target=cuda", "--run=3", f"--profile={self.file}", "--no-cache", **machine)
        trace = Trace(self.file)
        plan = json.loads(tcc(graph, "--target=cuda", "-emit=json", **machine).stdout)
        self.check_gpu(trace, plan, trace.named("run"))
        said = float(re.search(r"a step takes ([0-9.]+) ms", done.stderr).group(1))
        self.assertAlmostEqual(said, sum(event.ns for event in trace.of("step")) / 3 * 1e-6, delta=0.001)
        self.assertEqual(len(trace.counters["arena"]), 3 * (len(plan["instructions"]) + 1))

    def test_a_run_on_a_gpu(self):
        self.train("--steps=4", "--device=cuda", "--width=8", "--layers=1", "--emit-graph=step.graph", **self.on_stand_ins())
        trace = Trace(self.file)
        plan = json.loads(tcc(os.path.join(self.folder, "step.graph"), "--target=cuda", "-emit=json", **self.on_stand_ins()).stdout)
        self.check_gpu(trace, plan, trace.named("training step")[1:])
        self.assertEqual(len(trace.counters["tensors"]), 4)

    def test_the_cache_and_ftime_trace(self):
        graph = os.path.join(ROOT, "models", "layer_norm.graph")
        cache = {"TCC_CACHE_DIR": os.path.join(self.folder, "cache")}
        for expected in (True, False):
            tcc(graph, "--run", f"--profile={self.file}", **cache)
            trace = Trace(self.file)
            self.check_names(trace)
            self.assertEqual(bool(trace.of("pass")), expected, "a step that the cache has runs no pass")
            self.assertEqual(len(trace.named("cache")), 1)
        own = os.path.join(self.folder, "own.json")
        tcc(graph, "--run", f"--profile={self.file}", f"-ftime-trace={own}", **cache)
        trace = Trace(self.file)
        self.check_names(trace)
        self.assertTrue(trace.of("pass"))
        with open(own, encoding="utf-8") as file:
            self.assertTrue(any(event["name"] == "pass" for event in json.load(file)["traceEvents"]))

    def test_an_artefact(self):
        step = os.path.join(self.folder, "step.tcc")
        tcc(os.path.join(ROOT, "models", "layer_norm.graph"), "-o", step)
        tcc(step, "--bench=2", f"--profile={self.file}")
        trace = Trace(self.file)
        self.check_names(trace)
        self.assertEqual(len(trace.named("load")), 1)
        self.assertEqual(len(trace.of("step")), 2)
        self.assertEqual(len(trace.named("run")), 5, "three warm up")

    def train(self, *arguments, status=0, **environment):
        with open(os.path.join(self.folder, "data.txt"), "w", encoding="utf-8") as file:
            file.write(TEXT)
        return run(os.path.join(BIN, "train_gpt"), "--data=data.txt", "--layers=2", "--width=32", "--seq=16",
                   "--heads=2", "--batch=4", "--threads=2", "--profile=trace.json", *arguments, folder=self.folder,
                   status=status, **environment)

    def test_a_whole_training_run(self):
        for more in ([], ["--no-prefetch"], ["--dtype=bf16", "--seq=20", "--vocab=300"]):
            with self.subTest(more):
                self.check_training(more)

    def check_training(self, more):
        done = self.train("--steps=30", "--eval-every=10", "--checkpoint", f"kept{len(more)}{'-'.join(more)}",
                          "--checkpoint-every=12", "--json=log.jsonl", "--save=saved", "--sample=3", *more)
        trace = Trace(self.file)
        self.check_names(trace)
        with open(os.path.join(self.folder, "log.jsonl"), encoding="utf-8") as file:
            lines = [json.loads(line) for line in file]
        steps, summary = lines[:-1], lines[-1]

        # Every step, with what it waited for.
        events = trace.named("training step")
        self.assertEqual([event.args["step"] for event in events], [line["step"] for line in steps])
        more_ms = []  # than the log's, which is written within the event
        for event, line in zip(events, steps):
            inside = sum(child.ns for child in event.children if child.name == "evaluate")
            more_ms.append((event.ns - inside) * 1e-6 - line["ms"])
        self.assertGreater(min(more_ms), 0)
        self.assertLess(sorted(more_ms)[15], 2)
        waits = trace.named("wait for batch")
        self.assertEqual([event.parent for event in waits], events)
        said = float(re.search(r"a step waited ([0-9.]+) ms for its batch", done.stderr).group(1))
        self.assertAlmostEqual(said, sum(event.ns for event in waits) / len(waits) * 1e-6, delta=0.001)
        reads = trace.named("read batch")
        if "--no-prefetch" in more:
            self.assertEqual(reads, [])
        else:
            self.assertEqual([event.args["step"] for event in reads], list(range(31)), "and one for no step")
            self.assertEqual({event.row for event in reads}, {"batch reading"})

        # What else happened, where it happened.
        for name, at in (("evaluate", [9, 19, 29]), ("write checkpoint", [12, 24, 30])):
            self.assertEqual([event.args["step"] for event in trace.named(name)], at)
        for name in ("load weights", "save weights", "sample", "read data"):
            self.assertEqual(len(trace.named(name)), 1, name)
        compiled = Counter(event.args["function"] for event in trace.named("compile"))
        self.assertEqual(compiled["training_step"], 1, compiled)
        self.assertEqual(compiled["held_out_loss"], 1, compiled)
        (step,) = [event for event in trace.named("compile") if event.args["function"] == "training_step"]
        (load,) = [event for event in trace.named("load") if event.args["function"] == "training_step"]
        self.assertAlmostEqual((step.ns + load.ns) * 1e-9, summary["compile_s"],
                               delta=0.02 + 0.05 * summary["compile_s"])  # the profile is turned into events, too

        # The steps whose instructions were recorded are those of the table.
        recorded = trace.of("step")
        self.assertEqual([event.parent.args["step"] for event in recorded], list(range(1, 21)))
        said = float(re.search(r"a step takes ([0-9.]+) ms", done.stderr).group(1))
        self.assertAlmostEqual(said, sum(event.ns for event in recorded) / 20 * 1e-6, delta=0.001)
        self.assertEqual(len({sum(child.args["flops"] for child in event.children) for event in recorded}), 1)
        self.assertEqual(len(trace.counters["tensors"]), 30)
        self.assertLessEqual(max(value for _, value in trace.counters["arena"]), summary["planned_bytes"])

    def test_a_run_that_fails_leaves_its_trace(self):
        done = self.train("--steps=60", "--warmup=0", "--schedule=constant", "--lr=1e38", "--max-skipped=3", status=1)
        self.assertIn("error: the run has diverged", done.stderr)
        self.assertEqual(len(Trace(self.file).named("training step")), 4)

    def test_a_place_that_cannot_be_written(self):
        done = self.train("--steps=2", "--profile=absent/trace.json", status=1)
        self.assertRegex(done.stderr, r"^error: --profile: cannot write `absent/trace\.json`: [^\n]*\n$")
        graph = os.path.join(ROOT, "models", "layer_norm.graph")
        self.assertIn("absent", tcc(graph, "--run", "--profile=/absent/t.json", status=1).stderr)

    def test_the_reader_refuses(self):
        event = {"name": "a", "cat": "train", "ph": "X", "pid": 1, "tid": 1, "ts": 0.0, "dur": 2.0, "args": {}}
        name = {"name": "thread_name", "ph": "M", "pid": 1, "tid": 1, "args": {"name": "main"}}
        count = {"name": "c", "ph": "C", "pid": 1, "ts": 1.0, "args": {"bytes": 1}}
        for wrong in ([event], [name, {**event, "ph": "B"}], [name, event, {**event, "ts": 1.0}],
                      [name, name], [name, count, {**count, "ts": 0.5}], [name, {**event, "dur": -1.0}]):
            with open(self.file, "w", encoding="utf-8") as file:
                json.dump({"traceEvents": wrong}, file)
            with self.assertRaises(Malformed):
                Trace(self.file)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
