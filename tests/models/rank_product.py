#!/usr/bin/env python3
"""Ranks beside one process for 200 steps, by every combination of ranks, lanes, --zero, optimizer, types, dropout and MPI.

    rank_product.py --train build/bin/train_gpt --done FILE [--machine DIR] [--seed N] [--minutes M] [--steps N]

Losses, norms, evaluations and hashes of the parameters must be equal. The first runs hold every pair of choices, the
others follow in the order of the seed. FILE gets a line for each run, and what it has already is not run again, so that
the product may be run in pieces. --machine: on stand-ins for GPUs with NCCL's, where only the pairs are run. Exit status 1
where a run has other bits.
"""
import argparse
import hashlib
import itertools
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass, fields

import rank_runs

TYPES = {"f32": [], "bf16": ["--dtype=bf16"], "bf16 parameters": ["--dtype=bf16", "--params=bf16"]}


@dataclass(frozen=True, order=True)
class Choice:
    """A run of several ranks."""
    engine: str
    ranks: int
    lanes: int
    zero: int
    optimizer: str
    types: str
    dropout: str

    def of_one(self, steps):
        """Options of the run by one process that must have the same bits."""
        tenth = max(1, steps // 10)
        return ["--steps", str(steps), "--batch", str(self.lanes), "--lanes", str(self.lanes), "--optimizer", self.optimizer,
                *TYPES[self.types], "--dropout", self.dropout, "--accumulate", "2", "--hash-every", str(tenth),
                "--eval-every", str(5 * tenth), "--eval-batches", "3", "--eval-share", "0.3"]

    def of_ranks(self):
        return [f"--ranks={self.ranks}", f"--zero={self.zero}"]

    def pairs(self):
        values = [(field.name, getattr(self, field.name)) for field in fields(self)]
        return set(itertools.combinations(values, 2))

    def __str__(self):
        return ", ".join(f"{field.name}={getattr(self, field.name)}" for field in fields(self))


def last_stage(lanes, ranks):
    """Ranks whose lanes are equally many, a power of two, may share out parameters."""
    return 3 if lanes % ranks == 0 and (lanes // ranks).bit_count() == 1 else 2


def every_choice(engines, most_ranks=8, stages=3):
    numbers = [(ranks, lanes, zero) for ranks in (2, 3, 4, 8) for lanes in (8, 24)
               for zero in range(min(stages, last_stage(lanes, ranks)) + 1) if ranks <= most_ranks]
    return [Choice(engine, *number, *rest) for engine, number, *rest in itertools.product(
        engines, numbers, ("adamw", "muon", "adafactor"), TYPES, ("0", "0.1"))]


def pairs_first(choices, generator):
    """The choices in an order of which the beginning holds every pair of values; gives how many those are, too."""
    rest = list(choices)
    generator.shuffle(rest)
    missing = set().union(*(choice.pairs() for choice in rest))
    first = []
    while missing:
        best = max(rest, key=lambda choice: len(choice.pairs() & missing))
        first.append(best)
        missing -= best.pairs()
        rest.remove(best)
    return first + rest, len(first)


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--train", required=True)
    options.add_argument("--done", required=True, help="the file of runs that are done")
    options.add_argument("--machine", help="the folder of the stand-ins for a GPU")
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--minutes", type=float, default=1e9, help="no run begins later")
    options.add_argument("--steps", type=int, default=200)
    given = options.parse_args()
    mpis = rank_runs.mpis_for(given.train)
    if not mpis:
        print("no MPI: mpirun.openmpi and mpirun.mpich are missing, or this build has no part for them")
        return 77
    every = every_choice(mpis[:1], 4, 2) if given.machine else every_choice(mpis)
    order, covering = pairs_first(every, random.Random(given.seed))
    if given.machine:
        order = order[:covering]
    done = dict(line.rstrip("\n").split(": ", 1) for line in open(given.done)) if os.path.exists(given.done) else {}
    print(f"seed {given.seed}: {len(order)} runs, of which {covering} hold every pair; {len(done)} are done", flush=True)
    end = time.time() + 60 * given.minutes
    with tempfile.TemporaryDirectory(dir=rank_runs.memory_folder(), prefix="tcc-rank-product-") as folder:
        os.environ["TCC_CACHE_DIR"] = os.path.join(folder, "cache")
        trainer = rank_runs.Trainer(given.train, folder)
        more = on_stand_ins(given.machine) if given.machine else []
        ones = {}
        for choice in order:
            name = f"{'stand-in NCCL' if given.machine else 'MPI'}, {choice}, steps={given.steps}"
            if name in done or time.time() > end:
                continue
            of_one = tuple(choice.of_one(given.steps))
            begin = time.time()
            if of_one not in ones:
                ones[of_one] = trainer.run(*of_one, *more)[0]
            several, said = trainer.run(*of_one, *choice.of_ranks(), *more, mpi=choice.engine)
            one = ones[of_one]
            same = len(one) == given.steps and several == one
            digest = hashlib.sha256(repr(sorted(several.items())).encode()).hexdigest()[:12]
            done[name] = f"{'equal' if same else 'DIFFERENT'} {digest} {time.time() - begin:.1f} s"
            rank_runs.check(same, f"{name} has the bits of one process: {said[:300]}")
            with open(given.done, "a") as file:
                file.write(f"{name}: {done[name]}\n")
    equal = sum(line.startswith("equal") for line in done.values())
    print(f"{equal} of {len(done)} runs have the bits of one process; {len(order)} are to be run", flush=True)
    return 1 if equal < len(done) or rank_runs.failures else 0


def on_stand_ins(machine):
    """The environment of ranks on GPUs of stand-ins, and options of a run there."""
    os.environ.update(rank_runs.stand_ins(machine), TCC_CUDA_MACHINE="random,seed=7,plain,devices=8")
    return ["--device=cuda", "--width=16", "--seq=8"]


if __name__ == "__main__":
    sys.exit(main())
