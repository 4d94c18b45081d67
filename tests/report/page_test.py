"""Clicks through pages of --report in a headless Chromium: page_test.py PROGRAMS SOURCE [FOLDER for screenshots].
No console error, every figure equal to what -emit=json, -emit=memory.json, -ftime-report=json and --graph-breaks=json
print. Exits with 77 where there is no Chromium."""
import json, os, pathlib, re, subprocess, sys, tempfile, time
from browser import Browser, missing

PROGRAMS, SOURCE = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
SHOTS = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
failures = []

BREAKS = """func.func @f(%x: tensor<4x8xf32> {tcc.name = "x"}, %t: tensor<4x8xf32> {tcc.name = "t"}) -> (tensor<f32> {tcc.name = "y"}) {
  %a = tcc.gelu %x : tensor<4x8xf32>
  %m = tcc.reduce_sum %a axes [0, 1] : tensor<4x8xf32> -> tensor<1x1xf32>
  %s = tcc.reshape %m : tensor<1x1xf32> -> tensor<f32>
  tcc.print "sum", %s : tensor<f32>
  %b = tcc.mul %a, %t : tensor<4x8xf32>
  %n = tcc.reduce_sum %b axes [0, 1] : tensor<4x8xf32> -> tensor<1x1xf32>
  %y = tcc.reshape %n : tensor<1x1xf32> -> tensor<f32>
  func.return %y : tensor<f32>
}
"""
ONE = """func.func @one(%x: tensor<64x64xf32> {tcc.name = "<img src=x onerror=alert(1)>&\\22"}) -> (tensor<64x64xf32> {tcc.name = "y"}) {
  %y = tcc.gelu %x : tensor<64x64xf32>
  func.return %y : tensor<64x64xf32>
}
"""
WRONG = """func.func @wrong(%x: tensor<4x8xf32> {tcc.name = "x"}, %w: tensor<9x4xf32> {tcc.name = "w"}) -> (tensor<4x4xf32> {tcc.name = "y"}) {
  %y = tcc.matmul %x, %w : tensor<4x8xf32>, tensor<9x4xf32> -> tensor<4x4xf32>
  func.return %y : tensor<4x4xf32>
}
"""


def check(what, condition, detail=""):
    if not condition:
        failures.append(f"{what}: {detail}")


def equal(what, seen, expected):
    check(what, seen == expected, f"{seen!r}, expected {expected!r}")


def tcc(*arguments, status=0, environment=None):
    done = subprocess.run([PROGRAMS / "tcc", *map(str, arguments)], capture_output=True, text=True,
                          env={**os.environ, **(environment or {})})
    equal(f"exit status of tcc {' '.join(map(str, arguments))}", done.returncode, status)
    return done


def bytes_text(number):
    """As base.js writes it."""
    unit = 0
    while abs(number) >= 1000 and unit < 4:
        number, unit = number / 1000, unit + 1
    if unit == 0 or number == 0:
        return f"{round(number)} {'B kB MB GB TB'.split()[unit]}"
    whole = len(str(int(abs(number))))
    return f"{number:.{max(0, 3 - whole)}f} {'B kB MB GB TB'.split()[unit]}"


def pane(browser, name):
    browser.click(f"nav [data-pane={name}]")
    browser.wait(f"return document.getElementById('pane').className === '{name}'")


def check_page(browser, page, graph, flags=()):
    """One page beside what the text outputs print of the same graph."""
    plan = json.loads(tcc(graph, "-emit=json", *flags).stdout)
    memory = json.loads(tcc(graph, "-emit=memory.json", *flags).stdout)
    browser.open(page.as_uri())
    equal("title", browser.text("#title"), str(graph))
    cards = browser.texts("#figures .card")
    check("planned bytes", any(bytes_text(memory["planned_bytes"]) in card and "planned" in card for card in cards), cards)
    check("arena bytes", any(bytes_text(plan["arena_bytes"]) in card and "arena" in card for card in cards), cards)
    products = sum(each["op"] == "matmul" for each in plan["instructions"])
    check("matmuls", any(card.split("\n")[0] == str(products) and "products" in card for card in cards), (products, cards))

    pane(browser, "pipeline")
    times = json.loads(tcc(graph, "-ftime-report=json", *flags).stderr)["passes"]
    names = browser.texts("#passes tbody td:nth-child(2)")
    equal("passes", names, [each["name"] + ("" if each["changed"] else " (unchanged)") for each in times])
    browser.click("#passes tbody tr:first-child")
    equal("the chosen pass", browser.text("#pass h2"), times[0]["name"])

    pane(browser, "graph")
    check("boxes", browser.count("#pane svg rect") > 0)
    browser.run("document.getElementById('search').value = arguments[0]; document.getElementById('search').dispatchEvent(new Event('input'))", "no such name")
    check("nothing is found", "nothing" in browser.text("#tree"))

    pane(browser, "kernels")
    rows = browser.run("return report().costs.rows")
    equal("traffic", sum(row["bytes"] for row in rows), sum(each["bytes"] for each in plan["instructions"]))
    equal("arithmetic", sum(row["flops"] for row in rows), sum(each["flops"] for each in plan["instructions"]))
    equal("instructions", sorted(number for row in rows for number in row["instructions"]), list(range(len(plan["instructions"]))))
    equal("the plan", browser.run("return JSON.stringify(report().plan)"), json.dumps(plan, separators=(",", ":"), ensure_ascii=False))
    shown = browser.texts("#rows tbody td:last-child")
    equal("shown traffic", sorted(shown), sorted(bytes_text(row["bytes"]) for row in rows))
    browser.click("#rows tbody tr:last-child")
    check("a kernel's detail", browser.text("#kernel h2") in [row["label"] for row in rows])

    pane(browser, "memory")
    equal("planned", browser.text("#planned"), bytes_text(memory["planned_bytes"]))
    equal("rectangles", browser.count("#arena rect"), len(memory["arena"]))
    for name in ("breaks", "run"):
        pane(browser, name)
    equal("console", browser.problems(), [])
    return plan


def shot(browser, name):
    if SHOTS:
        browser.picture(SHOTS / f"{name}.png")


def check_train_step(browser, folder):
    graph = SOURCE / "models/train_step.graph"
    begin = time.time()
    tcc(graph, "--bench=5", f"--report={folder / 'step'}")
    check("time to write a page", time.time() - begin < 5)
    page = folder / "step/index.html"
    plan = check_page(browser, page, graph)
    # What ran is measured, and links lead from pane to pane and to the source.
    pane(browser, "summary")
    profile = browser.run("return report().profile")
    equal("measured steps", profile["steps"], 5)
    equal("measured instructions", sum(row["calls"] for row in profile["rows"]), len(plan["instructions"]))
    check("times add up", abs(sum(part["ms"] for part in profile["where"]) - profile["step_ms"]) < 1e-6 * profile["step_ms"] + 1e-9, profile)
    check("code of each kernel", browser.run("return report().kernels.length > 4 && report().kernels.every(kernel => codeOf(report(), kernel.symbol))"),
          browser.run("return report().kernels.filter(kernel => !codeOf(report(), kernel.symbol)).map(kernel => kernel.symbol)"))
    browser.click(".advice a[href^='#kernels']")
    browser.wait("return document.getElementById('pane').className === 'kernels'")
    browser.click("#kernel dd a[href='#']")
    equal("the source", browser.text("#source .hit b"), re.search(r":(\d+)", browser.text("#kernel dd a[href='#']"))[1])
    browser.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', bubbles: true}))")
    browser.wait("return document.getElementById('source').hidden")
    # The difference of a pass's IR is that of the texts.
    pane(browser, "pipeline")
    names = browser.texts("#passes tbody td:nth-child(2)")
    browser.click(f"#passes tbody tr:nth-child({names.index('fuse-kernels') + 1})")
    check("kernels are added", any("tcc.kernel" in line for line in browser.texts(".diff .add")))
    fused = tcc(graph, "-emit=fused").stdout
    check("the IR after the last pass of the phase", browser.run(
        "const of = report(), at = of.stages.filter(stage => ['fuse-kernels', 'fuse-epilogues'].includes(stage.name)).map(stage => of.texts[stage.text]); return at.some(text => text.includes('tcc.kernel'))"), fused[:200])
    equal("keys", browser.run("document.dispatchEvent(new KeyboardEvent('keydown', {key: '3', bubbles: true})); return location.hash"), "#graph")
    # In a graph a click on a box says what it is, and leads to its kernel.
    browser.wait("return document.getElementById('pane').className === 'graph'")
    browser.run("document.querySelector('#pane svg rect.box').parentNode.dispatchEvent(new MouseEvent('click', {bubbles: true}))")
    browser.wait("return document.getElementById('node') !== null")
    equal("console", browser.problems(), [])


def check_breaks(browser, folder):
    graph = folder / "breaks.graph"
    graph.write_text(BREAKS)
    told = json.loads(tcc(graph, "--graph-breaks=json").stdout)
    tcc(graph, f"--report={folder / 'breaks'}", "-o", folder / "breaks.tcc")
    browser.open((folder / "breaks/index.html").as_uri())
    pane(browser, "breaks")
    equal("breaks", browser.count(".site"), len(told["breaks"]))
    text = browser.text("#pane")
    for site in told["breaks"]:
        check("why and what instead", site["why"] in text and site["instead"] in text, text)
        equal("kernels of a break", browser.run("return report().breaks.breaks[0].kernels"), site["kernels"])
    equal("console", browser.problems(), [])


def check_one(browser, folder):
    graph = folder / "one <b>.graph"
    graph.write_text(ONE)
    tcc(graph, f"--report={folder / 'one'}", "-emit=fused")
    check_page(browser, folder / "one/index.html", graph)
    pane(browser, "memory")
    check("an empty arena is said", "It holds nothing." in browser.text("#pane"), browser.text("#pane"))
    pane(browser, "graph")
    check("untrusted names are text", "<img" in browser.text("#tree") and browser.count("#pane img") == 0, browser.text("#tree"))


def check_wrong(browser, folder):
    graph = folder / "wrong.graph"
    graph.write_text(WRONG)
    said = tcc(graph, f"--report={folder / 'wrong'}", status=1).stderr
    browser.open((folder / "wrong/index.html").as_uri())
    check("the message", re.search(r"error: (.*) \[", said)[1] in browser.text("#pane"), browser.text("#pane"))
    for name in browser.run("return [...document.querySelectorAll('nav button')].map(tab => tab.dataset.pane)"):
        pane(browser, name)
    equal("console", browser.problems(), [])


def check_gpu(browser, folder):
    """Kernels for a GPU: registers where machine code was made, why not elsewhere, the roofline by stated limits."""
    graph = SOURCE / "models/train_step.graph"
    flags = ("--target=cuda", "-march=sm_90a", "--no-cache")
    tcc(graph, *flags, "-emit=json", f"--report={folder / 'plan'}")
    check_page(browser, folder / "plan/index.html", graph, flags)
    pane(browser, "kernels")
    browser.run("[...document.querySelectorAll('#rows tbody tr')].find(row => row.innerText.includes('loss')).click()")
    check("why registers are not known", "not known: no machine code was made" in browser.text("#kernel"), browser.text("#kernel"))
    check("a roofline", browser.count("#roofline circle") > 0)
    check("whose limits", "H100 SXM, as its maker states them" in browser.text("#pane"), browser.text("#pane")[:300])
    shot(browser, "gpu-plan")
    if "NVRTC could not" in tcc("--doctor").stdout or "missing  NVRTC" in tcc("--doctor").stdout:
        return
    tcc(graph, *flags, f"--report={folder / 'gpu'}")
    browser.open((folder / "gpu/index.html").as_uri())
    pane(browser, "kernels")
    uses = browser.run("return report().uses.kernels")
    plan = json.loads(tcc(graph, *flags, "-emit=json").stdout)
    equal("kernels with figures", sorted(uses), sorted(kernel["symbol"] for kernel in plan["kernels"]))
    check("registers", all(8 <= use["registers"] <= 255 for use in uses.values()), uses)
    titles = browser.texts("#rows thead th")
    column = titles.index("registers") + 1
    expected = []
    for row in browser.run("return report().costs.rows"):
        calls = [plan["instructions"][i] for i in row["instructions"]]
        registers = {uses[plan["kernels"][call["kernel"]]["symbol"]]["registers"] for call in calls if call["op"] == "launch"}
        expected.append("–".join(map(str, sorted({min(registers), max(registers)}))) if registers else "–")
    equal("shown registers", sorted(browser.texts(f"#rows tbody td:nth-child({column})")), sorted(expected))
    browser.run("[...document.querySelectorAll('#rows tbody tr')].find(row => row.innerText.includes('loss')).click()")
    text = browser.text("#kernel")
    check("a kernel's figures", "registers of a thread" in text and "threads" in text and "none spilled" in text, text)
    shot(browser, "gpu")
    equal("console", browser.problems(), [])


def check_compare(browser, folder):
    graph = SOURCE / "models/layer_norm.graph"
    plans = []
    for name, level in (("a", "-O2"), ("b", "-O0")):
        tcc(graph, level, f"--report={folder / name}")
        plans.append(json.loads(tcc(graph, level, "-emit=json").stdout))
    told = tcc("--compare", folder / "a", folder / "b", f"--report={folder / 'both'}").stdout
    browser.open((folder / "both/index.html").as_uri())
    figures = {cells[0]: cells[1:] for cells in browser.run(
        "return [...document.querySelectorAll('#figures tbody tr')].map(row => [...row.cells].map(cell => cell.innerText))")}
    equal("instructions of both", figures["instructions"][:2], [str(len(plan["instructions"])) for plan in plans])
    equal("arenas of both", figures["arena"][:2], [bytes_text(plan["arena_bytes"]) for plan in plans])
    arena = next(line.split() for line in told.splitlines() if line.startswith("arena bytes"))
    equal("arenas as text", arena[2:], [str(plan["arena_bytes"]) for plan in plans])
    for name in ("pipeline", "graph", "kernels", "memory"):
        pane(browser, name)
    equal("console", browser.problems(), [])


def train(folder, *arguments, environment=None):
    text = folder / "text.txt"
    text.write_text("in the beginning was the word, and the word was with a compiler. " * 200)
    return subprocess.run([PROGRAMS / "train_gpt", "--data", text, "--layers=2", "--batch=2", "--seq=32", "--width=32", "--heads=2", "--quiet",
                           *map(str, arguments)], capture_output=True, text=True, env={**os.environ, **(environment or {})})


def check_narrow(browser):
    """The open page at 400 px: nothing is wider than it, pictures are not scaled down, the head has its button beside the title."""
    browser.resize(400, 860)
    for name in browser.run("return [...document.querySelectorAll('nav button')].map(tab => tab.dataset.pane)"):
        pane(browser, name)
        equal(f"wider than the page: {name}", browser.run("const pane = document.getElementById('pane'); return Math.max("
              "document.documentElement.scrollWidth - innerWidth, pane.scrollWidth - pane.clientWidth)"), 0)
        scales = browser.run("return [...document.querySelectorAll('#roofline svg, #arena, .curve svg')]"
                             ".map(svg => svg.getBoundingClientRect().width / svg.viewBox.baseVal.width)")
        check(f"small text: {name}", all(scale > .9 for scale in scales) and (scales or name not in ("kernels", "memory", "run")), scales)
    check("the head", browser.run("const [button, title] = ['theme', 'title'].map(id => document.getElementById(id).getBoundingClientRect());"
                                  "return button.top < title.bottom && button.left > title.left"))
    browser.resize(1280, 900)


def check_training(browser, folder):
    """A run's page has its log, its measured steps and the line of the model's code; --compare lays two runs over each other."""
    for name, seed in (("run", 1), ("other", 2)):
        done = train(folder, "--steps=6", "--eval-every=3", "--eval-batches=2", f"--seed={seed}", f"--json={folder / name}.jsonl",
                     f"--report={folder / name}")
        equal("train_gpt", (done.returncode, done.stderr), (0, ""))
    logged = [json.loads(line) for line in (folder / "run.jsonl").read_text().splitlines()]
    browser.open((folder / "run/index.html").as_uri())
    pane(browser, "run")
    equal("the log", browser.run("return report().training"), logged)
    labels = browser.run("return [...document.querySelectorAll('.curve svg text')].map(text => text.textContent)")
    lowest = min(float(text) for text in labels if re.fullmatch(r"-?[\d.]+(e-?\d+)?", text))
    check("no axis of what is never negative goes below 0", lowest >= 0, lowest)
    check("steps", any(each.startswith("6\n") for each in browser.texts("#run .card")), browser.texts("#run .card"))
    equal("measured steps", browser.run("return report().profile.steps"), 5)
    check("held-out losses", "Held-out loss" in browser.texts("#pane h2"), browser.texts("#pane h2"))
    check("sources are those of the program", any("gpt2.cpp" in name for name in browser.run("return Object.keys(report().sources)")))
    pane(browser, "graph")
    check("layers", any(line.startswith("h.0") for line in browser.texts("#tree .line span")), browser.texts("#tree .line"))
    check_narrow(browser)
    tcc("--compare", folder / "run", folder / "other", f"--report={folder / 'runs'}")
    browser.open((folder / "runs/index.html").as_uri())
    names = browser.texts("#pane > div:first-child p")
    check("which run is which", all(f"{folder / run}: training_step" in line for run, line in zip(("run", "other"), names)), names)
    check("its command", "--seed=1" in names[0] and "--seed=2" in names[1], names)
    equal("curves over each other", browser.run("return document.querySelector('.curve').querySelectorAll('polyline').length"), 2)
    check("losses differ", "The losses are equal for 0 steps, then differ" in browser.text("#pane"), browser.text("#pane")[:900])
    equal("console", browser.problems(), [])
    # What is in the environment writes a page for each function.
    done = train(folder, "--steps=1", environment={"TCC_REPORT": str(folder / "each")})
    equal("TCC_REPORT", (done.returncode, [path.name for path in (folder / "each").glob("*/index.html")]), (0, ["index.html"]))
    (folder / "plain").write_text("")
    done = train(folder, "--steps=1", f"--report={folder / 'plain/x'}")
    check("a folder that cannot be made", done.returncode == 1 and "--report=" in done.stderr and "Not a directory" in done.stderr, done.stderr)


def check_refusals(folder):
    graph = SOURCE / "models/layer_norm.graph"
    (folder / "file").write_text("no folder")
    said = tcc(graph, f"--report={folder / 'file/x'}", status=1).stderr
    check("a folder that cannot be made", "--report=" in said and "Not a directory" in said and said.count("\n") == 1, said)
    page = (folder / "a/index.html").read_text()
    import base64, zlib
    packed = re.search(r'<script id="data"[^>]*data-bytes="\d+">([^<]*)<', page)
    data = zlib.decompress(base64.b64decode(packed[1])).replace(b'"version":1', b'"version":9', 1)
    (folder / "newer.html").write_text(page[:packed.start()] + f'<script id="data" type="text/plain" data-bytes="{len(data)}">' +
                                       base64.b64encode(zlib.compress(data)).decode() + page[packed.end() - 1:])
    for path, words in ((folder / "newer.html", "version 9"), (folder / "file", "is no page of tcc --report"), (folder / "none", "No such file")):
        said = tcc("--compare", folder / "a", path, f"--report={folder / 'c'}", status=1).stderr
        check(f"{path.name} is refused", words in said and said.count("\n") == 1, said)
    tcc("--compare", folder / "a", f"--report={folder / 'c'}", status=2)


def main():
    if missing():
        print("skipped:", missing())
        return 77
    with tempfile.TemporaryDirectory() as made, Browser() as browser:
        folder = pathlib.Path(made)
        for step in (check_train_step, check_breaks, check_one, check_wrong, check_gpu, check_compare, check_training):
            try:
                step(browser, folder)
            except (OSError, RuntimeError, ValueError, TypeError, StopIteration, KeyError) as problem:
                failures.append(f"{step.__name__}: {type(problem).__name__}: {problem}")
        check_refusals(folder)
    for failure in failures:
        print(failure)
    return 1 if failures else 0


sys.exit(main())
