// Kernels and products: what each costs and takes, the roofline, the fused ops with their lines, the emitted text, and
// the neighbours that it did not join.

/// The text of one function of an assembly or CUDA text, from the comments before it to the next one.
function codeOf(of, symbol) {
  if (!of.code) return null;
  const lines = of.code.text.split("\n");
  const begins = line => line.startsWith(symbol + ":") || new RegExp(`\\b(KERNEL\\(|void )${symbol}\\b`).test(line);
  let start = lines.findIndex(begins);
  if (start < 0) return null;
  const assembly = lines[start].startsWith(symbol + ":");
  const ends = assembly ? line => /^\s*\.size\s/.test(line) : line => line === "}";
  let end = start;
  while (end < lines.length - 1 && !ends(lines[end])) ++end;
  while (start > 0 && /^(#|\/\/|;)/.test(lines[start - 1])) --start;
  return lines.slice(start, end + 1).join("\n");
}

function roofline(of, rows, choose) {
  const limits = of.limits;
  if (!limits || !limits.product_flops || !limits.bytes_per_second) return null;
  const width = roomFor(640), height = 260, left = 60, bottom = 34, top = 12, right = 14;
  const points = rows.filter(row => row.flops > 0 && row.bytes > 0 && row.time > 0)
    .map(row => ({ row, x: row.flops / row.bytes, y: row.flops / row.time * 1e3 }));
  if (!points.length) return null;
  // Kernels' arithmetic is f32; a second roof where 16-bit matmuls have a higher one.
  const roofs = [[limits.product_flops, "f32"], [limits.bf16_product_flops, "bf16"]].filter(([rate], i) => i === 0 || rate > 1.1 * limits.product_flops);
  const peak = Math.max(...roofs.map(([rate]) => rate)), xs = points.map(point => point.x), ys = points.map(point => point.y);
  const [x0, x1] = [Math.min(...xs, 0.1) / 2, Math.max(...xs, 10 * peak / limits.bytes_per_second) * 2];
  const [y0, y1] = [Math.min(...ys, peak / 1e3) / 2, Math.max(peak, ...ys) * 2];
  const scale = (value, from, to, a, b) => a + (Math.log(value) - Math.log(from)) / (Math.log(to) - Math.log(from)) * (b - a);
  const px = value => scale(value, x0, x1, left, width - right), py = value => scale(value, y0, y1, height - bottom, top);
  const ridge = peak / limits.bytes_per_second, start = Math.max(x0, y0 / limits.bytes_per_second);
  const parts = [make("line", { class: "axis", x1: left, y1: height - bottom, x2: width - right, y2: height - bottom }),
    make("line", { class: "axis", x1: left, y1: top, x2: left, y2: height - bottom }),
    roofs.map(([rate]) => make("polyline", { points: `${px(start)},${py(start * limits.bytes_per_second)} ${px(rate / limits.bytes_per_second)},${py(rate)} ${px(x1)},${py(rate)}`,
      fill: "none", stroke: "var(--accent)", "stroke-width": 2 })),
    make("text", { x: (left + width) / 2, y: height - 4, "text-anchor": "middle", class: "soft" }, "FLOP a byte")];
  // The roofs' names are drawn over the points, which lie close to the roofs.
  const names = [...roofs.map(([rate, type]) => make("text", { x: roofs.length > 1 ? width - right : px(ridge), y: py(rate) - 8,
    "text-anchor": roofs.length > 1 ? "end" : "middle", class: "soft halo" }, rateText(rate, "FLOP/s") + (roofs.length > 1 ? " in " + type : ""))),
    make("text", { x: px(Math.sqrt(start * ridge)) - 10, y: py(Math.sqrt(start * ridge) * limits.bytes_per_second) - 8, "text-anchor": "end", class: "soft halo" },
      rateText(limits.bytes_per_second, "B/s"))];
  for (let power = Math.ceil(Math.log10(x0)); power <= Math.floor(Math.log10(x1)); ++power)
    parts.push(make("text", { x: px(10 ** power), y: height - bottom + 14, "text-anchor": "middle", class: "soft" }, String(10 ** power)));
  for (let power = Math.ceil(Math.log10(y0)); power <= Math.floor(Math.log10(y1)); ++power)
    parts.push(make("text", { x: left - 6, y: py(10 ** power) + 4, "text-anchor": "end", class: "soft" }, rateText(10 ** power, "")));
  const most = Math.max(...points.map(point => point.row.time));
  for (const point of points)
    parts.push(pressable(tipped(make("circle", { cx: px(point.x), cy: py(point.y), r: 3 + 9 * Math.sqrt(point.row.time / most),
      fill: `var(--${colourOfRow(point.row)})`, stroke: "var(--ink)", "stroke-opacity": .5, role: "button", "aria-label": point.row.label }),
    `${point.row.label}\n${digits(point.x, 2)} FLOP a byte, ${rateText(point.y, "FLOP/s")}`), () => choose(point.row)));
  return make("div", { class: "canvas", id: "roofline" }, make("svg", { viewBox: `0 0 ${width} ${height}`, style: `width:100%;max-width:${width}px` }, parts, names));
}

function colourOfRow(row) {
  return row.label.includes(": attention") ? "attention" : { matmul: "matmul", kernel: "kernel", copy: "copy", fill: "copy", custom: "custom" }[row.category] || "op";
}

/// Of the kernels of a row, the fewest and the most: calls of one name may have several kernels.
function registersOf(of, row) {
  const uses = row.instructions.map(i => instructionKernel(of, of.plan.instructions[i])).map(plan => plan && of.uses.kernels[plan.symbol]).filter(Boolean);
  return uses.length ? [Math.min(...uses.map(use => use.registers)), Math.max(...uses.map(use => use.registers))] : null;
}

function instructionKernel(of, instruction) {
  return known(instruction.kernel) ? of.plan.kernels[instruction.kernel] : null;
}

/// What the machine code of a kernel takes of a GPU, in words; null where a target has no such figures.
function useText(of, symbol) {
  if (!of.uses || of.uses.unknown) return of.uses ? "not known: " + of.uses.unknown.split("\n")[0] : null;
  const use = of.uses.kernels[symbol];
  return use ? `${counted(use.registers, "register")} of a thread, ${use.stack_bytes ? bytesText(use.stack_bytes) + " that found no room in them" : "none spilled"}` : null;
}

/// How a GPU launches it: blocks, threads, shared memory.
function launchText(of, launch, symbol) {
  if (!launch.grid) return null;
  const use = of.uses && of.uses.kernels[symbol], shared = launch.shared_bytes + (use ? use.shared_bytes : 0);
  const size = sides => sides.filter((side, i) => i === 0 || side > 1 || sides.slice(i).some(later => later > 1)).join(" × ");
  return `${size(launch.grid)} blocks of ${size(launch.block)} threads` + (shared ? `, each with ${bytesText(shared)} of shared memory` : "") +
    (launch.cluster && launch.cluster.some(side => side > 1) ? `, in clusters of ${size(launch.cluster)}` : "");
}

function bufferText(of, id) {
  if (id < 0 || !of.plan.buffers[id]) return null;
  const buffer = of.plan.buffers[id];
  const tensors = { input: of.plan.inputs, output: of.plan.outputs, state: of.plan.states }[buffer.space];
  return `${tensors ? buffer.space + " " + tensors[buffer.index].name : buffer.space + " +" + buffer.offset} (${bytesText(buffer.bytes)})`;
}

function kernelDetail(of, row) {
  const first = of.plan.instructions[row.instructions[0]];
  const plan = first && instructionKernel(of, first), kernel = plan && (of.kernels || []).find(each => each.symbol === plan.symbol);
  const detail = make("div", { class: "detail", id: "kernel" }, make("h2", {}, breakable(row.label)));
  const sources = [...new Map(row.instructions.flatMap(i => of.plan.instructions[i].sources).map(at => [`${at.file}:${at.line}`, at])).keys()];
  const args = first && first.segments && first.segments.length === 1 ? first.segments[0].args : first && first.op === "matmul" ? [first.a, first.b, first.c] : [];
  detail.append(facts({
    "what it is": row.category + (plan ? " " + plan.symbol : ""),
    calls: `${row.calls} a step` + (kernel && kernel.count > 1 ? `; ${counted(kernel.count, "kernel")} share its code` : ""),
    arithmetic: row.flops ? rateText(row.flops, "FLOP") : "none", traffic: bytesText(row.bytes),
    "least time": row.least ? `${msText(row.least)}, bound by ${row.bound_by}` : null,
    measured: row.measured !== null ? `${msText(row.measured)} a step` : null,
    "share of the limit": row.measured && row.least ? percent(row.least / row.measured) : null,
    "iteration space": kernel && kernel.space ? kernel.space.join(" × ") + ", " + counted(kernel.stages, "pass").replace("passs", "passes") : null,
    "threads take": first && known(first.granularity) ? `${counted(first.granularity, "item")} at a time, of ${first.segments.reduce((all, segment) => all + segment.extent, 0)}` +
      (first.segments.length > 1 ? ` in ${first.segments.length} sets of tensors` : "") : null,
    launch: first && plan ? launchText(of, first, plan.symbol) : null,
    registers: plan ? useText(of, plan.symbol) : null,
    product: first && first.product ? `${first.product.m} × ${first.product.n} × ${first.product.k}, ${first.product.a.dtype}` : null,
    memory: args.length && args.length <= 24 ? args.map(id => bufferText(of, id)).filter(Boolean).join(", ") : null,
    lines: sources.length ? make("span", {}, sources.slice(0, 24).map((place, i) => [i ? ", " : "", sourceLink(place)]),
      sources.length > 24 ? ` and ${sources.length - 24} more` : "") : null,
    graph: linkTo("graph", { find: row.label.split(/[+:, ]/)[0].replace(/.*\*\./, "") }, "show its boxes") }));
  if (kernel && kernel.ops && kernel.ops.length) {
    const lines = kernel.ops.map(([name, place, value]) => ({ name, place, value }));
    detail.append(make("details", { open: lines.length <= 16 }, make("summary", {}, `${counted(lines.length, "fused op")}`), table([
      { title: "op", cell: op => make("code", {}, op.name) }, { title: "value", wide: true, cell: op => op.value }, { title: "line", cell: op => sourceLink(op.place) }], lines)));
  }
  const apart = (of.remarks || []).filter(remark => remark.kind === "missed" && patternOf(remark.text).startsWith(patternOf(row.label).replace(/: .*/, "") + " "));
  if (apart.length) detail.append(make("details", { open: true }, make("summary", {}, `neighbours that it did not join (${apart.length})`), apart.slice(0, 20).map(remarkRow)));
  const code = plan && codeOf(of, plan.symbol);
  if (code) {
    const lines = code.split("\n");
    detail.append(make("details", { open: true, id: "code" }, make("summary", {}, `${of.code.form} of ${plan.symbol}, ${counted(lines.length, "line")}`),
      make("div", { class: "canvas" }, make("pre", { style: "padding:8px" }, lines.length > 4000 ? lines.slice(0, 4000).join("\n") + "\n…" : code))));
  }
  return detail;
}

function showKernels(of, place, params) {
  if (!of.costs) return place.append(make("p", {}, "Nothing was planned."));
  const rows = timedRows(of), sum = rows.reduce((all, row) => all + row.time, 0) || 1, ran = rows.some(row => row.measured !== null);
  const right = make("div", { class: "right" });
  const timed = rows.some(row => row.time > 0);
  const sorted = [...rows].sort((x, y) => (timed ? y.time - x.time : y.bytes - x.bytes));
  const chosen = rows[params.row] || sorted[0];
  const choose = row => right.replaceChildren(kernelDetail(of, row));
  const unit = rows.some(row => row.time >= 0.1) ? "ms" : "µs", timeCell = time => time ? time < 0.01 ? digits(time, 2) : time.toFixed(3) : "–";
  const list = table([
    { title: "what", wide: true, cell: row => [make("span", { class: "dot", style: `display:inline-block;margin-right:6px;background:var(--${colourOfRow(row)})` }),
      breakable(row.label), row.calls > 1 ? make("span", { class: "soft" }, ` ×${row.calls}`) : null], key: row => row.label },
    { title: (ran ? "" : "least ") + unit, number: true, cell: row => timeCell(row.time * (unit === "ms" ? 1 : 1000)), key: row => row.time },
    { title: "share", number: true, cell: row => timed ? percent(row.time / sum) : percent(row.bytes / rows.reduce((all, each) => all + each.bytes, 1)), key: row => row.time },
    of.uses && Object.keys(of.uses.kernels).length ? { title: "registers", number: true, cell: row => [...new Set(registersOf(of, row) || [""])].join("–") || "–",
      key: row => (registersOf(of, row) || [0, 0])[1] } : null,
    ran ? { title: "limit", number: true, cell: row => row.measured && row.least ? percent(row.least / row.measured) : "–",
      key: row => row.measured ? row.least / row.measured : -1 } : null,
    { title: "bound by", cell: row => row.least ? row.bound_by : "–", key: row => row.bound_by },
    { title: "FLOP", number: true, cell: row => row.flops ? rateText(row.flops, "") : "–", key: row => row.flops },
    { title: "traffic", number: true, cell: row => bytesText(row.bytes), key: row => row.bytes },
  ].filter(Boolean), sorted, choose, row => row === chosen);
  list.id = "rows";
  list.style.maxHeight = "62vh";
  list.style.overflow = "auto";
  if (chosen) choose(chosen);
  place.append(make("p", { class: "soft" }, `${counted(of.plan.instructions.length, "instruction")} of ${counted(of.plan.kernels.length, "kernel")}; equal layers in one row. ` +
    (ran ? `Measured over ${counted(of.profile.steps, "step")}.` : timed ? `Nothing ran: times are the least that ${limitsOwner(of)} allow (--run, --bench measure).`
    : "Nothing ran, and no limits of this target are known: shares are of the traffic.")));
  place.append(make("div", { class: "split" }, make("div", { class: "left", style: "flex:1 1 50%" }, list, make("h3", {}, "Roofline"),
    roofline(of, rows, choose) || make("p", { class: "soft" }, "There are no limits of this target to compare with.")), right));
}
panes.push({ name: "kernels", title: "Kernels", count: of => of.plan ? of.plan.kernels.length : 0, show: showKernels });
