#!/usr/bin/env bash
# Proof of a change that should change nothing: plans (instructions, offsets) and kernels' LLVM text (symbols and
# comments aside) of two builds, for the presets, models/*.graph, the op table and random graphs:
#   same_code.sh OLD_BIN NEW_BIN      folders that hold train_gpt and dump_code
# Prints what differs and exits with 1. The graphs are OLD_BIN's. KEEP=FOLDER keeps the dumps; OLD_BIN's are made once.
# MASKED=1 leaves the plan's version out, and what people are shown of instructions: labels and origins.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
if (($# != 2)); then
  sed -n '2,6s/^# \?//p' "$0" >&2
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

# canonical FOLDER: for each file a line with its plan and one for each function, sorted, so that the kernels' order and
# names do not matter: comments go, symbols become @k.
canonical() {
  (cd "$1" && for file in *; do echo "=== $file"; cat "$file"; done) |
    sed -E "${masks[@]}" -e '/^;/d' -e 's/ *;.*$//' -e 's/@k[0-9]+_[A-Za-z0-9_]*/@k/g' -e 's/"k[0-9]+_[A-Za-z0-9_]*"/"k"/g' |
    awk '/^=== /{file = $2; next}
         /^define /{body = $0; inside = 1; next}
         inside && /^}/{print file "\t" body; inside = 0; next}
         inside{body = body " " $0; next}
         /^$/{next}
         {print file "\t" $0}' | sort
}

rm -rf "$work/new"
for side in old new; do
  [[ -d $work/$side ]] || "${!side}/dump_code" "$work/$side" "$root"/models/*.graph "$work"/graphs/*.graph >/dev/null
done
canonical "$work/old" >"$work/old.txt"
canonical "$work/new" >"$work/new.txt"
comm -3 "$work/old.txt" "$work/new.txt" | sed 's/^\t//' | cut -f1 | sort | uniq -c |
  while read -r lines name; do echo "$name: $lines lines differ"; done
all=$(ls "$work/old" | wc -l)
different=$(comm -3 "$work/old.txt" "$work/new.txt" | sed 's/^\t//' | cut -f1 | sort -u | wc -l)
echo "$different of $all graphs differ"
((different == 0))
