// A training run: losses, rates, times of its steps, from the lines of its log.

function trainingOf(of) {
  if (!of.training || !of.training.length) return null;
  const steps = of.training.filter(line => known(line.step) && known(line.loss));
  return steps.length ? { steps, summary: of.training.find(line => known(line.tokens_per_second) && known(line.params)) || steps[steps.length - 1] } : null;
}

/// Curves over each other: [{name, colour, points: [[x, y]]}].
function curves(title, lines, text) {
  const width = roomFor(900), height = 230, left = 64, bottom = 30;
  const all = lines.flatMap(line => line.points).filter(([, y]) => Number.isFinite(y));
  if (!all.length) return null;
  let [x0, x1] = [Math.min(...all.map(p => p[0])), Math.max(...all.map(p => p[0]))];
  let [y0, y1] = [Math.min(...all.map(p => p[1])), Math.max(...all.map(p => p[1]))];
  if (x1 === x0) x1 += 1;
  const room = (y1 - y0 || Math.abs(y1) || 1) * .06;
  y0 = y0 < 0 ? y0 - room : Math.max(0, y0 - room);
  y1 += room;
  const px = x => left + (x - x0) / (x1 - x0) * (width - left - 12), py = y => 14 + (y1 - y) / (y1 - y0) * (height - bottom - 14);
  const grid = [0, .25, .5, .75, 1].map(share => {
    const y = y0 + share * (y1 - y0);
    return [make("line", { class: "axis", x1: left, x2: width - 12, y1: py(y), y2: py(y) }), make("text", { x: left - 6, y: py(y) + 4, "text-anchor": "end", class: "soft" }, text(y))];
  });
  const ticks = [x0, (x0 + x1) / 2, x1].map((x, i) => make("text", { x: px(x), y: height - 10, "text-anchor": ["start", "middle", "end"][i], class: "soft" }, `${i === 1 ? "step " : ""}${Math.round(x)}`));
  const paths = lines.map(line => make("polyline", { points: line.points.filter(([, y]) => Number.isFinite(y)).map(([x, y]) => `${px(x).toFixed(1)},${py(y).toFixed(1)}`).join(" "),
    fill: "none", stroke: `var(--${line.colour})`, "stroke-width": 1.6 }));
  const drawing = make("svg", { viewBox: `0 0 ${width} ${height}`, style: "width:100%;max-width:1000px", role: "img", "aria-label": title }, grid, ticks, paths);
  tipped(drawing, event => title);
  drawing.addEventListener("pointermove", event => {
    const box = drawing.getBoundingClientRect(), x = x0 + ((event.clientX - box.left) / box.width * width - left) / (width - left - 12) * (x1 - x0);
    const near = lines.filter(line => line.points.length).map(line => [line.name, line.points.reduce((a, b) => (Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a))]);
    showTip(event, near.map(([name, [at, y]]) => `${name} step ${at}: ${text(y)}`).join("\n"));
  });
  return [make("h2", {}, title), lines.length > 1 ? make("div", { class: "legend" }, lines.map(line => make("span", {}, make("i", { style: `background:var(--${line.colour})` }), line.name))) : null,
    make("div", { class: "canvas curve" }, drawing)].filter(Boolean);
}

function runCurves(runs) {
  const colours = ["a", "b", "c", "d"];
  const of = (key, from) => runs.map(({ name, training }, i) => ({ name, colour: colours[i % 4], points: training.steps.filter(step => known(step[key])).slice(from).map(step => [step.step, step[key]]) }));
  return [curves("Loss", of("loss", 0), y => digits(y, 4)), curves("Held-out loss", of("val_loss", 0), y => digits(y, 4)),
    curves("Tokens a second", of("tokens_per_second", 1), y => digits(y, 4)), curves("Norm of the gradients", of("norm", 0), y => digits(y, 3)),
    curves("Learning rate", of("lr", 0), y => y > 0 && y < .001 ? y.toExponential(1) : digits(y, 2))].filter(Boolean);
}

function showRun(of, place) {
  const training = trainingOf(of);
  if (!training) return place.append(make("p", {}, "No run is in this report; train_gpt --report=DIR writes one with its losses."));
  const { steps, summary } = training, times = steps.map(step => step.ms).filter(known).slice(1).sort((x, y) => x - y);
  const median = times[times.length >> 1], lost = times.reduce((all, ms) => all + Math.max(0, ms - median), 0);
  place.append(make("div", { class: "cards", id: "run" }, card(steps.length, "steps"), card(digits(steps[0].loss, 5), "first loss"), card(digits(steps[steps.length - 1].loss, 5), "last loss"),
    known(median) ? card(msText(median), "a step, median") : null, known(median) ? card(msText(lost), "lost in slower steps") : null,
    known(summary.tokens_per_second) ? card(digits(summary.tokens_per_second, 4), "tokens a second") : null,
    known(summary.mfu) ? card(percent(summary.mfu), "of the machine's peak") : null), ...runCurves([{ name: of.title, training }]).flat());
}
panes.push({ name: "run", title: "Run", count: of => (trainingOf(of) || { steps: [] }).steps.length, show: showRun });
