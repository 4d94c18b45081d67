// Memory as rectangles: instructions to the right, addresses of the arena upwards. The peak by layer, line and value.

function memoryStack(memory) {
  const colours = ["a", "d", "c", "update", "value", "scratch", "line"];
  return stack(memory.parts.map((part, i) => [part.what, part.bytes, part.what.includes("updates") ? "update" : part.what.includes("activations") ? "value"
    : part.what.includes("scratch") ? "scratch" : part.what.includes("gaps") ? "line" : colours[i]]), bytesText);
}

function showMemory(of, place, params) {
  const memory = of.memory;
  if (!memory) return place.append(make("p", {}, "Nothing was planned."));
  place.append(make("p", {}, make("b", { id: "planned" }, bytesText(memory.planned_bytes)), " planned, of which the arena has ",
    make("b", {}, bytesText(memory.arena_bytes)), memory.fullest ? [`; it is fullest at instruction ${memory.fullest.instruction + 1} of ${memory.fullest.instructions}, `,
      make("b", {}, memory.fullest.label), " ", sourceLink(memory.fullest.source)] : null, "."));
  place.append(...memoryStack(memory));
  const values = memory.arena, steps = memory.fullest ? memory.fullest.instructions : 1;
  const detail = make("div", { id: "value" });
  if (values.length) {
    const width = roomFor(1100), height = 420, left = 64, bottom = 26, px = step => left + step / steps * (width - left - 8);
    const py = offset => 8 + (1 - offset / memory.arena_bytes) * (height - bottom - 8);
    const rects = values.map((value, i) => {
      const rect = make("rect", { class: "value", x: px(value.first), y: py(value.offset + value.bytes), width: Math.max(.7, px(value.last + 1) - px(value.first)),
        height: Math.max(.7, py(value.offset) - py(value.offset + value.bytes)), style: `fill:var(--${value.kind})` });
      tipped(rect, `${value.label}\n${value.source}\n${bytesText(value.bytes)} at ${bytesText(value.offset)}, ${value.kind}\ninstructions ${value.first + 1} to ${value.last + 1}`);
      rect.addEventListener("click", () => {
        for (const other of rects) other.classList.toggle("on", other === rect);
        tell(value);
      });
      if (String(i) === params.value) rect.classList.add("on");
      return rect;
    });
    const x = px(memory.fullest.instruction + .5);
    const axis = [0, .25, .5, .75, 1].map(share => [make("line", { class: "axis", x1: left, x2: width - 8, y1: py(share * memory.arena_bytes), y2: py(share * memory.arena_bytes) }),
      make("text", { x: left - 6, y: py(share * memory.arena_bytes) + 4, "text-anchor": "end", class: "soft" }, bytesText(share * memory.arena_bytes))]);
    const drawing = make("svg", { id: "arena", viewBox: `0 0 ${width} ${height}`, style: "width:100%", role: "img",
      "aria-label": "the arena over the step" }, axis, rects, make("line", { x1: x, x2: x, y1: 4, y2: height - bottom, stroke: "var(--bad)", "stroke-dasharray": "4 3" }),
      make("text", { x: x > width / 2 ? x - 5 : x + 5, y: 16, "text-anchor": x > width / 2 ? "end" : "start", class: "halo" }, "fullest"),
      make("text", { x: width / 2, y: height - 6, "text-anchor": "middle", class: "soft" }, `instructions 1 to ${steps}`));
    place.append(make("h2", {}, "The arena over the step"), make("div", { class: "legend" }, [["value", "activations and their gradients"], ["update", "what updates wait for"], ["scratch", "scratch"]]
      .map(([kind, text]) => make("span", {}, make("i", { style: `background:var(--${kind})` }), text))), make("div", { class: "canvas" }, drawing), detail);
  }
  function tell(value) {
    const row = (of.costs || { rows: [] }).rows.findIndex(each => each.instructions.includes(value.first));
    detail.replaceChildren(facts({ value: value.label, line: sourceLink(value.source), bytes: bytesText(value.bytes), "lives in": `${value.kind}, instructions ${value.first + 1} to ${value.last + 1}`,
      "made by": row >= 0 ? linkTo("kernels", { row }, of.costs.rows[row].label) : null }));
  }
  const sumOf = rows => rows.reduce((all, row) => all + row.bytes, 0) || 1;
  const list = (title, rows, linked) => {
    if (!rows.length) return [make("h2", {}, title), make("p", {}, "It holds nothing.")];
    const sum = sumOf(rows);
    return [make("h2", {}, title), table([{ title: "bytes", number: true, cell: row => bytesText(row.bytes), key: row => row.bytes },
      { title: "", bar: true, cell: row => meter(row.bytes / sum) }, { title: "what", wide: true, cell: row => [linked ? sourceLink(row.key) : breakable(row.key), row.count > 1 ? make("span", { class: "soft" }, ` ×${row.count}`) : null], key: row => row.key },
      { title: "", wide: true, cell: row => splitPlace(row.note) ? sourceLink(row.note) : row.note }], rows.slice(0, 60))];
  };
  place.append(make("p", { class: "soft" }, "At the peak: states, inputs, outputs and what the arena holds."), ...list("By layer", memory.by_layer, false), ...list("The arena by source line", memory.by_line, true), ...list("By value", memory.by_value, false));
}
panes.push({ name: "memory", title: "Memory", show: showMemory });
