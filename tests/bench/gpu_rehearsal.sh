#!/usr/bin/env bash
# gpu.sh from packing to its table on the machine of stand-ins, small: so that no minute on a GPU goes into its mistakes.
#   gpu_rehearsal.sh BUILD DRIVER NVRTC CUBLASLT     the stand-ins' files
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TCC_CUDA_DRIVER=$2 TCC_NVRTC=$3 TCC_CUBLASLT=$4 TCC_CUDA_MACHINE=late NO_PEER=1 STEPS=5
fail() { echo "gpu_rehearsal: $1" >&2; exit 1; }
has() { grep -q -- "$2" "$1" || { cat "$1" >&2; fail "$1 has no \`$2\`"; }; }

"$here/gpu.sh" pack "$build" "$folder/gpu" --small
script=$folder/gpu/gpu.sh results=$folder/gpu/results
for command in first parity speed profile attention; do "$script" $command || fail "gpu.sh $command"; done
has "$results/first.log" "6 losses are the CPU's within 0.001"
has "$results/first.log" "captured and not: equal bits"
has "$results/first.log" "each value in memory of its own: equal bits"
has "$results/first.log" "another process: equal bits"
has "$results/parity.log" "parity skipped"
[ "$(wc -l <"$results/speed.tsv")" = 4 ] || fail "two batches in two rounds are four measurements"
"$script" speed && [ "$(wc -l <"$results/speed.tsv")" = 4 ] || fail "what is measured is not measured again"
has "$results/profile_b1.txt" "GB/s"
# A peer's figures, as the GPU's machine would have them.
printf '1\tcompile\t1\t1000000\t5e9\n2\teager\t1\tfailed\t0\n' >>"$results/speed.tsv"
"$script" table
has "$results/table.md" "| B 1, tcc |"
has "$results/table.md" "| B 1, compile | 1000000.000 |"
has "$results/table.json" '"who": "tcc"'
# What is wrong is said, and is the exit status: losses that are others, bits that are others.
sed -i 's/"loss":\([0-9]\)/"loss":9\1/' "$folder/gpu/data/baby.jsonl"
if "$script" first >"$folder/wrong.txt" 2>&1; then fail "wrong losses pass"; fi
has "$folder/wrong.txt" "FAILED: the small model's losses"
if "$folder/gpu/gpu.sh" >"$folder/usage.txt" 2>&1; then fail "no command is no usage error"; fi
has "$folder/usage.txt" "FOLDER/gpu.sh first"
echo "gpu.sh runs from beginning to end"
