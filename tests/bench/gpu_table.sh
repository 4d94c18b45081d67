#!/usr/bin/env bash
# `gpu.sh table`: results as Markdown and JSON: gpu_table.sh RESULTS LENGTH. Writes table.md and table.json into RESULTS.
set -u
results=$1 length=$2
# The better of the rounds, by machine: tokens a second, and tcc's share beside the best peer at that batch.
speeds() {
  awk -F'\t' -v length_="$length" -v json="$results/table.json" '
    FILENAME ~ /machines\.tsv$/ { describe[$1] = $2; next }
    $1 ~ /^speed_/ && $2 == "ok" && $5 > 0 { split($1, part, "_"); if (!($4 in places)) { places[$4] = 1; place[k++] = $4 }
      key = $4 SUBSEP part[3] SUBSEP part[4]; if (!(key in ms) || $5 < ms[key]) { ms[key] = $5; bytes[key] = $6 }
      if (!(part[4] in seen)) { seen[part[4]] = 1; order[n++] = part[4] } if (!(part[3] in known)) { known[part[3]] = 1; who[m++] = part[3] } }
    END { printf "[" > json
      for (p = 0; p < k; ++p) { at = place[p]
        print (describe[at] ? describe[at] : at) "\n\n| GPT-2 124M bf16, T " length_ " | ms a step | tokens/s | GB | beside the best peer |\n| --- | --- | --- | --- | --- |"
        for (b = 0; b < n; ++b) for (w = 0; w < m; ++w) { key = at SUBSEP who[w] SUBSEP order[b]; if (!(key in ms)) continue
          best = 0; for (o = 0; o < m; ++o) { peer = at SUBSEP who[o] SUBSEP order[b]
            if (who[o] != "tcc" && peer in ms && (!best || ms[peer] < best)) best = ms[peer] }
          speed = order[b] * length_ / ms[key] * 1000
          printf "| B %s, %s | %.3f | %.0f | %.2f | %s |\n", order[b], who[w], ms[key], speed, bytes[key] / 1e9, who[w] == "tcc" && best ? sprintf("%.2f", best / ms[key]) : ""
          printf "%s{\"machine\": \"%s\", \"batch\": %s, \"who\": \"%s\", \"ms\": %s, \"tokens_per_second\": %.1f, \"bytes\": %s}", sep, at, order[b], who[w], ms[key], speed, bytes[key] > json; sep = ",\n " }
        print "" }
      print "]" > json }' "$results/machines.tsv" "$results/done.tsv"
}

# What failed, with the end of what it wrote, and what was cut short and is not done since.
troubles() {
  local name
  while IFS=$'\t' read -r name _; do
    printf 'Failed: %s\n\n' "$name"
    grep -v '^[[:space:]]*$' "$results/$name/log.txt" | tail -5 | cut -c1-300 | sed 's/^/    /'
    echo
  done < <(awk -F'\t' '$2 == "failed"' "$results/done.tsv")
  awk -F'\t' 'FILENAME ~ /done\.tsv$/ { done[$1] = 1; next } !($1 in done) { ++times[$1]; last[$1] = $4 " after " $2 " s" }
    END { for (name in times) print "Cut short: " name ", " times[name] " times, last: " last[name] }' "$results/done.tsv" "$results/cuts.tsv"
}

checks() {
  awk -F'\t' '$2 == "ok" && $1 !~ /^speed_/ { print "- " $1 " (" $3 " s): " $5 }' "$results/done.tsv"
}

[ -s "$results/done.tsv" ] || { echo "gpu.sh: nothing was measured" >&2; exit 1; }
{ speeds; checks; echo; troubles; } | tee "$results/table.md"
