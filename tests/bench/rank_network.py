#!/usr/bin/env python3
"""What exchanges of gradients take over a network of limited rate, what of it is hidden, and what the estimate says.

    rank_network.py --data FILE [--build DIR] [--model char] [--rounds N] [--train RATE,...] [--two ...] [--four ...]

Ranks are processes in a network namespace whose `lo` lets so many Mbit/s through altogether (`tc`, for which root is
needed), by Open MPI over TCP. Two ranks train, with one thread each. Of two and of four ranks the kernels and matmuls are
replaced by waits of the time that one rank alone takes for them (rank_waits): as on a cluster, no rank takes another one's
CPU. Columns:

    transfer   what exchanges take that nothing hides: measured with -fno-schedule-collectives
    exposed    what the ranks wait for exchanges
    estimate   train_gpt --estimate --cluster, with a link of the rate divided by the ranks, --start-us for each start,
               which was fitted once, and as step_ms what the ranks compute
    hidden     (transfer - exposed) as a share of what can be hidden: all but the buckets that are complete no earlier
               than the backward ends
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

NETWORK = """ip link set lo up && ip link set lo mtu 32768 &&
tc qdisc add dev lo root tbf rate "$0"mbit burst 256kb limit 64mb && exec "$@\""""
OVER_TCP = {"OMPI_MCA_pml": "ob1", "OMPI_MCA_btl": "tcp,self", "OMPI_MCA_btl_tcp_if_include": "lo",
            "OMPI_MCA_oob_tcp_if_include": "lo", "TCC_MPI": "openmpi"}
LATE = "-fno-schedule-collectives"


def in_network(rate, command):
    done = subprocess.run(["unshare", "-n", "bash", "-c", NETWORK, str(rate), *command], capture_output=True, text=True,
                          env=dict(os.environ, **OVER_TCP))
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr[-600:]}")
    return done.stdout


def span(event):
    return event["ts"], event["ts"] + event["dur"]


class Step:
    """A step of a profile, in ms."""

    def __init__(self, step, events):
        begin, end = span(step)
        own = sorted((event for event in events if begin <= event["ts"] < end), key=span)
        exchanges = [event for event in own if event["cat"] in ("collective", "wait") and event["name"] != "shard"]
        self.whole = (end - begin) / 1e3
        self.exposed = sum(event["dur"] for event in exchanges) / 1e3
        matmuls = [event for event in own if event["cat"] == "matmul"]
        backward_end = span(matmuls[-1])[1]
        loss = [event for event in own if "cross_entropy" in event["name"]]
        backward = [event for event in own if loss[-1]["ts"] <= event["ts"] < backward_end and event not in exchanges]
        self.backward = sum(event["dur"] for event in backward) / 1e3
        buckets = [event for event in exchanges if event["name"] == "all_to_all"]
        late = sum(event["args"]["bytes"] for event in buckets if event["ts"] >= backward_end)
        self.late_share = late / sum(event["args"]["bytes"] for event in buckets)


def two_ranks(given, folder, rate, *options):
    """Medians over the steps of a run, but for the first."""
    profile = os.path.join(folder, "profile.json")
    in_network(rate, [f"{given.build}/bin/train_gpt", "--model", given.model, "--data", given.data, "--steps",
                      str(given.steps + 1), "--batch", "8", "--lanes", "2", "--ranks", "2", "--threads", "1", "--quiet",
                      "--schedule=constant", given.bucket, f"--profile={profile}", *options])
    with open(profile) as file:
        events = [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X"]
    steps = [Step(event, [other for other in events if other["cat"] in ("collective", "wait", "matmul", "kernel")])
             for event in events if event["cat"] == "step"]
    return {name: statistics.median(getattr(step, name) for step in steps[1:]) for name in vars(steps[0])}


def with_waits(given, ranks, rate, artefact):
    done = in_network(rate, ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n",
                             str(ranks), f"{given.build}/bin/rank_waits", artefact, f"--times={artefact}.times",
                             f"--steps={given.steps}"])
    return json.loads(done.strip().splitlines()[-1])


def estimated(given, folder, rate, ranks, batch, step_ms, *options):
    """Of the estimate for so many ranks: ms of transfer, exposed, and the step."""
    file, table = os.path.join(folder, "cluster.json"), os.path.join(folder, "table.jsonl")
    link = {"gigabytes_per_second": rate / 8e3 / ranks, "start_us": given.start_us}
    with open(file, "w") as out:
        json.dump({"name": "lo", "processors_per_node": ranks, "inside": link, "between": link, "memory_gigabytes": 16,
                   "step_ms": step_ms}, out)
    subprocess.run([f"{given.build}/bin/train_gpt", "--model", given.model, "--batch", str(batch), "--lanes", str(ranks),
                    "--ranks", str(ranks), "--estimate", f"--cluster={file}", given.bucket, f"--json={table}", *options],
                   check=True, capture_output=True)
    with open(table) as lines:
        row = [json.loads(line) for line in lines][-1]
    return [1e3 * row[key] for key in ("transfer_seconds", "exposed_seconds", "step_seconds")]


def show(rate, transfer, exposed, step, estimate, backward, late_share):
    figures = [f"{measured:.0f} | {guess:.0f} ({100 * (guess / measured - 1):+.1f} %)"
               for measured, guess in zip((transfer, exposed, step), estimate)]
    hidden = (transfer - exposed) / (transfer * (1 - late_share))
    print("|", " | ".join([f"{rate / 1000:g} Gbit/s", *figures, f"{100 * transfer / backward:.0f} %",
                           f"{100 * hidden:.1f} %"]), "|", flush=True)


def head(text):
    names = ["rate", "transfer ms, measured", "estimated", "exposed ms, measured", "estimated", "step ms, measured",
             "estimated", "transfer / backward", "hidden"]
    print(f"{text}\n\n| {' | '.join(names)} |\n|{' --- |' * len(names)}")


def trained(given, folder):
    head(f"2 ranks of one thread, {given.model} B8, 2 lanes, {given.bucket}")
    for rate in given.train:
        for _ in range(given.rounds):
            late, run = two_ranks(given, folder, rate, LATE), two_ranks(given, folder, rate)
            estimate = estimated(given, folder, rate, 2, 8, run["whole"] - run["exposed"])
            show(rate, late["exposed"], run["exposed"], run["whole"], estimate, run["backward"], run["late_share"])


def waited(given, folder, ranks, rates):
    batch = 8 * ranks
    graph, artefacts, told = os.path.join(folder, "step.graph"), {}, {}
    subprocess.run([f"{given.build}/bin/train_gpt", "--model", given.model, "--data", given.data, "--steps", "0", "--batch",
                    str(batch), "--lanes", str(ranks), f"--emit-graph={graph}", "--quiet"], check=True, capture_output=True)
    for name, options in (("run", []), ("late", [LATE])):
        artefacts[name] = os.path.join(folder, f"{name}.tcc")
        subprocess.run([f"{given.build}/bin/tcc", graph, f"--ranks={ranks}", given.bucket, *options, "-o", artefacts[name]],
                       check=True, capture_output=True)
        said = subprocess.run([f"{given.build}/bin/rank_waits", artefacts[name], f"--measure={artefacts[name]}.times"],
                              check=True, capture_output=True, text=True).stdout
        told[name] = json.loads(said)
    plan = told["run"]
    head(f"\n{ranks} ranks, {given.model} B{batch}, {ranks} lanes, {given.bucket}; {plan['computed_ms']:.0f} ms are waits "
         f"for computing, {plan['backward_ms']:.0f} ms of them the backward")
    for rate in rates:
        for _ in range(given.rounds):
            late, run = (with_waits(given, ranks, rate, artefacts[name]) for name in ("late", "run"))
            show(rate, late["exchange_ms"], run["exchange_ms"], run["step_ms"],
                 estimated(given, folder, rate, ranks, batch, plan["computed_ms"]), plan["backward_ms"], plan["late_share"])


def main():
    def rates(text):
        return [int(rate) for rate in text.split(",") if rate]

    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", required=True)
    options.add_argument("--build", default="build")
    options.add_argument("--model", default="char")
    options.add_argument("--steps", type=int, default=6)
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--train", type=rates, default=[3800, 2200, 600], help="Mbit/s, for two ranks that train")
    options.add_argument("--two", type=rates, default=[2200], help="Mbit/s, for two ranks with waits")
    options.add_argument("--four", type=rates, default=[6000, 3000, 1200], help="Mbit/s, for four ranks with waits")
    options.add_argument("--bucket", default="-fbucket=4MiB")
    options.add_argument("--start-us", type=float, default=200, help="of a collective, fitted at 2200 Mbit/s")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="tcc-rank-network-") as folder:
        if given.train:
            trained(given, folder)
        for ranks, rates in ((2, given.two), (4, given.four)):
            if rates:
                waited(given, folder, ranks, rates)


if __name__ == "__main__":
    main()
