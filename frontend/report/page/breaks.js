// Graph breaks, what was compiled again, and what the cache had: where, why, what it costs, what to write instead.

function showBreaks(of, place) {
  const cache = of.compile && of.compile.cache;
  if (cache) {
    const [head, ...rest] = cache.split(": ");
    place.append(make("h2", {}, "Cache of compiled steps"), make("div", { class: "advice" },
      make("b", { class: head === "hit" ? "good" : "" }, head), rest.length ? ": " + rest.join(": ") : ""));
  }
  else place.append(make("h2", {}, "Cache of compiled steps"), make("p", {}, "It was not asked."));
  const breaks = of.breaks;
  place.append(make("h2", {}, "Graph breaks"));
  if (!breaks || !breaks.breaks.length) place.append(make("p", { id: "breaks" }, "No value is asked for in the middle of the step."));
  else {
    place.append(make("p", { id: "breaks" }, `${counted(breaks.breaks.length, "place")}` +
      (known(breaks.with_breaks_ms) ? `; a call takes ${msText(breaks.with_breaks_ms)}, as one step ${msText(breaks.one_step_ms)}` : "")));
    for (const site of breaks.breaks)
      place.append(make("div", { class: "advice site" }, make("b", {}, site.why), " ", sourceLink(site.file && `${site.file}:${site.line}`),
        site.source ? make("pre", { class: "scroll" }, site.source) : null,
        facts({ "what it costs": [site.kernels ? counted(site.kernels, "kernel") + " not fused across it" : "", site.ops_again ? counted(site.ops_again, "op") + " computed again" : "",
          site.bytes_to_host ? bytesText(site.bytes_to_host) + " to the host" : "", known(site.ms) && site.ms > 0 ? msText(site.ms) : ""].filter(Boolean).join(", ") || "not measured",
          times: site.times || null, instead: site.instead })));
  }
  place.append(make("h2", {}, "Compiled again"));
  const again = (breaks || { recompiles: [] }).recompiles;
  if (!again.length) place.append(make("p", {}, "Nothing was compiled more than once."));
  else place.append(table([{ title: "times", number: true, cell: row => row.times }, { title: "why", wide: true, cell: row => row.reason }], again));
}
panes.push({ name: "breaks", title: "Breaks and cache", count: of => of.breaks ? of.breaks.breaks.length + of.breaks.recompiles.length : 0, show: showBreaks });
