#!/usr/bin/env python3
"""Whatever goes wrong on one rank ends the run: in one line that names the culprit, with an exit status that is not 0,
in bounded time, with nothing left behind and the last checkpoint whole.

    rank_faults_test.py --train build/bin/train_gpt [--full] [--seed N] [--only NAME,...]

Exit status 77 where there is no MPI.
"""
import argparse
import contextlib
import itertools
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

from rank_runs import check, run_tests, started_by, tensor_files

LANES = ["--batch", "8", "--lanes", "8"]
LONG = [*LANES, "--steps", "1000000", "--schedule", "constant"]


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


class Clock:
    """Seconds that this process could run: while it is stopped, as all others may be then, no run ends late."""

    def __init__(self):
        self.seconds = 0.0
        threading.Thread(target=self.count, daemon=True).start()

    def count(self):
        before = time.monotonic()
        while True:
            time.sleep(0.02)
            now = time.monotonic()
            self.seconds += min(now - before, 0.2)
            before = now


clock = Clock()


def rank_of(process):
    """The number that mpirun has given to a process; None where it is gone."""
    try:
        with open(f"/proc/{process}/environ", "rb") as file:
            environment = dict(line.partition(b"=")[::2] for line in file.read().split(b"\0"))
    except OSError:
        return None
    found = environment.get(b"OMPI_COMM_WORLD_RANK", environment.get(b"PMI_RANK"))
    return None if found is None else int(found)


class Run:
    """Several ranks that train until something ends them."""

    def __init__(self, trainer, mpi, ranks, *options, **variables):
        self.trainer, self.mpi, self.ranks = trainer, mpi, ranks
        command, self.log = trainer.command(f"--ranks={ranks}", *options)
        self.started = subprocess.Popen(command, stderr=subprocess.PIPE, text=True,
                                        env=trainer.environment(mpi, **variables))
        self.said, self.seconds = "", 0.0

    def processes(self):
        """By rank."""
        found = {}
        for process in processes_of(self.started.pid):
            try:
                name = os.path.basename(os.readlink(f"/proc/{process}/exe"))
            except OSError:
                continue
            if name == os.path.basename(self.trainer.program):
                found[rank_of(process)] = process
        found.pop(None, None)
        return found

    def wait_until(self, holds, seconds=60):
        deadline = time.time() + seconds
        while not holds() and time.time() < deadline and self.started.poll() is None:
            time.sleep(0.02)
        return holds()

    def wait_for_ranks(self):
        return self.wait_until(lambda: len(self.processes()) == self.ranks)

    def wait_for_steps(self, count=3):
        return self.wait_until(lambda: len(self.trainer.bits(self.log)) >= count)

    def end(self, within=60):
        """Waits for the end; `seconds` says how long that took, `said` what stderr has."""
        begin = clock.seconds
        while self.started.returncode is None:
            try:
                self.said = self.started.communicate(timeout=0.02)[1]
            except subprocess.TimeoutExpired:
                if clock.seconds - begin < within:
                    continue
                for process in processes_of(self.started.pid):
                    with contextlib.suppress(OSError):
                        os.kill(process, signal.SIGKILL)
                self.started.kill()
                self.said = f"it does not end within {within} s: {self.started.communicate()[1]}\n"
        self.seconds = clock.seconds - begin
        return self.started.returncode

    def check_end(self, what, within, status=None):
        """The run ends by itself, in one line, and nothing of it is left."""
        what = f"{self.ranks} ranks by {self.mpi}, {what}"
        code = self.end(within + 20)
        print(f"{what}: {self.seconds:.1f} s, status {code}: {self.said.strip()}", flush=True)
        check(self.seconds < within, f"{what}: the run ends after {self.seconds:.1f} s: {self.said}")
        check(code not in (0, None) if status is None else code == status, f"{what}: exit status {code}")
        check(self.said.count("\n") == 1, f"{what}: one line says why: {self.said}")
        deadline = time.time() + 1
        while processes_of(self.started.pid) and time.time() < deadline:
            time.sleep(0.02)
        check(not processes_of(self.started.pid), f"{what}: nothing of the run is left")


def resumes(trainer, folder):
    """The newest checkpoint is whole: one process goes on from it."""
    steps = [int(name.removeprefix("step-")) for name in os.listdir(folder)
             if re.fullmatch(r"step-\d+", name)] if os.path.isdir(folder) else []
    if steps:
        _, said = trainer.run(*LANES, "--steps", str(max(steps) + 1), "--schedule", "constant", "--checkpoint", folder, "--resume")
        check("not intact" not in said and "damage" not in said, f"the last checkpoint is whole: {said}")


def killed(trainer, mpis, full, seed):
    """kill -9 of any rank in any phase: all end within 5 s."""
    generator = random.Random(seed)
    phases = ["start", "compile", "steps", "checkpoint"]
    for attempt in range(30 if full else 2):
        mpi, ranks = mpis[attempt % len(mpis)], generator.choice([2, 4])
        phase = phases[(attempt // len(mpis)) % len(phases)] if full else generator.choice(phases)
        folder = trainer.file("killed")
        options = ["--checkpoint", folder, "--checkpoint-every", "1"] if phase == "checkpoint" else []
        more = {"TCC_CACHE_DIR": "off"} if phase == "compile" else {}
        run = Run(trainer, mpi, ranks, *LONG, *options, f"--zero={generator.choice([0, 3])}", **more)
        run.wait_for_ranks()
        if phase == "compile":
            time.sleep(generator.uniform(0.2, 1.5))
        elif phase == "steps":
            run.wait_for_steps()
            time.sleep(generator.uniform(0, 0.2))
        elif phase == "checkpoint":
            run.wait_until(lambda: os.path.isdir(folder) and any(name.startswith("step-") for name in os.listdir(folder)))
            time.sleep(generator.uniform(0, 0.2))
        number = generator.randrange(ranks)
        victim = run.processes().get(number)
        if victim:
            os.kill(victim, signal.SIGKILL)
        run.check_end(f"rank {number} is killed ({phase})", 5)
        # A rank that was killed while it was loaded has told nobody of its process.
        named = f"(process {victim})" in run.said or f"rank {number}" in run.said.partition("had not begun:")[2]
        check(named or "no rank has begun" in run.said, f"{mpi}: the line names rank {number}, {victim}: {run.said}")
        resumes(trainer, folder)


def goes_on(trainer, mpis, full, seed):
    """4 ranks of which one is killed, then 2, killed too, then 4 again: the bits and the last checkpoint of a run of 4 that
    nothing stopped."""
    generator = random.Random(seed)
    every = [(mpi, zero) for mpi in mpis for zero in (0, 1, 2, 3)]
    for mpi, zero in every if full else [generator.choice(every)]:
        folder, whole_folder = trainer.file("goes_on"), trainer.file("whole")
        options = [*LANES, "--schedule", "constant", "--warmup", "0", "--dropout", "0.1", "--hash-every", "5",
                   "--checkpoint-every", "5", f"--zero={zero}"]
        parts = []
        for ranks in (4, 2):
            run = Run(trainer, mpi, ranks, *options, "--steps", "1000000", "--checkpoint", folder, *(["--resume"] if parts else []))
            run.wait_for_steps(12)
            number = generator.randrange(ranks)
            os.kill(run.processes()[number], signal.SIGKILL)
            run.check_end(f"--zero={zero}, rank {number} is killed after a checkpoint", 5, status=1)
            parts.append(trainer.bits(run.log))
        last = max(int(name.removeprefix("step-")) for name in os.listdir(folder) if re.fullmatch(r"step-\d+", name)) + 8
        of_four = [*options, "--steps", str(last), "--ranks=4", "--checkpoint"]
        parts.append(trainer.run(*of_four, folder, "--resume", mpi=mpi)[0])
        whole, _ = trainer.run(*of_four, whole_folder, mpi=mpi)
        print(f"{mpi}, --zero={zero}: steps {', '.join(f'{min(part)} to {max(part)}' for part in parts)} of {last}", flush=True)
        check(all(part.items() <= whole.items() for part in parts) and min(parts[2]) <= max(parts[1]) + 1,
              f"4, 2 and 4 ranks by {mpi}, --zero={zero}, have the bits of a run of 4 that nothing stopped")
        check(tensor_files(folder) == tensor_files(whole_folder), f"{mpi}, --zero={zero}: so has the checkpoint")


def heard_late(trainer, mpis, full, seed):
    """A rank is killed while the process that started the ranks has no CPU, and the MPI's launcher kills the others:
    the first one is named all the same, and nothing is left in shared memory."""
    generator = random.Random(seed)
    for mpi, _ in itertools.product(mpis, range(20 if full else 2)):
        run = Run(trainer, mpi, 4, *LONG)
        run.wait_for_steps()
        number = generator.randrange(4)
        victim = run.processes()[number]
        run.started.send_signal(signal.SIGSTOP)
        os.kill(victim, signal.SIGKILL)
        time.sleep(1)
        run.started.send_signal(signal.SIGCONT)
        run.check_end(f"rank {number} is killed while nobody looks", 5, status=1)
        check(f"rank {number} (process {victim}) was ended in step" in run.said,
              f"{mpi}: the line names rank {number}, {victim}: {run.said}")


def hanging(trainer, mpis, full, seed):
    """SIGSTOP of a rank, in its steps or before: it is named and ended after 10 s."""
    generator = random.Random(seed)
    cases = [(mpi, ranks, phase) for mpi in mpis for ranks in (2, 4) for phase in ("compile", "steps")]
    for mpi, ranks, phase in cases if full else []:
        more = {"TCC_CACHE_DIR": "off"} if phase == "compile" else {}
        run = Run(trainer, mpi, ranks, *LONG, **more)
        if phase == "steps":
            run.wait_for_steps()
        else:
            run.wait_for_ranks()
            time.sleep(0.8)
        number = generator.randrange(ranks)
        victim = run.processes()[number]
        os.kill(victim, signal.SIGSTOP)
        run.check_end(f"rank {number} is stopped ({phase})", 13, status=1)
        check(f"rank {number} (process {victim})" in run.said, f"the line names the rank that hangs: {run.said}")


def left_alone(trainer, mpis, full, seed):
    """kill -9 of the process that the user has started: its ranks end, too."""
    generator = random.Random(seed)
    for mpi in mpis if full else [generator.choice(mpis)]:
        run = Run(trainer, mpi, 2, *LONG)
        run.wait_for_steps()
        run.started.kill()
        begin = time.time()
        while processes_of(run.started.pid) and time.time() < begin + 10:
            time.sleep(0.02)
        seconds = time.time() - begin
        run.end()
        print(f"2 ranks by {mpi}, the starter is killed: {seconds:.1f} s", flush=True)
        check(seconds < 5, f"{mpi}: ranks outlive the process that started them by {seconds:.1f} s")


def missing(trainer, mpis, full, seed):
    """A rank that never comes: it is named, and the others end."""
    for mpi in mpis if full else [random.Random(seed).choice(mpis)]:
        folder = trainer.file("path")
        os.makedirs(folder)
        own = os.path.join(folder, f"mpirun.{mpi}")
        with open(own, "w") as file:  # rank 1 sleeps in place of the program
            file.write(f"""#!/bin/sh
options=
while [ "$1" != "{trainer.program}" ]; do options="$options $1"; shift; done
exec {shutil.which(f"mpirun.{mpi}")} $options sh -c '
  if [ "${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}" = 1 ]; then exec sleep 1000; fi; exec "$@"' sh "$@"
""")
        os.chmod(own, 0o755)
        run = Run(trainer, mpi, 2, *LONG, PATH=f"{folder}:{os.environ['PATH']}", TCC_RANKS_LIMIT="2")
        run.wait_until(lambda: processes_of(run.started.pid))  # only what is younger than the run may be its own
        # As MPICH leaves one where a rank is killed while it starts, and as another run has one.
        left, used = (tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="mpich_shar_tmp", delete=False) for _ in range(2))
        left.close()
        run.check_end("rank 1 never comes (limit 2 s)", 8, status=1)
        check("rank 1 has not begun 2 s after another one" in run.said, f"the line names the rank: {run.said}")
        check(not os.path.exists(left.name), "shared memory that nobody has is removed")
        check(os.path.exists(used.name), "what another process has stays")
        used.close()
        os.unlink(used.name)


def write_over(process, old, new):
    """Changes bytes in the memory of a process, wherever they stand; gives how many times that was."""
    places = 0
    with open(f"/proc/{process}/maps") as maps, open(f"/proc/{process}/mem", "r+b", buffering=0) as memory:
        for line in maps:
            begin, end, access = re.match(r"([0-9a-f]+)-([0-9a-f]+) (....)", line).groups()
            if not access.startswith("rw"):
                continue
            begin, end = int(begin, 16), int(end, 16)
            with contextlib.suppress(OSError):
                memory.seek(begin)
                found = memory.read(end - begin)
                at = found.find(old)
                while at >= 0:
                    memory.seek(begin + at)
                    memory.write(new)
                    places += 1
                    at = found.find(old, at + 1)
    return places


def first_weights(trainer):
    """The first bytes of a parameter, as training begins with it."""
    folder = trainer.file("weights")
    trainer.run(*LANES, "--steps", "1", "--lr", "0", "--save", folder)
    with open(os.path.join(folder, "model.safetensors"), "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(size))
        begin = header["h.0.mlp.c_fc.weight"]["data_offsets"][0]
        file.seek(8 + size + begin)
        return file.read(64)


def spoilt(trainer, mpis, full, seed):
    """A flipped bit in one replica is found by the next comparison, and a NaN on one rank ends the run of all."""
    cases = [(mpi, ranks, kind) for mpi in mpis for ranks in (2, 4) for kind in ("a flipped bit", "a NaN", "a NaN, no hashes")]
    generator = random.Random(seed)
    old = first_weights(trainer)
    for mpi, ranks, kind in cases if full else [(generator.choice(mpis), 2, "a flipped bit"),
                                                (generator.choice(mpis), 2, "a NaN, no hashes")]:
        new = bytes([old[0] ^ 1]) + old[1:] if kind == "a flipped bit" else struct.pack("<f", float("nan")) + old[4:]
        every = 5
        hashes = [] if "no hashes" in kind else ["--hash-every", str(every)]
        run = Run(trainer, mpi, ranks, *LONG, "--lr", "0", "--max-skipped", "20", *hashes)
        run.wait_for_steps()
        number = generator.randrange(1, ranks)
        before = max(trainer.bits(run.log))
        check(write_over(run.processes()[number], old, new) > 0, f"rank {number} has the weights")
        run.check_end(f"{kind} on rank {number}", 5, status=1)
        if hashes:
            check(f"rank {number} on" in run.said and "differs from rank 0" in run.said and
                  "parameter h.0.mlp.c_fc.weight after step" in run.said, f"{kind}: the line names rank {number}: {run.said}")
            found = re.search(r"after step (\d+)", run.said)
            print(f"  changed about step {before}, found after step {found[1] if found else '?'}", flush=True)
        else:
            check(f"rank {number} on" in run.said and "parameter h.0.mlp.c_fc.weight" in run.said,
                  f"{kind}: the line names rank {number}: {run.said}")


@contextlib.contextmanager
def small_disk(trainer, kilobytes):
    """A folder on a file system of that size; None where none may be mounted."""
    folder = trainer.file("disk")
    os.makedirs(folder)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", folder], capture_output=True)
    try:
        yield folder if mounted.returncode == 0 else None
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", folder], check=True)


def full_disk(trainer, mpis, full, seed):
    """Ranks say and do what one process does where a checkpoint, a log or saved weights find no place."""
    def outcome(folder, ranks, mpi, options):
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
        if "--json" in options:  # a log is short
            with open(os.path.join(folder, "ballast"), "wb", buffering=0) as ballast, contextlib.suppress(OSError):
                while ballast.write(bytes(1024)):
                    pass
        command, _ = trainer.command(*LANES, "--steps", "6", "--schedule", "constant", f"--ranks={ranks}", *options)
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=trainer.environment(mpi))
        return done.returncode, done.stderr

    cases = [(mpi, ranks, what) for mpi in mpis for ranks in (2, 4) for what in ("--checkpoint", "--json", "--save")]
    for mpi, ranks, what in cases if full else random.Random(seed).sample(cases, 1):
        with small_disk(trainer, 4 if what == "--json" else 64) as folder:
            if folder is None:
                print("no file system may be mounted here: nothing is tried on a full disk", flush=True)
                return
            options = {"--checkpoint": ["--checkpoint", f"{folder}/kept", "--checkpoint-every", "2"],
                       "--json": ["--json", f"{folder}/log.json"], "--save": ["--save", f"{folder}/saved"]}[what]
            one, several = outcome(folder, 1, "", options), outcome(folder, ranks, mpi, options)
            print(f"{ranks} ranks by {mpi}, {what} on a full disk: status {several[0]}: {several[1].strip()}", flush=True)
            check(one == several, f"{what} on a full disk: {ranks} ranks by {mpi} do what one does: {one} {several}")


def no_shared_memory(trainer, mpis, full, seed):
    """Where MPI finds no shared memory it does without or the run ends in one line that says so."""
    for mpi in mpis if full else [mpis[-1]]:
        command, _ = trainer.command(*LANES, "--steps", "2", "--ranks=4")
        begin = time.time()
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:  # the test's own may be in the memory that is hidden
            text = shutil.copy(trainer.data, os.path.join(folder, "text.txt"))
            command = [text if part == trainer.data else part for part in command]
            command += ["--json", os.path.join(folder, "log.json")]
            done = subprocess.run(["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=40k tmpfs /dev/shm && exec "$@"; exit 77',
                                   "sh", *command], capture_output=True, text=True, timeout=60,
                                  env=trainer.environment(mpi, TCC_CACHE_DIR="off"))
        if done.returncode == 77:
            print("no file system may be mounted here: nothing is tried without shared memory", flush=True)
            return
        print(f"4 ranks by {mpi}, /dev/shm of 40 KB: {time.time() - begin:.1f} s, status {done.returncode}: {done.stderr.strip()}", flush=True)
        check(done.returncode in (0, 1) and done.stderr.count("\n") <= 1, f"{mpi} without shared memory: {done.stderr}")
        check(done.returncode != 1 or "/dev/shm, through which ranks of one machine exchange, has 0.0 MB left" in done.stderr,
              f"{mpi}: the line says what is missing: {done.stderr}")


def diverged(trainer, mpis):
    """The first rank says why a run ends whose loss is not finite, before the others end."""
    _, said = trainer.run("--steps", "9", "--batch", "8", "--lr", "1e36", "--warmup", "0", "--schedule", "constant",
                          "--max-skipped", "2", "--find-nan", "--ranks=2", "--zero=3", mpi=mpis[0], status=1)
    check("the run has diverged" in said and "first not finite: `repeat`" in said, f"a run that has diverged says so: {said}")


def stopped(trainer, mpis, full, seed):
    """SIGTERM to the run or to one rank: all ranks write the checkpoint and end as one process does."""
    cases = [(mpi, ranks, toAll) for mpi in mpis for ranks in (2, 4) for toAll in (True, False)]
    for mpi, ranks, to_all in cases if full else random.Random(seed).sample(cases, 2):
        folder = trainer.file("stopped")
        run = Run(trainer, mpi, ranks, *LONG, "--checkpoint", folder)
        run.wait_for_steps()
        if to_all:
            run.started.terminate()
        else:
            os.kill(run.processes()[ranks - 1], signal.SIGTERM)
        what = "the run gets SIGTERM" if to_all else f"rank {ranks - 1} gets SIGTERM"
        run.check_end(what, 5, status=128 + signal.SIGTERM)
        check("stopped by SIGTERM" in run.said and "--resume" in run.said, f"SIGTERM says what was kept: {run.said}")
        resumes(trainer, folder)


def refused(trainer, mpis, full, seed):
    """What differs between ranks is named before the first step, once."""
    mpi = mpis[0]
    cases = [(["--batch", "6", "--ranks=2"], "no 8 equal parts", 2),
             (["--batch", "8", "--ranks=3", "--zero=3"], "8 lanes for 3 ranks; with --zero=3 each rank computes", 2),
             (["--batch", "8", "--lanes", "2", "--ranks=4"], "2 lanes for 4 ranks", 2),
             (["--batch", "8", "--ranks=2", "--dtype=f16"], "has no lanes", 2),
             (["--batch", "8", "--ranks=2", "--data", "/nonexistent"], "/nonexistent", 1)]
    for options, expected, status in cases if full else random.Random(seed).sample(cases, 3):
        # What follows from the options alone is refused before ranks start: no mpirun is looked for.
        alone = {"PATH": "/nonexistent"} if status == 2 else {}
        _, said = trainer.run("--steps", "2", *options, mpi=mpi, status=status, **alone)
        check(expected in said and said.count("\n") == 1, f"{options} is refused in one line: {said}")
    other = os.path.join(trainer.folder, "other.txt")
    with open(trainer.data) as file, open(other, "w") as copy:
        copy.write(file.read().replace("a", "b"))
    differing = [(["--data", other], "'data'"), (["--lr", "0.5"], "'--lr'"), (["--seed", "9"], "'seed'"),
                 (["--zero", "1"], "'--zero'"), ("TCC_CPU=x86-64-v2", "CPU features"), ("program", "build of tcc")]
    every = [(mpi, one) for mpi in mpis for one in differing]
    for mpi, (its, expected) in every if full else random.Random(seed).sample(every, 3):
        mine, _ = trainer.command("--steps", "2", "--batch", "8")
        other_command, _ = trainer.command("--steps", "2", "--batch", "8", *(its if isinstance(its, list) else []))
        if its == "program":
            other_command[0] = of_another_build(trainer)
        elif not isinstance(its, list):
            other_command = ["env", its, *other_command]
        begin = time.time()
        done = subprocess.run([*started_by(mpi), "-n", "1", *mine, ":", "-n", "1", *other_command], capture_output=True,
                              text=True, timeout=60, env=trainer.environment(mpi))
        check(done.returncode != 0, f"{its} on one rank ends the run")
        lines = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        print(f"2 ranks by {mpi}, {its} on one: {time.time() - begin:.1f} s, status {done.returncode}: {lines}", flush=True)
        check(len(lines) == 1 and "rank 1 on" in lines[0] and expected in lines[0],
              f"{its} on one rank is named: {done.stderr[-500:]}")


def of_another_build(trainer):
    """The program with another build ID, the text that tcc makes of all its sources."""
    folder = os.path.join(trainer.folder, "another", "bin")
    os.makedirs(folder, exist_ok=True)
    build = os.path.join(os.path.dirname(os.path.abspath(trainer.program)), "..")
    with contextlib.suppress(FileExistsError):
        os.symlink(os.path.join(build, "lib"), os.path.join(folder, "..", "lib"))
    with open(os.path.join(build, "codegen", "build_id", "tcc_build_id.h")) as file:
        own = re.search(r'"(\w+)"', file.read())[1].encode()
    path = os.path.join(folder, "train_gpt")
    with open(trainer.program, "rb") as file:
        program = file.read()
    check(own in program, "the program has its build ID")
    with open(path, "wb") as file:
        file.write(program.replace(own, own[::-1]))
    os.chmod(path, 0o755)
    return path


def tests_of(trainer, mpis, given):
    drawn = (trainer, mpis, given.full, given.seed)
    return [("killed", lambda: killed(*drawn)), ("goes_on", lambda: goes_on(*drawn)), ("heard_late", lambda: heard_late(*drawn)),
            ("hanging", lambda: hanging(*drawn)), ("stopped", lambda: stopped(*drawn)), ("refused", lambda: refused(*drawn)),
            ("left_alone", lambda: left_alone(*drawn)), ("missing", lambda: missing(*drawn)),
            ("spoilt", lambda: spoilt(*drawn)), ("full_disk", lambda: full_disk(*drawn)),
            ("no_shared_memory", lambda: no_shared_memory(*drawn)), ("diverged", lambda: diverged(trainer, mpis))]


if __name__ == "__main__":
    sys.exit(run_tests(argparse.ArgumentParser(), tests_of))
