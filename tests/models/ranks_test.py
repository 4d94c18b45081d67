#!/usr/bin/env python3
"""Several ranks train as one does: the same bits for any number of them, by both MPIs.

    ranks_test.py --train build/bin/train_gpt [--full] [--seed N] [--only NAME,...]

Every run is compared with one process that computes all lanes. Without --full a few dozen pairs of choices are tried;
with it every one, for 200 steps. Exit status 77 where there is no MPI.
"""
import argparse
import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys

from rank_runs import check, run_tests, stand_ins, started_by, tensor_files


def choices(full, seed):
    """Runs as (mpi, ranks, options): every combination, or pairs of choices as a seed draws them."""
    optimizers = ["adamw", "muon", "adafactor"]
    kinds = [("f32", "0"), ("bf16", "0"), ("f32", "0.1"), ("bf16", "0.1")]
    lanes = ["8", "24"]
    every = list(itertools.product(["openmpi", "mpich"], [2, 3, 4, 8], optimizers, kinds, lanes))
    if full:
        return every
    generator = random.Random(seed)
    kept, seen = [], set()
    generator.shuffle(every)
    for one in every:  # each MPI with 2 and 4 ranks, each time with an optimizer and a kind of its own
        new = {("ranks", one[0], one[1]), ("optimizer", one[2]), ("kind", one[3])} - seen
        if len(new) >= (3 if len(kept) < 3 else 2) and ("ranks", one[0], one[1]) in new and one[1] in (2, 4):
            kept.append(one)
            seen |= new
    return kept


def last_stage(lanes, ranks):
    """Ranks whose lanes are equally many, a power of two, may share out parameters."""
    return 3 if lanes % ranks == 0 and (lanes // ranks).bit_count() == 1 else 2


def compare(trainer, mpis, full, seed):
    steps = "200" if full else "8"
    whole, generator = {}, random.Random(seed)
    for mpi, ranks, optimizer, (dtype, dropout), lanes in choices(full, seed):
        if mpi not in mpis:
            continue
        options = ["--steps", steps, "--batch", lanes, "--lanes", lanes, "--optimizer", optimizer, "--dtype", dtype,
                   "--dropout", dropout, "--accumulate", "2", "--hash-every", "4", "--eval-every", "4", "--eval-batches",
                   "5", "--eval-share", "0.3"]
        if tuple(options) not in whole:
            whole[tuple(options)] = trainer.run(*options)
        one, said_by_one = whole[tuple(options)]
        check(len(one) == int(steps), "the run of one process has all steps")
        bucket, zero = generator.choice(["4KiB", "16KiB", "25MiB"]), generator.randint(0, last_stage(int(lanes), ranks))
        several, said = trainer.run(*options, f"--ranks={ranks}", f"-fbucket={bucket}", f"--zero={zero}", mpi=mpi)
        check(several == one, f"{ranks} ranks by {mpi}, buckets of {bucket}, --zero={zero}, have the bits of one: "
              f"{' '.join(options)}")
        check(said == said_by_one, f"ranks say what one process says, once: {said[:300]}")


def in_flight(trainer, mpis):
    """Gradients of a bucket are exchanged while the next ones are computed, with the bits of one process."""
    options = ["--steps", "8", "--batch", "8", "--lanes", "8", "--layers", "2", "--hash-every", "4"]
    one, _ = trainer.run(*options)
    for number, mpi in enumerate(mpis):
        ranks = 2 + number
        command, log = trainer.command(*options, f"--ranks={ranks}", "-fbucket=16KiB", "-Rpass=schedule-collectives")
        done = subprocess.run([part for part in command if part != "--quiet"], capture_output=True, text=True, timeout=300,
                              env=trainer.environment(mpi))
        check(done.returncode == 0 and trainer.bits(log) == one, f"{ranks} ranks by {mpi} with collectives in flight have "
              f"the bits of one: {done.stderr[-600:]}")
        flying = [line for line in done.stderr.splitlines() if "all_to_all" in line and " runs beside " in line]
        check(len(flying) >= 3, f"{len(flying)} exchanges of {mpi} run beside other ops: {done.stderr[-600:]}")
    # Small buckets, and one rank with more lanes than the others: kernels of its own, and the order of all.
    options = ["--steps", "4", "--batch", "4", "--lanes", "4", "--width", "16", "--seq", "8", "--hash-every", "2"]
    several, _ = trainer.run(*options, "--ranks=3", "-fbucket=2KiB", mpi=mpis[0])
    check(several == trainer.run(*options)[0], "3 ranks of 4 lanes with small buckets have the bits of one")


def shared_out(trainer, mpis, full, seed):
    """--zero: the bits of one process, whatever the optimizer and the types."""
    generator = random.Random(seed)
    sizes = ["--width", "36", "--heads", "3", "--vocab", "259"]
    narrow = ["--params", "bf16", "--dtype", "bf16"]
    kinds = [[*sizes, "--optimizer", "adafactor"], [*sizes, *narrow, "--optimizer", "muon"],
             ["--lora", "4", "--remat", "full", "--seq", "16", "--init", base_folder(trainer, sizes)]]
    if not full:
        del kinds[seed % 2]
    else:
        kinds += [[*sizes, *more, "--optimizer", name] for more in ([], narrow) for name in ("adamw", "lion", "sgd")]
        kinds += [[*sizes, "--optimizer", "muon"], [*sizes, *narrow, "--optimizer", "adafactor"]]
    for number, kind in enumerate(kinds):
        options = ["--steps", "3", "--batch", "8", "--lanes", "8", "--hash-every", "3", "--accumulate", "2", *kind]
        one, _ = trainer.run(*options)
        check(len(one) == 3, f"one process runs {' '.join(kind)}")
        # Of 8 lanes on 3 ranks each rank's last node is one lane or two; gradients of two batches are added up in it.
        drawn = [(2, 3) if number == 0 else (3, generator.choice([2, 4]))]
        for stage, ranks in itertools.product(range(4), (2, 3, 4, 8)) if full else drawn:
            if stage > last_stage(8, ranks):
                continue
            mpi = mpis[generator.randrange(len(mpis))]
            several, said = trainer.run(*options, f"--ranks={ranks}", f"--zero={stage}", mpi=mpi)
            check(several == one, f"{ranks} ranks by {mpi} with --zero={stage} have the bits of one: {' '.join(kind)} "
                  f"{said}")
    # Sizes that pad-shapes would let grow where parameters are gathered, and not where they are a body's inputs.
    options = ["--steps", "2", "--batch", "8", "--lanes", "8", "--layers", "1", "--heads", "2", "--width", "126",
               "--seq", "101", "--dtype", "bf16", "--dropout", "0.1"]
    one, _ = trainer.run(*options)
    several, said = trainer.run(*options, "--ranks=2", "--zero=3", mpi=mpis[0])
    check(len(one) == 2 and several == one, f"2 ranks with --zero=3 have the bits of one at odd sizes: {said}")


def base_folder(trainer, sizes):
    folder = os.path.join(trainer.folder, "base")
    trainer.run("--steps", "1", *sizes, "--save", folder)
    return folder


def planned(trainer, mpis, full, seed):
    """Each rank counts the bytes that are planned; --zero=auto takes the least stage that fits and says why."""
    def said(*options):
        command, _ = trainer.command("--steps", "3", "--batch", "6", "--lanes", "6", "--ranks=3", *options)
        done = subprocess.run([part for part in command if part != "--quiet"], capture_output=True, text=True,
                              timeout=300, env=trainer.environment(mpis[0]))
        check(done.returncode == 0, f"{options}: {done.stderr[-600:]}")
        return done.stderr

    bytes_of = {}
    for stage in ("0", "1", "2", "3") if full else ("0", "1", ("2", "3")[seed % 2]):
        text = said(f"--zero={stage}", "--eval-every=2", "--eval-batches=3")
        for what in ("memory", "memory of evaluation"):
            found = re.search(what + r": (\d+) bytes planned, (\d+) bytes counted", text)
            check(found and found[1] == found[2], f"--zero={stage}, {what}: planned is counted: {text[-600:]}")
            if what == "memory":
                bytes_of[stage] = int(found[1]) if found else 0
        lists = [line for line in text.splitlines() if "planned, by rank:" in line]
        check(len(lists) == (0 if stage == "0" else 2), f"--zero={stage} says bytes by rank: {lists}")
        for line in lists:
            by_rank = re.findall(r" (\d+) of (\d+)(?=,|$)", line.split("planned, by rank:")[1])
            check(len(by_rank) == 3 and all(counted == plan for counted, plan in by_rank), f"each rank counts: {by_rank}")
    check(bytes_of.get("3", 0) < bytes_of["1"] < bytes_of["0"], f"parts of states need less, of parameters too: {bytes_of}")
    text = said("--zero=auto", f"--memory-limit={(bytes_of['0'] + bytes_of['1']) // 2}")
    check("--zero=auto: stage 0 takes" in text and "which fits in" in text and "--zero=1)" in text,
          f"--zero=auto says why it takes stage 1: {text[-600:]}")
    # Of eight layers, values of one are read by gathers alone, which are never copied.
    graph = os.path.join(trainer.folder, "deep.graph")
    command, _ = trainer.command("--steps", "0", "--batch", "32", "--lanes", "8", "--layers", "8", "--seq", "64",
                                 f"--emit-graph={graph}")
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    compiler = os.path.join(os.path.dirname(trainer.program), "tcc")
    done = subprocess.run([compiler, graph, "--ranks=2", "--zero=3", "--remat=full", "-emit=memory"], capture_output=True,
                          text=True, timeout=300)
    check(done.returncode == 0, f"eight layers with --remat=full and --zero=3 are planned: {done.stderr[-600:]}")
    # Where a window has several parameters, a kernel packs them. The forward's gathers must not wait for the backward's.
    command, _ = trainer.command("--steps", "0", "--batch", "4", "--lanes", "2", "--seq", "64", f"--emit-graph={graph}",
                                 "--params=bf16", "--model", "llama-baby", "--layers", "8", "--width", "128", "--heads",
                                 "4")
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    done = subprocess.run([compiler, graph, "--ranks=2", "--zero=3", "-fbucket=128KiB", "-emit=json"], capture_output=True,
                          text=True, check=True, timeout=300)
    gathers = [0]  # between two matmuls
    for instruction in json.loads(done.stdout)["instructions"]:
        if "product" in instruction:
            gathers.append(0)
        elif instruction["op"] == "collective" and instruction["exchange"] == "all_gather":
            gathers[-1] += 1
    check(max(gathers) <= 10 and sum(gathers) > 60, f"parameters are gathered window by window: {max(gathers)} at a time")


def saved(trainer, mpis):
    """What the first rank does with parameters, it does with whole ones: weights that are saved, a sample."""
    options = ["--steps", "4", "--batch", "8", "--lanes", "8", "--eval-every", "2", "--eval-batches", "2"]
    kept = []
    for ranks, zero in (("1", "0"), ("4", "3")):
        folder = os.path.join(trainer.folder, f"saved{ranks}")
        command, log = trainer.command(*options, "--sample", "20", "--save", folder, f"--ranks={ranks}", f"--zero={zero}")
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=trainer.environment(mpis[-1]))
        check(done.returncode == 0, f"{ranks} ranks save: {done.stderr[-600:]}")
        with open(os.path.join(folder, "model.safetensors"), "rb") as file:
            kept.append((trainer.bits(log), done.stdout, file.read()))
    check(kept[0] == kept[1] and kept[0][1], f"4 ranks save and sample what one does: {kept[0][1]} {kept[1][1]}")


def differ(trainer):
    """Lanes are what the bits follow from."""
    options = ["--steps", "6", "--batch", "8", "--hash-every", "3"]
    runs = [trainer.run(*options, "--lanes", lanes)[0] for lanes in ("1", "2", "8")]
    check(runs[0] != runs[1] and runs[1] != runs[2], "another number of lanes has other bits")
    check(trainer.run(*options)[0] == runs[0], "without --lanes there is one")
    packed = trainer.run(*options, "--lanes", "8", "-fno-keep-packed")[0]
    check(packed == runs[2], "weights that each lane packs give the bits of those that are packed once")


def resume(trainer, mpis, full):
    """4 ranks, stopped, then 2, then 1: the bits of a run that nothing stopped, in its checkpoint too."""
    options = ["--batch", "8", "--lanes", "8", "--hash-every", "4", "--dropout", "0.1", "--schedule", "constant",
               "--warmup", "0", "--checkpoint-every", "3"]
    whole_folder, folder = (os.path.join(trainer.folder, name) for name in ("whole", "checkpoints"))
    whole, _ = trainer.run(*options, "--steps", "12", "--checkpoint", whole_folder)
    files = tensor_files(whole_folder)
    check(len(files) >= 2, f"a checkpoint has weights and states: {list(files)}")
    every = [(mpi, stages) for mpi in mpis for stages in (("0", "0"), ("1", "0"), ("0", "2"), ("2", "1"), ("3", "0"), ("3", "3"))]
    for mpi, stages in every if full else [(mpis[0], ("2", "3"))]:
        parts = {}
        shutil.rmtree(folder, ignore_errors=True)
        for ranks, zero, steps in (("4", stages[0], "4"), ("2", stages[1], "8"), ("1", "1", "12")):
            again = ["--resume"] if parts else []
            part, _ = trainer.run(*options, "--steps", steps, "--checkpoint", folder, *again, f"--ranks={ranks}",
                                  f"--zero={zero}", mpi=mpi)
            parts.update(part)
        check(parts == whole, f"4, then 2, then 1 rank (--zero={stages}) have the bits of a run that nothing stopped")
        check(tensor_files(folder) == files, f"so has the checkpoint (--zero={stages})")
    _, said = trainer.run("--batch", "8", "--lanes", "4", "--steps", "14", "--dropout", "0.1", "--checkpoint", folder,
                          "--resume", status=1)
    check("lanes" in said, f"other lanes are refused at resume: {said}")


def configured(trainer, mpis):
    """Options of a file are those of every rank, the number of ranks too."""
    file = os.path.join(trainer.folder, "run.yaml")
    with open(file, "w") as out:
        out.write("batch: 8\nlanes: 8\nsteps: 5\nhash-every: 2\nranks: 2\n")
    one, _ = trainer.run("--config", file, "--ranks=1")
    several, said = trainer.run("--config", file, mpi=mpis[0])
    check(len(one) == 5 and several == one, f"2 ranks by a file of options have the bits of one: {said}")
    with open(file, "a") as out:
        out.write("accumulate: 0\n")
    _, said = trainer.run("--config", file, mpi=mpis[0], status=2)
    check(f"{file}:6:13: --accumulate" in said and said.count("\n") == 1, f"a wrong file is said once: {said}")


def fast(trainer, mpis):
    options = ["--steps", "8", "--batch", "8", "--lanes", "8"]
    one, _ = trainer.run(*options)
    several, _ = trainer.run(*options, "--ranks=3", "--reduce=fast", mpi=mpis[-1])
    check(several.keys() == one.keys(), "--reduce=fast runs all steps")
    for step, values in several.items():
        check(abs(float(values[0]) - float(one[step][0])) < 1e-4, f"--reduce=fast is near in step {step}")


def launched(trainer, mpis):
    """By mpirun itself."""
    options = ["--steps", "6", "--batch", "8", "--lanes", "8", "--hash-every", "3"]
    one, _ = trainer.run(*options)
    for mpi in mpis:
        several, _ = trainer.run(*options, by=[*started_by(mpi), "-n", "2"])
        check(several == one, f"mpirun.{mpi} starts ranks with the bits of one")


def share(trainer, mpis):
    """The machine's peak, of which a run of ranks has a share, is that of all ranks."""
    cache = os.path.join(trainer.folder, "share")
    limits = os.path.join(cache, "limits", "1-threads.json")
    options = ["--steps", "2", "--batch", "8", "--lanes", "2", "--threads", "1"]

    def run(*more):
        command, log = trainer.command(*options, *more)
        subprocess.run(command, check=True, capture_output=True, timeout=300,
                       env=trainer.environment(mpis[0], TCC_CACHE_DIR=cache))
        with open(log) as lines:
            return json.loads(lines.readlines()[-1])

    run()  # measures the limits
    with open(limits) as file:
        text = json.load(file)
    with open(limits, "w") as file:
        json.dump(dict(text, product_flops=1e15), file)
    one, two = (end["mfu"] / end["tokens_per_second"] for end in (run(), run("--ranks=2")))
    check(abs(two / one - 0.5) < 1e-3, f"a token is half the share of two ranks that it is of one: {two / one}")


def waits(trainer, mpis):
    """rank_waits: a step whose kernels are waits takes the time that they take, and what exchanges take."""
    graph, artefact, times = (os.path.join(trainer.folder, f"waits.{ending}") for ending in ("graph", "tcc", "times"))
    folder = os.path.dirname(trainer.program)
    command, _ = trainer.command("--steps", "0", "--batch", "32", "--lanes", "2", "--layers", "4", "--width", "128",
                                 "--seq", "64", f"--emit-graph={graph}")
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    subprocess.run([os.path.join(folder, "tcc"), graph, "--ranks=2", "-fbucket=256KiB", "-o", artefact], check=True,
                   capture_output=True, timeout=300)

    def said(*command, **environment):
        done = subprocess.run([*command, artefact], capture_output=True, text=True, timeout=300,
                              env=dict(os.environ, **environment))
        check(done.returncode == 0, f"{' '.join(command)}: {done.stderr[-600:]}")
        return json.loads(done.stdout.strip().splitlines()[-1])

    program = os.path.join(folder, "rank_waits")
    plan = said(program, f"--measure={times}", "--steps=3")
    check(plan["ranks"] == 2 and 0 < plan["backward_ms"] < plan["computed_ms"] and 0 < plan["late_share"] < 1,
          f"the times of one rank: {plan}")
    run = said(*started_by(mpis[0]), "-n", "2", program, f"--times={times}", "--steps=3", TCC_MPI=mpis[0])
    check(run["computed_ms"] > 0.9 * plan["computed_ms"] and run["step_ms"] > run["computed_ms"] and
          run["exchange_ms"] > 0, f"2 ranks wait as long, and exchange: {plan} {run}")


def engine(program, mpis):
    """Each collective by itself."""
    for mpi in mpis:
        for count in (2, 5):
            done = subprocess.run([*started_by(mpi), "-n", str(count), program], capture_output=True, text=True, timeout=60,
                                  env=dict(os.environ, TCC_MPI=mpi))
            check(done.returncode == 0 and done.stdout.startswith(f"{count} ranks by "),
                  f"{mpi} exchanges between {count} ranks: {done.stdout}{done.stderr[-500:]}")


def on_gpus(trainer, mpis, machine, full):
    """Ranks on GPUs of stand-ins, with NCCL's: the bits of one process, and errors of NCCL end a run in one line."""
    steps = 6 if full else 4
    options = ["--device=cuda", "--width=16", "--seq=8", "--batch=8", "--lanes=4", f"--steps={steps}", "--hash-every=2",
               f"--eval-every={steps // 2}", "--eval-batches=2"]
    os.environ.update(stand_ins(machine), TCC_CUDA_MACHINE="late,devices=4")
    nowhere = {"TCC_NCCL": "/nowhere/libnccl.so.2"}
    one, _ = trainer.run(*options, "--device=cuda:3", **nowhere)
    check(len(one) == steps, "the run of one process has all steps, and needs no NCCL")
    zeros = ["0", "1", "2", "3"]
    for number, (mpi, zero) in enumerate(itertools.product(mpis, zeros) if full else zip(itertools.cycle(mpis), zeros[1:])):
        os.environ["TCC_CUDA_MACHINE"] = ("early", "random,seed=7", "late")[number % 3] + ",devices=4"
        # One rank alone is profiled: then all run their steps call by call.
        profile = ["--profile", os.path.join(trainer.folder, "profile.json")] if number == 0 else []
        several, _ = trainer.run(*options, "--ranks=2", f"--zero={zero}", "-fbucket=16KiB", *profile, mpi=mpi)
        check(several == one, f"2 ranks by {mpi} on GPUs, --zero={zero}, have the bits of one")
    os.environ["TCC_NCCL_MACHINE"] = "rank=1,broken=3,code=2"
    _, said = trainer.run(*options, "--ranks=2", mpi=mpis[0], status=1)
    check("of rank 1 with the other ranks failed: NCCL status 2 (unhandled system" in said and
          said.count("error:") == 1, f"an error of NCCL ends the run in one line: {said}")
    del os.environ["TCC_NCCL_MACHINE"]
    _, said = trainer.run(*options, "--ranks=2", mpi=mpis[0], status=1, **nowhere)
    check("NCCL (NVIDIA's exchange between GPUs) could not be opened" in said, f"what is missing is said: {said}")


def tests_of(trainer, mpis, given):
    if given.machine:
        return [("on_gpus", lambda: on_gpus(trainer, mpis, given.machine, given.full))]
    return [("compare", lambda: compare(trainer, mpis, given.full, given.seed)),
            ("shared_out", lambda: shared_out(trainer, mpis, given.full, given.seed)),
            ("planned", lambda: planned(trainer, mpis, given.full, given.seed)),
            ("in_flight", lambda: in_flight(trainer, mpis)),
            ("resume", lambda: resume(trainer, mpis, given.full)),
            ("saved", lambda: saved(trainer, mpis)),
            ("differ", lambda: differ(trainer)),
            ("configured", lambda: configured(trainer, mpis)),
            ("fast", lambda: fast(trainer, mpis)),
            ("launched", lambda: launched(trainer, mpis)),
            ("share", lambda: share(trainer, mpis)),
            ("waits", lambda: waits(trainer, mpis)),
            ("engine", lambda: engine(given.engine, mpis))]


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--engine", help="the program ranks_engine")
    options.add_argument("--machine", help="the folder of the stand-ins for a GPU: only their test is run")
    sys.exit(run_tests(options, tests_of))
