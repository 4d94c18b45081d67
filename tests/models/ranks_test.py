#!/usr/bin/env python3
"""Several ranks train as one does: the same bits for any number of them, by both MPIs.

    ranks_test.py --train build/bin/train_gpt [--full] [--seed N]

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
import signal
import subprocess
import sys
import tempfile
import time

MODEL = ["--model", "baby", "--layers", "1", "--width", "32", "--heads", "2", "--seq", "16"]
failures = []


def check(holds, what):
    if not holds:
        failures.append(what)
        print("FAILED:", what, flush=True)


def started_by(mpi):
    return [f"mpirun.{mpi}"] + (["--allow-run-as-root", "--oversubscribe"] if mpi == "openmpi" else [])


class Trainer:
    def __init__(self, program, folder):
        self.program, self.folder, self.number = program, folder, 0
        self.data = os.path.join(folder, "text.txt")
        generator = random.Random(5)
        words = ["".join(generator.choices("abcdefghij", k=generator.randint(2, 7))) for _ in range(200)]
        with open(self.data, "w") as file:
            file.write(" ".join(generator.choice(words) for _ in range(6000)))

    def command(self, *options):
        self.number += 1
        log = os.path.join(self.folder, f"log{self.number}.json")
        model = [] if "--init" in options else MODEL  # a folder has its own sizes
        return [self.program, "--data", self.data, *model, "--json", log, "--quiet", "--device=cpu", *options], log

    def environment(self, mpi):
        return dict(os.environ, TCC_MPI=mpi) if mpi else dict(os.environ)

    def run(self, *options, mpi="", status=0, by=()):
        command, log = self.command(*options)
        done = subprocess.run([*by, *command], capture_output=True, text=True, timeout=300, env=self.environment(mpi))
        check(done.returncode == status, f"{' '.join(command[3:])} ({mpi}) exits with {done.returncode}, not {status}: "
              f"{done.stderr[-600:]}")
        return self.bits(log), done.stderr

    @staticmethod
    def bits(log):
        """What must be equal: losses, norms, evaluations and hashes of the parameters, by step."""
        steps = {}
        if os.path.exists(log):
            for line in open(log):
                record = json.loads(line)
                if "step" in record:
                    steps[record["step"]] = tuple(
                        json.dumps(record.get(key)) for key in ("loss", "norm", "val_loss", "parameters"))
        return steps


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
    for one in every:  # pairs of MPI and ranks, and of optimizer and kind, each once
        new = {("r", one[0], one[1]), ("o", one[2], one[3])} - seen
        if len(new) == 2 and one[1] < 8:
            kept.append(one)
            seen |= new
    return kept


def last_stage(lanes, ranks):
    """Ranks whose lanes are equally many, a power of two, may share out parameters."""
    return 3 if lanes % ranks == 0 and (lanes // ranks).bit_count() == 1 else 2


def compare(trainer, mpis, full, seed):
    steps = "200" if full else "12"
    whole, generator = {}, random.Random(seed)
    for mpi, ranks, optimizer, (dtype, dropout), lanes in choices(full, seed):
        if mpi not in mpis:
            continue
        options = ["--steps", steps, "--batch", lanes, "--lanes", lanes, "--optimizer", optimizer, "--dtype", dtype,
                   "--dropout", dropout, "--accumulate", "2", "--hash-every", "6", "--eval-every", "6", "--eval-batches",
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
    options = ["--steps", "8", "--batch", "8", "--lanes", "8", "--layers", "3", "--hash-every", "4"]
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
             ["--lora", "4", "--seq", "16", "--init", base_folder(trainer, sizes)]]
    if full:
        kinds += [[*sizes, *more, "--optimizer", name] for more in ([], narrow) for name in ("adamw", "lion", "sgd")]
        kinds += [[*sizes, "--optimizer", "muon"], [*sizes, *narrow, "--optimizer", "adafactor"]]
    for number, kind in enumerate(kinds):
        options = ["--steps", "3", "--batch", "8", "--lanes", "8", "--hash-every", "3", "--accumulate", "2", *kind]
        one, _ = trainer.run(*options)
        check(len(one) == 3, f"one process runs {' '.join(kind)}")
        drawn = [(1 + number % 2, 3) if (number + seed) % 2 else (3, generator.choice([2, 4]))]
        for stage, ranks in itertools.product(range(4), (2, 3, 4, 8)) if full else drawn:
            if stage > last_stage(8, ranks):
                continue
            mpi = mpis[generator.randrange(len(mpis))]
            several, said = trainer.run(*options, f"--ranks={ranks}", f"--zero={stage}", mpi=mpi)
            check(several == one, f"{ranks} ranks by {mpi} with --zero={stage} have the bits of one: {' '.join(kind)} "
                  f"{said}")


def base_folder(trainer, sizes):
    folder = os.path.join(trainer.folder, "base")
    trainer.run("--steps", "1", *sizes, "--save", folder)
    return folder


def planned(trainer, mpis):
    """Each rank counts the bytes that are planned; --zero=auto takes the least stage that fits and says why."""
    def said(*options):
        command, _ = trainer.command("--steps", "3", "--batch", "6", "--lanes", "6", "--ranks=3", *options)
        done = subprocess.run([part for part in command if part != "--quiet"], capture_output=True, text=True,
                              timeout=300, env=trainer.environment(mpis[0]))
        check(done.returncode == 0, f"{options}: {done.stderr[-600:]}")
        return done.stderr

    bytes_of = {}
    for stage in ("0", "1", "2", "3"):
        text = said(f"--zero={stage}")
        found = re.search(r"memory: (\d+) bytes planned, (\d+) bytes counted", text)
        check(found and found[1] == found[2], f"--zero={stage}: planned is counted: {text[-400:]}")
        bytes_of[stage] = int(found[1]) if found else 0
        if stage != "0":
            by_rank = re.findall(r" (\d+) of (\d+)(?=,|$)", text.split("planned, by rank:")[-1].splitlines()[0])
            check(len(by_rank) == 3 and all(counted == plan for counted, plan in by_rank), f"each rank counts: {by_rank}")
    check(bytes_of["3"] < bytes_of["1"] < bytes_of["0"], f"parts of states need less, of parameters too: {bytes_of}")
    text = said("--zero=auto", f"--memory-limit={(bytes_of['0'] + bytes_of['1']) // 2}")
    check("--zero=auto: stage 0 takes" in text and "which fits in" in text and "--zero=1)" in text,
          f"--zero=auto says why it takes stage 1: {text[-600:]}")


def diverged(trainer, mpis):
    """The first rank says why a run ends whose loss is not finite, before the others end."""
    _, said = trainer.run("--steps", "9", "--batch", "8", "--lr", "1e36", "--warmup", "0", "--schedule", "constant",
                          "--max-skipped", "2", "--find-nan", "--ranks=2", "--zero=3", mpi=mpis[0], status=1)
    check("the run has diverged" in said and "first not finite: `repeat`" in said, f"a run that has diverged says so: {said}")


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


def tensor_files(folder):
    """The bytes of each tensor file of the last checkpoint."""
    last = os.path.join(folder, max(name for name in os.listdir(folder) if name.startswith("step-")))
    found = {}
    for name in os.listdir(last):
        if name.endswith(".safetensors"):
            with open(os.path.join(last, name), "rb") as file:
                found[name] = file.read()
    return found


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


def processes_of(parent):
    """Processes whose environment names the process that started them."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and int(entry) != parent:
            try:
                environment = open(f"/proc/{entry}/environ", "rb").read()
            except OSError:
                continue
            if f"TCC_RANKS_STARTER=tcc-ranks-{parent}-".encode() in environment:
                found.append(int(entry))
    return found


def ranks_of(parent):
    return [process for process in processes_of(parent) if
            os.path.basename(os.readlink(f"/proc/{process}/exe")) == "train_gpt"]


def engine(program, mpis):
    """Each collective by itself."""
    for mpi in mpis:
        for count in (2, 5):
            done = subprocess.run([*started_by(mpi), "-n", str(count), program], capture_output=True, text=True, timeout=60,
                                  env=dict(os.environ, TCC_MPI=mpi))
            check(done.returncode == 0 and done.stdout.startswith(f"{count} ranks by "),
                  f"{mpi} exchanges between {count} ranks: {done.stdout}{done.stderr[-500:]}")


def rank_of(process):
    """The number that mpirun has given to a process; None where it is gone."""
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            environment = dict(line.partition(b"=")[::2] for line in file.read().split(b"\0"))
    except OSError:
        return None
    found = environment.get(b"OMPI_COMM_WORLD_RANK", environment.get(b"PMI_RANK"))
    return None if found is None else int(found)


def killed(trainer, mpis, full, seed):
    """kill -9 of a rank: all end within 5 s, in one line, with an exit status, and nothing is left."""
    generator = random.Random(seed)
    for attempt in range(40 if full else 2):
        mpi = mpis[attempt % len(mpis)]
        command, _ = trainer.command("--batch", "8", "--lanes", "8", "--steps", "1000000", "--ranks=3")
        run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=trainer.environment(mpi))
        ranks, deadline = [], time.time() + 60
        while len(ranks) < 3 and time.time() < deadline:
            time.sleep(0.05)
            ranks = ranks_of(run.pid)
        time.sleep(generator.uniform(0, 3))
        victim = generator.choice(sorted(ranks))
        number = rank_of(victim)
        begin = time.time()
        try:
            os.kill(victim, signal.SIGKILL)
            said = run.communicate(timeout=30)[1]
        except (ProcessLookupError, subprocess.TimeoutExpired):
            run.kill()
            said = "it does not end"
        check(time.time() - begin < 5, f"{mpi}: the run ends {time.time() - begin:.1f} s after a rank: {said}")
        check(run.returncode not in (0, None), f"{mpi}: a killed rank gives exit status {run.returncode}")
        # A rank that was killed while it was loaded has told nobody of its process.
        named = f"(process {victim})" in said or f"rank {number}" in said.partition("had not begun:")[2]
        check(said.count("\n") == 1 and (named or "no rank has begun" in said), f"{mpi}: one line names the rank: {said}")
        time.sleep(0.3)
        check(not processes_of(run.pid), f"{mpi}: nothing of the run is left")


def hanging(trainer, mpis):
    """SIGSTOP of a rank: the others are ended within twenty seconds, and one line names it."""
    for mpi in mpis:
        command, log = trainer.command("--batch", "8", "--lanes", "8", "--steps", "1000000", "--ranks=3")
        run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=trainer.environment(mpi))
        deadline = time.time() + 60
        while len(trainer.bits(log)) < 3 and time.time() < deadline:
            time.sleep(0.1)
        victim = sorted(ranks_of(run.pid))[1]
        begin = time.time()
        os.kill(victim, signal.SIGSTOP)
        try:
            said = run.communicate(timeout=60)[1]
        except subprocess.TimeoutExpired:
            run.kill()
            said = "it does not end"
        check(time.time() - begin < 20, f"{mpi}: the run ends {time.time() - begin:.1f} s after a rank hangs")
        check(run.returncode == 1 and said.count("\n") == 1 and f"(process {victim}) has not come" in said,
              f"{mpi}: one line names the rank that hangs: {said}")
        time.sleep(0.3)
        check(not processes_of(run.pid), f"{mpi}: nothing is left of a run that hung")


def stopped(trainer, mpis):
    """SIGTERM: all ranks write the checkpoint and end as one process does."""
    folder = os.path.join(trainer.folder, "stopped")
    command, log = trainer.command("--batch", "8", "--lanes", "8", "--steps", "1000000", "--checkpoint", folder, "--ranks=2")
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=trainer.environment(mpis[0]))
    deadline = time.time() + 60
    while len(trainer.bits(log)) < 3 and time.time() < deadline:
        time.sleep(0.1)
    run.terminate()
    said = run.communicate(timeout=60)[1]
    check(run.returncode == 128 + signal.SIGTERM, f"SIGTERM ends ranks with {run.returncode}: {said}")
    check("stopped by SIGTERM" in said and "--resume" in said, f"SIGTERM says what was kept: {said}")
    steps = len(trainer.bits(log))
    trainer.run("--batch", "8", "--lanes", "8", "--steps", str(steps + 2), "--checkpoint", folder, "--resume")


def refused(trainer, mpis):
    """What differs between ranks is named before the first step, once."""
    mpi = mpis[0]
    cases = [(["--batch", "6", "--ranks=2"], "no 8 equal parts", 2),
             (["--batch", "8", "--ranks=3", "--zero=3"], "8 lanes for 3 ranks: with --zero=3 each rank computes", 2),
             (["--batch", "8", "--ranks=2", "--zero=3", "--device=cuda"], "--zero=3 is of CPUs", 2),
             (["--batch", "8", "--lanes", "2", "--ranks=4"], "2 lanes for 4 ranks", 2),
             (["--batch", "8", "--ranks=2", "--dtype=f16"], "has no lanes", 2),
             (["--batch", "8", "--ranks=2", "--data", "/nonexistent"], "/nonexistent", 1)]
    for options, expected, status in cases:
        _, said = trainer.run("--steps", "2", *options, mpi=mpi, status=status)
        check(expected in said and said.count("\n") == 1, f"{options} is refused in one line: {said}")
    other = os.path.join(trainer.folder, "other.txt")
    with open(trainer.data) as file, open(other, "w") as copy:
        copy.write(file.read().replace("a", "b"))
    for differing, expected in ((["--data", other], "'data'"), (["--lr", "0.5"], "'--lr'"), (["--seed", "9"], "'seed'"),
                                (["--zero", "1"], "'--zero'")):
        mine, _ = trainer.command("--steps", "2", "--batch", "8")
        its, _ = trainer.command("--steps", "2", "--batch", "8", *differing)
        done = subprocess.run([*started_by(mpi), "-n", "1", *mine, ":", "-n", "1", *its], capture_output=True, text=True, timeout=60)
        check(done.returncode != 0, f"{differing} on one rank ends the run")
        lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        check(len(lines) == 1 and "rank 1 on" in lines[0] and expected in lines[0],
              f"{differing} on one rank is named: {done.stderr[-500:]}")


def on_gpus(trainer, mpis, machine, full):
    """Ranks on GPUs of stand-ins, with NCCL's: the bits of one process, and errors of NCCL end a run in one line."""
    libraries = {"TCC_CUDA_DRIVER": "cuda", "TCC_NVRTC": "nvrtc", "TCC_CUBLASLT": "cublaslt", "TCC_NCCL": "nccl"}
    gpus = {variable: os.path.join(machine, f"libtcc_machine_{name}.so") for variable, name in libraries.items()}
    options = ["--device=cuda", "--width=16", "--seq=8", "--batch=8", "--lanes=4", "--steps=6", "--hash-every=2",
               "--eval-every=3", "--eval-batches=2"]
    os.environ.update(gpus, TCC_CUDA_MACHINE="late,devices=4")
    one, _ = trainer.run(*options, "--device=cuda:3")
    check(len(one) == 6, "the run of one process has all steps")
    zeros = ["0", "1", "2"]
    for number, (mpi, zero) in enumerate(itertools.product(mpis, zeros) if full else zip(mpis, zeros[1:])):
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
    os.environ["TCC_NCCL"] = "/nowhere/libnccl.so.2"
    check(trainer.run(*options)[0] == one, "one process needs no NCCL")
    _, said = trainer.run(*options, "--ranks=2", mpi=mpis[0], status=1)
    check("NCCL (NVIDIA's exchange between GPUs) could not be opened" in said, f"what is missing is said: {said}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", required=True)
    parser.add_argument("--engine")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--machine", help="the folder of the stand-ins for a GPU: only their test is run")
    given = parser.parse_args()
    mpis = [mpi for mpi in ("openmpi", "mpich") if shutil.which(f"mpirun.{mpi}") and os.path.exists(
        os.path.join(os.path.dirname(given.train), "..", "lib", f"libtcc_ranks_{mpi}.so"))]
    if not mpis:
        print("no MPI: mpirun.openmpi and mpirun.mpich are missing, or this build has no part for them")
        return 77
    print("MPIs:", *mpis, "seed", given.seed, flush=True)
    if given.engine:
        engine(given.engine, mpis)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TCC_CACHE_DIR"] = os.path.join(folder, "cache")
        trainer = Trainer(given.train, folder)
        if given.machine:
            on_gpus(trainer, mpis, given.machine, given.full)
            print(f"{len(failures)} failures")
            return 1 if failures else 0
        for name, test in (("compare", lambda: compare(trainer, mpis, given.full, given.seed)),
                           ("in_flight", lambda: in_flight(trainer, mpis)),
                           ("shared_out", lambda: shared_out(trainer, mpis, given.full, given.seed)),
                           ("planned", lambda: planned(trainer, mpis)), ("saved", lambda: saved(trainer, mpis)), ("differ", lambda: differ(trainer)),
                           ("diverged", lambda: diverged(trainer, mpis)),
                           ("resume", lambda: resume(trainer, mpis, given.full)),
                           ("configured", lambda: configured(trainer, mpis)), ("fast", lambda: fast(trainer, mpis)), ("launched", lambda: launched(trainer, mpis)),
                           ("killed", lambda: killed(trainer, mpis, given.full, given.seed)),
                           ("hanging", lambda: hanging(trainer, mpis) if given.full or given.only else None),
                           ("stopped", lambda: stopped(trainer, mpis)), ("refused", lambda: refused(trainer, mpis))):
            if given.only in ("", name):
                begin = time.time()
                test()
                print(f"{name}: {time.time() - begin:.1f} s", flush=True)
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
