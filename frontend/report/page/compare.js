// Several reports beside each other: figures, passes, kernels by name, curves of runs.

function nameOf(index) {
  return String.fromCharCode(65 + index);
}

/// Two runs of one program have the same title; the folders of their pages tell them apart.
function placeOf(report) {
  return report.from ? `${report.from}: ${report.title}` : report.title;
}

function ratioCell(row) {
  const [first, last] = [row.values[0], row.values[row.values.length - 1]];
  if (!known(first) || !known(last)) return "–";
  if (first === last) return make("span", { class: "soft" }, "equal");
  // What differs is never shown as 1.
  if (!first) return "–";
  const texts = [3, 5, 7, 9].map(count => digits(last / first, count));
  return "×" + (texts.find(text => Number(text) !== 1) || texts[0]);
}

function compareTable(rows, what, text) {
  const columns = [{ title: what, wide: true, cell: row => breakable(row.name), key: row => row.name }];
  state.reports.forEach((_, i) => columns.push({ title: nameOf(i), number: true, cell: row => known(row.values[i]) ? (row.text || text)(row.values[i]) : "–", key: row => row.values[i] || 0 }));
  columns.push({ title: `${nameOf(state.reports.length - 1)} / A`, number: true, cell: ratioCell, key: row => known(row.values[0]) && row.values[0] ? (row.values[row.values.length - 1] || 0) / row.values[0] : 0 });
  return table(columns, rows);
}

function showCompare(_, place) {
  const reports = state.reports;
  place.append(make("div", {}, reports.map((each, i) => make("p", {}, make("b", {}, nameOf(i) + " "), placeOf(each), " ", make("code", { class: "soft" }, each.command.join(" "))))));
  const figure = (name, of, text) => ({ name, values: reports.map(of), text });
  const compile = key => each => (each.compile || {})[key];
  const figures = compareTable([figure("captured ops", compile("captured_ops"), String), figure("kernels", compile("kernels"), String), figure("compiled kernels", compile("compiled_kernels"), String),
    figure("matrix products", compile("matmuls"), String), figure("instructions", compile("instructions"), String), figure("memory planned", compile("planned_bytes"), bytesText), figure("arena", compile("arena_bytes"), bytesText),
    figure("passes", compile("passes_ms"), msText), figure("code", compile("code_ms"), msText),
    figure("least time of a step", each => each.costs ? each.costs.rows.reduce((all, row) => all + row.least_ms, 0) : null, msText),
    figure("traffic of a step", each => each.costs ? each.costs.rows.reduce((all, row) => all + row.bytes, 0) : null, bytesText),
    figure("a step, measured", each => each.profile && each.profile.steps ? each.profile.step_ms : null, msText),
    figure("last loss", each => (trainingOf(each) ? trainingOf(each).steps.at(-1).loss : null), loss => digits(loss, 8))], "figure", String);
  figures.id = "figures";
  place.append(make("h2", {}, "Figures"), figures);
  const same = reports.every(each => JSON.stringify(each.plan) === JSON.stringify(reports[0].plan)), code = reports.every(each => (each.code || {}).text === (reports[0].code || {}).text);
  place.append(make("p", {}, `The plans are ${same ? "equal" : "not equal"}; the kernels' code is ${code ? "equal" : "not equal"}.`));
  const runs = reports.map((each, i) => ({ name: nameOf(i) + (each.from ? " " + each.from : ""), training: trainingOf(each) })).filter(run => run.training);
  if (runs.length > 1) {
    const losses = runs.map(run => run.training.steps.map(step => step.loss));
    const shared = Math.min(...losses.map(list => list.length));
    let equal = 0;
    while (equal < shared && losses.every(list => list[equal] === losses[0][equal])) ++equal;
    place.append(make("p", {}, equal === shared ? `The losses of all ${shared} shared steps are equal in every digit that is logged.` : `The losses are equal for ${counted(equal, "step")}, then differ.`), ...runCurves(runs).flat());
  } else if (runs.length) place.append(...runCurves(runs).flat());
  const measured = reports.every(each => ((each.profile || {}).rows || []).length > 0); // else no time is beside a limit
  const names = new Map();
  reports.forEach((each, i) => timedRows(each).forEach(row => {
    if (!names.has(row.pattern)) names.set(row.pattern, { name: row.label, values: reports.map(() => null), times: reports.map(() => null), calls: reports.map(() => 0) });
    const entry = names.get(row.pattern);
    entry.values[i] = row.bytes;
    entry.times[i] = measured ? row.measured : row.least_ms;
  }));
  const rows = [...names.values()];
  const difference = list => Math.abs((list[list.length - 1] || 0) - (list[0] || 0));
  rows.sort((x, y) => difference(y.times) - difference(x.times) || difference(y.values) - difference(x.values));
  place.append(make("h2", {}, "Kernels and products by time"), make("p", { class: "soft" }, `The largest differences first; ${measured ? "measured" : "the least times by the limits, since not each step ran"}.`),
    compareTable(rows.map(row => ({ name: row.name, values: row.times })), "what", msText), make("h2", {}, "By traffic"), compareTable(rows, "what", bytesText));
  const passes = [...new Set(reports.flatMap(each => (each.passes || []).map(pass => pass.name)))];
  place.append(make("h2", {}, "Passes"), compareTable(passes.map(name => ({ name, values: reports.map(each => ((each.passes || []).find(pass => pass.name === name) || {}).ms) })), "pass", msText));
}
panes.unshift({ name: "compare", title: "Compare", show: showCompare, only: () => state.reports.length > 1 });
