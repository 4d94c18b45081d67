// What it was, how long it took, what dominates, and the dearest things with what to do about them.

function card(value, name, place) {
  const element = make("div", { class: "card" }, make("b", {}, value), make("span", {}, name));
  return place ? pressable(element, () => go(...place)) : element;
}

/// Rows of the step with measured times where it ran, else with the least times that the limits allow.
function timedRows(of) {
  const measured = new Map(((of.profile || {}).rows || []).map(row => [row.pattern, row]));
  return ((of.costs || {}).rows || []).map((row, i) => {
    const ran = measured.get(row.pattern);
    return { ...row, number: i, measured: ran ? ran.ms : null, least: ran ? ran.least_ms : row.least_ms,
      time: ran ? ran.ms : row.least_ms };
  });
}

/// Whose limits the least times follow from.
function limitsOwner(of) {
  return of.limits && of.limits.machine ? `the limits of an ${of.limits.machine}, as its maker states them,` : "this machine's limits";
}

/// The dearest things, each with what to do in words.
function advices(of) {
  const list = [];
  const rows = timedRows(of).sort((a, b) => b.time - a.time), sum = rows.reduce((all, row) => all + row.time, 0) || 1;
  const limits = of.limits || {};
  for (const row of rows.slice(0, 3).filter(row => row.time > 0)) {
    const share = row.measured && row.least ? row.least / row.measured : null;
    let what = row.bound_by === "arithmetic"
      ? (limits.bf16_product_flops > 1.1 * limits.product_flops ? "It is bound by arithmetic, and this machine multiplies bf16 faster: --dtype=bf16."
        : "It is bound by arithmetic: less of it needs another model, or a faster machine.")
      : "It is bound by memory: what reads and writes the same values in one kernel, or in 16 bits, moves less.";
    if (share !== null && share < 0.4) what = "It reaches little of what the machine allows; its code is worth a look.";
    list.push({ title: row.label, text: `${row.measured !== null ? msText(row.time) : "at least " + msText(row.time)} a step, ` +
      `${percent(row.time / sum)} of the ${row.measured !== null ? "instructions" : "least time"}` +
      (share !== null ? `, ${percent(share)} of the limit` : "") + ". " + what, place: ["kernels", { row: row.number }] });
  }
  const missed = (of.remarks || []).filter(remark => remark.kind === "missed" && remark.bytes > 0)[0];
  if (missed) list.push({ title: "not fused", text: missed.text + (missed.count > 1 ? ` (×${missed.count})` : "") +
    `. It costs ${bytesText(missed.bytes)} a step.`,
    place: ["pipeline", { pass: missed.pass }], source: missed.file && `${missed.file}:${missed.line}` });
  const line = ((of.memory || {}).by_line || [])[0];
  if (line) list.push({ title: "the peak of memory", text: `${bytesText(line.bytes)} of ${bytesText(of.memory.planned_bytes)} ` +
    "belong to this line. --remat=block or -fmemory-limit= computes values again instead of keeping them.",
    place: ["memory", {}], source: line.key });
  return list;
}

function diagnosticsList(of) {
  return (of.diagnostics || []).map(each => {
    const place = each.file && each.line ? `${each.file}:${each.line}` : null;
    const lines = place && of.sources[each.file] !== undefined ? of.sources[each.file].split("\n") : [];
    const line = lines[each.line - 1] || "";
    const begin = Math.max(0, each.column - 60);
    return make("div", { class: "advice " + (each.severity === "error" ? "bad" : "") },
      make("b", { class: each.severity === "error" ? "bad" : "warn" }, each.severity + ": "), each.message,
      place ? make("p", {}, sourceLink(place)) : null,
      line ? make("pre", { class: "scroll" }, line.slice(begin, begin + 160) + "\n" +
        " ".repeat(Math.max(0, each.column - 1 - begin)) + "^") : null);
  });
}

function showSummary(of, place) {
  const failed = (of.diagnostics || []).some(each => each.severity === "error");
  const compile = of.compile;
  if (failed) place.append(make("h2", { class: "bad" }, compile ? "It ended with an error" : "It did not compile"));
  place.append(...diagnosticsList(of));
  if (failed && !compile && of.stages && of.stages.length)
    place.append(make("p", {}, `Passes ran up to `, linkTo("pipeline", {}, make("b", {}, of.stages[of.stages.length - 1].name)), "."));
  if (!compile) {
    if (!failed) place.append(make("p", {}, "Nothing was compiled."));
    return;
  }
  const profile = of.profile, training = trainingOf(of);
  const listed = compile.code_steps.reduce((all, [, ms]) => all + ms, compile.passes_ms);
  place.append(make("div", { class: "cards", id: "figures" },
    card(`${compile.captured_ops} → ${compile.kernels}`, "ops → kernels", ["graph"]),
    card(compile.compiled_kernels, "compiled kernels", ["kernels"]),
    card(compile.matmuls, "matrix products", ["kernels"]),
    card(bytesText(compile.planned_bytes), "memory planned", ["memory"]),
    card(bytesText(compile.arena_bytes), "of it the arena", ["memory"]),
    card(msText(Math.max(compile.total_ms, listed)), "to compile", ["pipeline"]),
    profile && profile.steps ? card(msText(profile.step_ms), "a step, measured", ["kernels"]) : null,
    training && known(training.summary.tokens_per_second)
      ? card(digits(training.summary.tokens_per_second, 4), "tokens a second", ["run"]) : null));
  place.append(make("h2", {}, "Time to compile"), ...stack([["passes", compile.passes_ms, "a"],
    ...compile.code_steps.map(([name, ms], i) => [name, ms, ["b", "c", "d"][i % 3]]),
    ["other", compile.total_ms - listed, "scratch"]], msText));
  if (profile && profile.steps) {
    const colours = ["matmul", "attention", "kernel", "copy", "scratch"];
    place.append(make("h2", {}, "Time of a step"), ...stack(profile.where.map((part, i) => [part.what, part.ms, colours[i]]), msText));
  }
  if (of.memory) place.append(make("h2", {}, "Memory"), ...memoryStack(of.memory));
  place.append(make("h2", {}, "The dearest things"), ...advices(of).map(each => make("div", { class: "advice" },
    linkTo(each.place[0], each.place[1], make("b", {}, each.title)), " ", each.source ? sourceLink(each.source) : null,
    make("p", {}, each.text))));
  place.append(make("h2", {}, "What it was"), facts({ input: of.title, command: of.command.length ? make("code", {}, of.command.join(" ")) : null,
    target: `${compile.target}, -O${compile.level}, ${counted(compile.threads, "thread")}`, cache: compile.cache,
    "computed again": compile.recomputed,
    limits: of.limits && of.limits.product_flops ? `${of.limits.machine ? `of an ${of.limits.machine}, as its maker states them: ` : ""}${rateText(of.limits.product_flops, "FLOP/s")} in f32, ` +
      `${rateText(of.limits.bf16_product_flops, "FLOP/s")} in bf16, ${rateText(of.limits.bytes_per_second, "B/s")}` : null }));
  place.append(make("p", { class: "keys" }, "Keys: ", make("kbd", {}, "1"), "–", make("kbd", {}, "9"), " panes, ", make("kbd", {}, "/"),
    " search, ", make("kbd", {}, "t"), " light or dark, ", make("kbd", {}, "Esc"), " closes the source."));
}
panes.push({ name: "summary", title: "Summary", show: showSummary });
