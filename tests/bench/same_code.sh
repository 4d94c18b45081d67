#!/usr/bin/env bash
# Proof of a change that should change nothing: plans (instructions, offsets) and kernels' text (LLVM's and CUDA C++;
# symbols and comments aside) of two builds, for x86-64, v3, v4, sm_80 and sm_90a, of the presets, models/*.graph, the
# op table and random graphs:
#   same_code.sh OLD_BIN NEW_BIN      folders that hold train_gpt and dump_code
# Prints what differs and exits with 1. The graphs are OLD_BIN's. KEEP=FOLDER keeps the dumps; OLD_BIN's are made once.
# MASKED=1 leaves the plan's version out, and what people are shown of instructions: labels and origins.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
if (($# != 2)); then
  sed -n '2,7s/^# \?//p' "$0" >&2
  exit 2
fi
old=$1 new=$2
work=${KEEP:-$(mktemp -d)}
mkdir -p "$work/graphs"
[[ -n ${KEEP:-} ]] || trap 'rm -rf "$work"' EXIT

if [[ ! -d $work/old ]]; then
  seq 1 60000 >"$work/numbers.txt"
  for model in baby char gpt2; do
    "$old/train_gpt" --model "$model" --data "$work/numbers.txt" --seq 64 --batch 2 --steps 1 \
      --emit-graph="$work/graphs/$model.graph" >/dev/null 2>&1
  done
  "$old/dump_code" --graphs "$work/graphs"
fi

masks=()
if [[ -n ${MASKED:-} ]]; then
  text='"([^"\\]|\\.)*"'
  masks=(-e 's/"version":[0-9]+,//' -e "s/\"label\":$text,//g" -e "s/\"from\":$text,\"scope\":$text,\"number\":[0-9]+,//g")
fi

# with_names FILE...: the files' lines, a line with the name in front of each file's.
with_names() {
  awk 'FNR == 1 {print "=== " FILENAME} {print}' "$@"
}

# canonical FOLDER: for each file a line with its plan and one for each function, sorted, so that the kernels' order and
# names do not matter: comments go, symbols become k.
canonical() {
  (
    cd "$1"
    with_names *.cpu_* | sed -E -e '/^;/d' -e 's/ *;.*$//' -e 's/@k[0-9]+_[A-Za-z0-9_]*/@k/g'
    with_names *.cuda_* | sed -E -e 's,(^| +)//.*$,,' -e 's/^KERNEL\(k[0-9]+_[A-Za-z0-9_]*/KERNEL(k/'
  ) | sed -E "${masks[@]}" -e 's/"k[0-9]+_[A-Za-z0-9_]*"/"k"/g' |
    awk '/^=== /{file = $2; next}
         /^[^ ].*\{$/{body = $0; inside = 1; next}
         inside && /^}/{print file "\t" body; inside = 0; next}
         inside{body = body " " $0; next}
         /^$/{next}
         {print file "\t" $0}' | LC_ALL=C sort
}

rm -rf "$work/new"
for side in old new; do
  [[ -d $work/$side ]] || printf '%s\n' "$root"/models/*.graph "$work"/graphs/*.graph |
    xargs -P "$(nproc)" -n 100 "${!side}/dump_code" "$work/$side"
  canonical "$work/$side" >"$work/$side.txt"
done
LC_ALL=C comm -3 "$work/old.txt" "$work/new.txt" | sed 's/^\t//' | cut -f1 | sort | uniq -c >"$work/differences.txt"
while read -r lines name; do echo "$name: $lines lines differ"; done <"$work/differences.txt"

# graphs FILES: how many graphs these dumps are of.
graphs() {
  sed 's/\.[^.]*$//' | sort -u | wc -l
}
different=$(awk '{print $2}' "$work/differences.txt" | graphs)
echo "$different of $(ls "$work/old" | graphs) graphs differ over $(ls "$work/old" | sed 's/.*\.//' | sort -u | paste -sd ' ')"
((different == 0))
