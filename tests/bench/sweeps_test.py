#!/usr/bin/env python3
"""The sweeps from beginning to end, in small sizes: table, JSON and figure agree."""

import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = os.path.dirname(os.path.abspath(__file__))


def run(script, arguments, status=0):
    done = subprocess.run([sys.executable, os.path.join(HERE, script), *arguments], capture_output=True, text=True)
    assert done.returncode == status, f"{script} {arguments}: status {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def checked_figure(path):
    circles = [element for element in xml.etree.ElementTree.parse(path).iter() if element.tag.endswith("circle")]
    assert circles, f"{path} has no points"
    return circles


def attention(tcc, folder):
    out, picture = os.path.join(folder, "attention.json"), os.path.join(folder, "attention.svg")
    size = ["--tcc", tcc, "--threads=1", "--rounds=1", "--first=64", "--heads=1", "--size=16", "--json", out, "--plot", picture]
    text = run("attention_sweep.py", size + ["--last=256"]).stdout
    points = json.load(open(out))["points"]
    assert len(points) == 2 * 2 * 3, points
    for point in points:
        assert point["is_measured"] and point["ms"] > 0 and f"{point['ms']:.3f}" in text, point
        assert f"{point['planned_bytes'] / 1e6:.3f}" in text, point
    by = {(p["form"], p["mode"], p["length"]): p for p in points}
    # Naive attention stores the scores: T^2 numbers more than flash; flash grows by the length.
    stored = by["naive", "forward", 256]["planned_bytes"] - by["naive", "forward", 128]["planned_bytes"]
    assert stored > 4 * (256 ** 2 - 128 ** 2), stored
    assert by["flash", "forward", 256]["planned_bytes"] <= 2 * by["flash", "forward", 128]["planned_bytes"]
    assert len(checked_figure(picture)) == 2 * len(points)

    # No run may take more than nothing: all but the first length is estimated by the square of the length.
    run("attention_sweep.py", size + ["--last=256", "--seconds=0"])
    points = json.load(open(out))["points"]
    for form in ("naive", "flash"):
        first, second, third = [p for p in points if p["form"] == form and p["mode"] == "training"]
        assert first["is_measured"] and not second["is_measured"] and not third["is_measured"], points
        assert abs(third["ms"] - 16 * first["ms"]) < 1e-9 * third["ms"], points

    # A plan that does not fit has bytes and no time.
    text = run("attention_sweep.py", size + ["--last=256", "--memory=0.0004"]).stdout
    points = json.load(open(out))["points"]
    for point in points:
        assert point["fits"] == (point["planned_bytes"] <= 400_000) == (point["ms"] is not None), point
    assert {p["form"] for p in points if not p["fits"]} == {"naive"} and "does not fit" in text, points
    assert "no program" in run("attention_sweep.py", ["--tcc=/nowhere"], 1).stderr
    run("attention_sweep.py", ["--first=8", "--last=4", "--tcc", tcc], 2)


def joined(tcc, folder):
    out = os.path.join(folder, "joined.json")
    text = run("joined_matmuls.py", ["--tcc", tcc, "--threads=1", "--rounds=1", "--json", out]).stdout
    figures = json.load(open(out))
    assert [step["joins"] for step in figures] == [True] * 4 + [False], figures
    for step in figures:
        assert all(len(times) == step["joins"] for times in step["ms"].values()), step
    assert "leaves them apart" in text and "joined / apart" in text, text


def everything(programs, folder):
    """all.py over small sizes, beside a peer that says a fixed rate."""
    out, picture, document = (os.path.join(folder, "all." + ending) for ending in ("json", "svg", "md"))
    peer = os.path.join(folder, "peer.py")
    with open(peer, "w") as file:
        file.write("import json, sys\nassert sys.argv[1:] in (['baby', '32', '64'], ['baby', '32', '64', '--bf16'])\n"
                   "print('warming up')\nprint(json.dumps({'tok_s': 1000.0}))\n")
    command = f"--peer=fixed={sys.executable} {peer} {{size}} {{batch}} {{sequence}} {{bf16}}"
    small = ["--bin", programs, "--rounds=2", "--steps=baby", "--types=f32", "--parts=steps,products,attention", "--groups=small", "--seconds=0.01",
             "--attention=64x1x1", command]
    text = run("all.py", small + ["--json", out, "--plot", picture, "--markdown", document]).stdout
    figures = json.load(open(out))
    [step] = figures["steps"]
    assert len(step["rounds"]) == len(step["ratios"]["fixed"]) == 2, step
    for done, ratio in zip(step["rounds"], step["ratios"]["fixed"]):
        assert abs(done["tcc"]["tokens_per_second"] / 1000 - ratio) < 1e-9 and f"{ratio:.2f}" in text, step
    limits = figures["limits"]
    assert abs(step["share"] * limits["bare"]["f32"] - step["of_products"] * limits["f32"]) < 1e-6, (step, limits)
    assert step["resident"]["tcc"] > step["planned"] > 0 and step["resident"]["fixed"] > 0, step
    matmuls = figures["products"]["shapes"]
    assert len(matmuls) == 4 and all(row["seconds"]["tcc"]["f32"] > 0 and row["bare_seconds"] > 0 for row in matmuls), matmuls
    total = sum(row["count"] * row["seconds"]["tcc"]["f32"] for row in matmuls)
    assert abs(figures["products"]["steps"]["small"]["seconds"]["tcc"]["f32"] - total) < 1e-9 * total, figures["products"]
    assert {row["what"] for row in figures["attention"]} >= {"f32 forward", "f32 backward", "bf16 forward"}, figures["attention"]
    assert len(checked_figure(picture)) == 2
    rows = open(document).read().splitlines()
    for row in ("| baby B32 T64 f32 | ", "| all of small | ", "| f32 forward | 64 | "):
        assert any(line.startswith(row) for line in rows), (row, rows)
    for wrong, word in (["--steps=large"], "one of baby"), (["--attention=5"], "such as 256x6x16"), (["--peer=x"], "NAME=COMMAND"), (["--rounds=0"], "at least one"):
        assert word in run("all.py", small + wrong, 2).stderr, wrong
    assert "ended with status 3" in run("all.py", small + [f"--peer=bad={sys.executable} -c 'raise SystemExit(3)'"], 1).stderr


def optimizers(tcc, graph, folder):
    out, picture = os.path.join(folder, "optimizers.json"), os.path.join(folder, "optimizers.svg")
    text = run("optimizer_sweep.py", ["--tcc", tcc, "--graph", graph, "--threads=1", "--rounds=1", "--tensors=1,3", "--sides=8,32",
                                      "--elements=2000", "--json", out, "--plot", picture]).stdout
    points = json.load(open(out))["points"]
    assert len(points) == 5 * 3, points  # 3 tensors of 32 x 32 have too many elements
    for point in points:
        assert point["ms"] > 0 and f"{point['ms']:.4f}" in text, point
        assert f"{point['planned_bytes'] / 1e6:.3f}" in text, point
        assert point["kernels"] >= 1 and (point["matmuls"] > 0) == (point["optimizer"] == "muon"), point
        # Every parameter and gradient is read, every parameter written.
        assert point["bytes"] >= 3 * 4 * point["elements"], point
    planned = {p["optimizer"]: p["planned_bytes"] for p in points if p["side"] == 32}
    assert planned["adamw"] > planned["sgd"] > planned["adafactor"], planned  # 2, 1 and nearly no moments
    checked_figure(picture)
    assert "unknown optimizer 'adam'" in run("optimizer_sweep.py", ["--optimizers=adam", "--tcc", tcc, "--graph", graph], 2).stderr
    assert "no list of numbers" in run("optimizer_sweep.py", ["--tensors=1,0", "--tcc", tcc, "--graph", graph], 2).stderr


def main():
    tcc, graph = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        attention(tcc, folder)
        everything(os.path.dirname(tcc), folder)
        optimizers(tcc, graph, folder)
        joined(tcc, folder)


if __name__ == "__main__":
    main()
