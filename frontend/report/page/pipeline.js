// Each pass: its reason, its time, ops before and after, what it did and what it left, and what it changed in the IR.

/// Lines as they are compared: numbers of values differ from print to print.
function comparable(line) {
  return line.replace(/%(\d+|([\w.$-]+?)_\d+)(?![\w.])/g, (whole, number, name) => "%" + (name || "_"));
}

/// Patience diff: lines that both texts have once are fixed points in their longest common order; between two of them
/// equal beginnings and ends are kept, and the rest is replaced. Gives [kind, old line, new line]; kind: " ", "-", "+".
function diffLines(before, after) {
  const a = before.map(comparable), b = after.map(comparable), out = [];
  function part(a0, a1, b0, b1) {
    while (a0 < a1 && b0 < b1 && a[a0] === b[b0]) out.push([" ", a0++, b0++]);
    let tail = 0;
    while (a0 < a1 - tail && b0 < b1 - tail && a[a1 - 1 - tail] === b[b1 - 1 - tail]) ++tail;
    a1 -= tail;
    b1 -= tail;
    const points = a0 < a1 && b0 < b1 ? fixedPoints(a0, a1, b0, b1) : [];
    if (!points.length) {
      for (let i = a0; i < a1; ++i) out.push(["-", i, -1]);
      for (let i = b0; i < b1; ++i) out.push(["+", -1, i]);
    } else {
      let i = a0, j = b0;
      for (const [x, y] of points) {
        part(i, x, j, y);
        out.push([" ", x, y]);
        i = x + 1;
        j = y + 1;
      }
      part(i, a1, j, b1);
    }
    for (let i = 0; i < tail; ++i) out.push([" ", a1 + i, b1 + i]);
  }
  function fixedPoints(a0, a1, b0, b1) {
    const seen = new Map();
    for (let i = a0; i < a1; ++i) seen.set(a[i], seen.has(a[i]) ? [-1, -1] : [i, -1]);
    const twice = new Set();
    for (let j = b0; j < b1; ++j) {
      const entry = seen.get(b[j]);
      if (!entry || entry[0] < 0) continue;
      if (entry[1] >= 0) twice.add(b[j]);
      entry[1] = j;
    }
    const pairs = [...seen].filter(([line, [x, y]]) => x >= 0 && y >= 0 && !twice.has(line)).map(([, pair]) => pair);
    // The longest run of growing y, by piles.
    const piles = [], before = pairs.map(() => -1);
    pairs.forEach(([, y], i) => {
      let low = 0, high = piles.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (pairs[piles[middle]][1] < y) low = middle + 1;
        else high = middle;
      }
      before[i] = low ? piles[low - 1] : -1;
      piles[low] = i;
    });
    const points = [];
    for (let i = piles.length ? piles[piles.length - 1] : -1; i >= 0; i = before[i]) points.push(pairs[i]);
    return points.reverse();
  }
  part(0, a.length, 0, b.length);
  return out;
}

function showDiff(before, after) {
  const old = before.split("\n"), now = after.split("\n"), rows = diffLines(old, now);
  const added = rows.filter(row => row[0] === "+").length, removed = rows.filter(row => row[0] === "-").length;
  const box = make("div", { class: "diff" });
  const context = 3, most = 3000;
  const near = new Uint8Array(rows.length);
  rows.forEach((row, i) => {
    if (row[0] !== " ") near.fill(1, Math.max(0, i - context), Math.min(rows.length, i + context + 1));
  });
  const lineOf = ([kind, x, y]) => {
    const text = kind === "+" ? now[y] : old[x];
    return make("div", { class: kind === "+" ? "add" : kind === "-" ? "del" : "" },
      kind + " " + (text.length > 600 ? text.slice(0, 600) + " …" : text));
  };
  let shown = 0;
  for (let i = 0; i < rows.length && shown < most; ) {
    if (near[i]) {
      box.append(lineOf(rows[i++]));
      ++shown;
      continue;
    }
    let end = i;
    while (end < rows.length && !near[end]) ++end;
    const hidden = rows.slice(i, Math.min(end, i + 2000));
    const skip = make("div", { class: "skip" }, `… ${counted(end - i, "equal line")}`);
    pressable(skip, () => skip.replaceWith(...hidden.map(lineOf)));
    box.append(skip);
    i = end;
  }
  if (shown >= most) box.append(make("div", { class: "skip" }, "… the rest of a long difference: tcc -fdump-ir=changed prints all"));
  return [make("p", { class: "soft" }, make("span", { class: "good" }, "+" + added), " ", make("span", { class: "bad" }, "−" + removed),
    " lines; numbers of values do not count"), box];
}

/// Passes with the stages before and after them.
function passesOf(of) {
  const stages = of.stages || [], passes = of.passes || stages.slice(1).map(stage => ({ name: stage.name, ms: null, changed: true, reason: "" }));
  let last = 0;
  return passes.map((pass, number) => {
    const at = stages.findIndex((stage, i) => i > last && stage.name === pass.name);
    const before = stages[last], after = at < 0 ? before : stages[at];
    if (at >= 0) last = at;
    const sum = stage => stage ? Object.values(stage.ops).reduce((all, count) => all + count, 0) : null;
    return { ...pass, number, before, after, opsBefore: sum(before), opsAfter: sum(after) };
  });
}

function remarkRow(remark) {
  return make("div", { class: "advice" }, make("b", {}, { passed: "did ", missed: "left ", analysis: "found " }[remark.kind]),
    remark.text, remark.count > 1 ? ` ×${remark.count}` : "",
    remark.bytes ? make("b", {}, `; ${remark.kind === "passed" ? "saves" : "costs"} ${bytesText(remark.bytes)} a step `) : " ",
    remark.file ? sourceLink(`${remark.file}:${remark.line}`) : null);
}

function passDetail(of, pass) {
  const detail = make("div", { class: "detail", id: "pass" }, make("h2", {}, pass.name), make("p", {}, pass.reason));
  const names = new Set([...Object.keys((pass.before || { ops: {} }).ops), ...Object.keys((pass.after || { ops: {} }).ops)]);
  const changes = [...names].map(name => ({ name, before: pass.before.ops[name] || 0, after: pass.after.ops[name] || 0 }))
    .filter(row => row.before !== row.after).sort((x, y) => Math.abs(y.after - y.before) - Math.abs(x.after - x.before));
  if (changes.length) {
    const rows = table([{ title: "op", cell: row => make("code", {}, row.name) }, { title: "before", number: true, cell: row => row.before },
      { title: "after", number: true, cell: row => row.after },
      { title: "", number: true, cell: row => (row.after > row.before ? "+" : "−") + Math.abs(row.after - row.before) }], changes.slice(0, 40));
    detail.append(make("details", { open: changes.length < 12 }, make("summary", {}, `ops that changed in number (${changes.length})`), rows));
  }
  for (const [kind, title] of [["passed", "What it did"], ["missed", "What it left, and why"], ["analysis", "What it found"]]) {
    const list = (of.remarks || []).filter(remark => remark.pass === pass.name && remark.kind === kind);
    if (!list.length) continue;
    const bytes = list.reduce((all, remark) => all + remark.bytes, 0);
    const box = make("div", {}, list.slice(0, 12).map(remarkRow));
    if (list.length > 12) box.append(pressable(make("a", {}, `all ${list.length}`), () => box.replaceChildren(...list.map(remarkRow))));
    detail.append(make("details", { open: kind === "missed" }, make("summary", {}, `${title} (${list.length}${bytes ? ", " + bytesText(bytes) + " a step" : ""})`), box));
  }
  const place = make("div");
  if (!pass.changed) place.append(make("p", { class: "soft" }, "It left the IR as it was."));
  else if (of.texts_left_out) place.append(make("p", { class: "soft" }, `The IR of this step is too large to be kept here; tcc -fdump-ir=${pass.name} prints it.`));
  else if (pass.before && pass.after && pass.after !== pass.before)
    place.append(make("h3", {}, "What it changed in the IR"), ...showDiff(of.texts[pass.before.text], of.texts[pass.after.text]));
  detail.append(place);
  return detail;
}

function showPipeline(of, place, params) {
  const passes = passesOf(of);
  if (!passes.length) return place.append(make("p", {}, "No pass ran."));
  const most = Math.max(...passes.map(pass => pass.ms || 0), 1e-9);
  const right = make("div", { class: "right" });
  const choose = pass => right.replaceChildren(passDetail(of, pass));
  let chosen = passes.find(pass => pass.name === params.pass) || [...passes].sort((x, y) => (y.ms || 0) - (x.ms || 0))[0];
  const rows = table([
    { title: "#", number: true, cell: pass => pass.number + 1, key: pass => pass.number },
    { title: "pass", cell: pass => [pass.name, pass.changed ? null : make("span", { class: "soft" }, " (unchanged)")], key: pass => pass.name },
    { title: "ms", number: true, cell: pass => known(pass.ms) ? pass.ms.toFixed(2) : "–", key: pass => pass.ms },
    { title: "", bar: true, cell: pass => meter((pass.ms || 0) / most) },
    { title: "ops", number: true, cell: pass => pass.opsBefore === pass.opsAfter ? pass.opsAfter : `${pass.opsBefore} → ${pass.opsAfter}`,
      key: pass => pass.opsAfter - pass.opsBefore },
    { title: "remarks", number: true, cell: pass => (of.remarks || []).filter(remark => remark.pass === pass.name).length || "" },
  ], passes, choose, pass => pass === chosen);
  rows.id = "passes";
  choose(chosen);
  place.append(make("div", { class: "split" }, make("div", { class: "left" }, rows,
    of.compile ? make("p", { class: "soft" }, `all passes ${msText(of.compile.passes_ms)}, code ${msText(of.compile.code_ms)}`) : null), right));
}
panes.push({ name: "pipeline", title: "Pipeline", count: of => (of.passes || []).length, show: showPipeline });
