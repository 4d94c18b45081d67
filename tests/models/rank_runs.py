"""Runs of train_gpt with one rank or several, for ranks_test.py and rank_faults_test.py."""
import argparse
import concurrent.futures
import contextlib
import glob
import itertools
import json
import os
import random
import shutil
import subprocess
import tempfile
import time

MODEL = ["--model", "baby", "--layers", "1", "--width", "32", "--heads", "2", "--seq", "16"]
failures = []


def check(holds, what):
    if not holds:
        failures.append(what)
        print("FAILED:", what, flush=True)


def started_by(mpi):
    return [f"mpirun.{mpi}"] + (["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"] if mpi == "openmpi" else [])


def mpis_for(program):
    """The MPIs that are installed and that the program's build has a part for."""
    return [mpi for mpi in ("openmpi", "mpich") if shutil.which(f"mpirun.{mpi}") and os.path.exists(
        os.path.join(os.path.dirname(program), "..", "lib", f"libtcc_ranks_{mpi}.so"))]


class Trainer:
    """Runs of one program, whose files lie in one folder. Several threads may use it."""

    def __init__(self, program, folder):
        self.program, self.folder, self.numbers = program, folder, itertools.count(1)
        self.data = os.path.join(folder, "text.txt")
        generator = random.Random(5)
        words = ["".join(generator.choices("abcdefghij", k=generator.randint(2, 7))) for _ in range(200)]
        with open(self.data, "w") as file:
            file.write(" ".join(generator.choice(words) for _ in range(6000)))

    def file(self, name):
        """A name that no other run of this test has."""
        return os.path.join(self.folder, f"{name}{next(self.numbers)}")

    def command(self, *options):
        log = self.file("log") + ".json"
        model = [] if "--init" in options else MODEL  # a folder has its own sizes
        return [self.program, "--data", self.data, *model, "--json", log, "--quiet", "--device=cpu", *options], log

    @staticmethod
    def environment(mpi, **more):
        return dict(os.environ, **({"TCC_MPI": mpi} if mpi else {}), **more)

    def run(self, *options, mpi="", status=0, by=(), **variables):
        """Losses and the rest by step, and what was said on stderr. One process has one thread, as each rank has here."""
        single = [] if by or any(option.startswith(("--ranks", "--config", "--threads")) for option in options) else ["--threads=1"]
        command, log = self.command(*single, *options)
        done = subprocess.run([*by, *command], capture_output=True, text=True, timeout=300,
                              env=self.environment(mpi, **variables))
        check(done.returncode == status, f"{' '.join(command[3:])} ({mpi}) exits with {done.returncode}, not {status}: "
              f"{done.stderr[-600:]}")
        return self.bits(log), done.stderr

    @staticmethod
    def bits(log):
        """What must be equal: losses, norms, evaluations and hashes of the parameters, by step."""
        steps = {}
        if os.path.exists(log):
            with open(log) as file:  # what is there now: a run may write faster than this reads
                lines = file.read().splitlines()
            for line in lines:
                try:
                    record = json.loads(line)
                except json.JSONDecodeError:  # the end of a line is not written yet
                    continue
                if "step" in record:
                    steps[record["step"]] = tuple(
                        json.dumps(record.get(key)) for key in ("loss", "norm", "val_loss", "parameters"))
        return steps


def tensor_files(folder):
    """The bytes of each tensor file of the last checkpoint."""
    last = os.path.join(folder, max(name for name in os.listdir(folder) if name.startswith("step-")))
    found = {}
    for name in os.listdir(last):
        if name.endswith(".safetensors"):
            with open(os.path.join(last, name), "rb") as file:
                found[name] = file.read()
    return found


def stand_ins(machine):
    """Variables by which a run takes stand-ins for a GPU's libraries, in the folder `machine`."""
    libraries = {"TCC_CUDA_DRIVER": "cuda", "TCC_NVRTC": "nvrtc", "TCC_CUBLASLT": "cublaslt", "TCC_NCCL": "nccl"}
    return {variable: os.path.join(machine, f"libtcc_machine_{name}.so") for variable, name in libraries.items()}


def memory_folder():
    """Where files are not made durable: many small ones are written here."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def shared_memory():
    """What MPIs have in shared memory and no process has mapped: nothing may be left of it where runs end."""
    found = {name for name in os.listdir("/dev/shm") if name.startswith(("vader", "mpich", "ucx"))}
    for maps in glob.glob("/proc/[0-9]*/maps") if found else []:
        with contextlib.suppress(OSError), open(maps) as file:
            mapped = file.read()
            found -= {name for name in found if f"/dev/shm/{name}" in mapped}
    return found


def run_tests(arguments, tests_of):
    """Runs the tests that `tests_of` gives, as pairs of a name and a function, two at a time."""
    arguments.add_argument("--train", required=True)
    arguments.add_argument("--full", action="store_true", help="also what takes too long for every day")
    arguments.add_argument("--seed", type=int, default=1,
                           help="by which runs are drawn")
    arguments.add_argument("--only", default="", help="the names of tests, with commas between them")
    given = arguments.parse_args()
    mpis = mpis_for(given.train)
    if not mpis:
        print("no MPI: mpirun.openmpi and mpirun.mpich are missing, or this build has no part for them")
        return 77
    print("MPIs:", *mpis, "seed", given.seed, flush=True)
    before = shared_memory()
    with tempfile.TemporaryDirectory(dir=memory_folder(), prefix="tcc-ranks-test-") as folder:
        os.environ["TCC_CACHE_DIR"] = os.path.join(folder, "cache")
        trainer = Trainer(given.train, folder)
        trainer.run("--steps", "1", "--batch", "8")  # measures the machine, which all others then know

        def timed(name, test):
            begin = time.time()
            test()
            print(f"{name}: {time.time() - begin:.1f} s", flush=True)

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            runs = [pool.submit(timed, name, test) for name, test in tests_of(trainer, mpis, given)
                    if not given.only or name in given.only.split(",")]
            for run in runs:
                run.result()
    check(shared_memory() <= before, f"shared memory is left: {shared_memory() - before}")
    print(f"{len(failures)} failures")
    return 1 if failures else 0
