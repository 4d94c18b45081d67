#!/usr/bin/env python3
"""What lanes and ranks cost on one machine: tokens/s of runs that are awake by turns, so that all see the same minutes.

    rank_turns.py --data FILE [--build DIR] [--model char] [--batch 8] [--turns N] [--seconds S] [--rows NAME,...]

A row is a training run of the batch, or two that know nothing of each other with half of it. In a turn one row runs for
some seconds and all others are stopped; the next turn has the rows in the opposite order. `planned MB` is what each process
needs. `of one` is a row's rate divided by that of the row `one` in the same turn: median, and quartiles. `steady` is the rate
that two processes of the row `apart` would have if each step lasted as long as the slower of the two took for it: what
ranks that meet in each step can reach.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time

RANKS = ["--threads", "1", "--ranks", "2"]
ROWS = {
    "one": ["--threads", "2"],
    "two_lanes": ["--threads", "2", "--lanes", "2"],
    "lanes": ["--threads", "2", "--lanes", "8"],
    "ranks": [*RANKS, "--lanes", "2"],
    "ranks8": [*RANKS, "--lanes", "8"],
    "behind": [*RANKS, "--lanes", "2", "-fno-schedule-collectives"],
    "fast": [*RANKS, "--lanes", "2", "--reduce=fast"],
    "zero": [*RANKS, "--lanes", "2", "--zero=2"],
    "apart": ["--threads", "1"],
}


def processes_below(process):
    found = [process]
    with open(f"/proc/{process}/task/{process}/children") as children:
        for child in children.read().split():
            found += processes_below(int(child))
    return found


class Run:
    """A training run that goes on until it is ended."""

    def __init__(self, given, folder, name, batch, options):
        self.tokens, self.log, self.read = batch * given.seq, os.path.join(folder, f"{name}.json"), 0
        command = [f"{given.build}/bin/train_gpt", "--model", given.model, "--seq", str(given.seq), "--data", given.data,
                   "--steps", "1000000", "--lr", "1e-5", "--schedule=constant", "--quiet", f"--json={self.log}", "--batch",
                   str(batch), *options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                        env=dict(os.environ, TCC_MPI=given.mpi))
        while len(self.steps()) < 2:
            if self.process.poll() is not None:
                sys.exit(f"{' '.join(command)}: {self.process.stderr.read()[-600:]}")
            time.sleep(0.05)
        self.all = processes_below(self.process.pid)

    def signal(self, number):
        for process in self.all:
            try:
                os.kill(process, number)
            except ProcessLookupError:
                pass

    def end(self):
        """Ranks leave nothing behind where they are told to end, and say what they have planned."""
        self.signal(signal.SIGCONT)
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
        with open(self.log) as lines:
            self.planned = json.loads(lines.read().splitlines()[-1]).get("planned_bytes", 0)

    def steps(self):
        """The ms of each step so far."""
        if not os.path.exists(self.log):
            return []
        with open(self.log) as lines:
            return [json.loads(line)["ms"] for line in lines if line.endswith("}\n")]

    def new_steps(self):
        """The ms of the steps since the last call, but for the first, in which the run was stopped."""
        steps = self.steps()
        new, self.read = steps[self.read + 1:], len(steps)
        return new


def turn(runs, seconds):
    """Lets the runs of a row go on; gives their rate and that of steps as slow as the slower one."""
    for run in runs:
        run.new_steps()
    for run in runs:
        run.signal(signal.SIGCONT)
    time.sleep(seconds)
    for run in runs:
        run.signal(signal.SIGSTOP)
    time.sleep(0.05)
    steps = [run.new_steps() for run in runs]
    if not all(steps):
        sys.exit(f"no whole step in {seconds} s: --seconds says how long a turn is")
    slowest = [max(pair) for pair in zip(*steps)]
    tokens = sum(run.tokens for run in runs)
    rate = sum(1e3 * run.tokens * len(own) / sum(own) for run, own in zip(runs, steps))
    return rate, 1e3 * tokens * len(slowest) / sum(slowest)


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", required=True)
    options.add_argument("--build", default="build")
    options.add_argument("--model", default="char")
    options.add_argument("--batch", type=int, default=8)
    options.add_argument("--seq", type=int, default=256)
    options.add_argument("--turns", type=int, default=12)
    options.add_argument("--seconds", type=float, default=4.5, help="of a turn, some four steps")
    options.add_argument("--rows", type=lambda text: text.split(","), default=list(ROWS), help=", ".join(ROWS))
    options.add_argument("--mpi", default="openmpi")
    given = options.parse_args()
    names = ["one", *(name for name in given.rows if name != "one")]
    if unknown := [name for name in names if name not in ROWS]:
        sys.exit(f"no row is called {unknown[0]}: {', '.join(ROWS)}")
    runs, rates = {}, {name: [] for name in [*names, *(["steady"] if "apart" in names else [])]}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for name in names:
                count = 2 if name == "apart" else 1
                runs[name] = []
                for number in range(count):
                    runs[name].append(Run(given, folder, f"{name}{number}", given.batch // count, ROWS[name]))
                for run in runs[name]:
                    run.signal(signal.SIGSTOP)
            for number in range(given.turns):
                for name in names if number % 2 == 0 else names[::-1]:
                    rate, slower = turn(runs[name], given.seconds)
                    rates[name].append(rate)
                    if name == "apart":
                        rates["steady"].append(slower)
        finally:
            for run in sum(runs.values(), []):
                run.end()
    print(f"| row | tokens/s | planned MB | of one | quartiles |{' of apart | quartiles |' if 'apart' in names else ''}\n"
          f"| --- | --- | --- | --- | --- |{' --- | --- |' if 'apart' in names else ''}")
    for name in rates:
        planned = f"{runs[name][0].planned / 1e6:.1f}" if name in runs else ""
        cells = [name, f"{statistics.median(rates[name]):.0f}", planned]
        for beside in ("one", "apart") if "apart" in names else ("one",):
            ratios = sorted(own / other for own, other in zip(rates[name], rates[beside]))
            cells += [f"{statistics.median(ratios):.3f}",
                      f"{ratios[len(ratios) // 4]:.3f} to {ratios[3 * len(ratios) // 4]:.3f}"]
        print("|", " | ".join(cells), "|")


if __name__ == "__main__":
    main()
