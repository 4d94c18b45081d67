#!/usr/bin/env bash
# gpu.sh from packing to its table on the machine of stand-ins, small: so that no minute on a GPU goes into its mistakes.
#   gpu_rehearsal.sh BUILD DRIVER NVRTC CUBLASLT     the stand-ins' files
# PyTorch has a stand-in too: a package that says it has CUDA, and in torch_gpt.py's place a program that answers with the
# weights, tokens and losses of train_gpt on the CPU, and fails for one of its flags.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TCC_CUDA_DRIVER=$2 TCC_NVRTC=$3 TCC_CUBLASLT=$4 TCC_CUDA_MACHINE=late STEPS=5
fail() { echo "gpu_rehearsal: $1" >&2; exit 1; }
has() { grep -q -- "$2" "$1" || { cat "$1" >&2; fail "$1 has no \`$2\`"; }; }

make_peer() { # of gpu.sh's small GPT-2 at batch 1
  mkdir -p "$folder/peer" "$folder/torch"
  python3 - "$folder/peer" $((50 * 16 + 1)) <<'PYTHON'
import array, sys
folder, count = sys.argv[1], int(sys.argv[2])
text = bytes("".join(f"step {i * 31 % 97}, " for i in range(count)), "ascii")[:count]
open(f"{folder}/text.txt", "wb").write(text + text)
array.array("H", list(text)).tofile(open(f"{folder}/tokens.bin", "wb"))
PYTHON
  local train="$build/bin/train_gpt --model baby --layers=1 --heads=2 --width=16 --seq 16 --batch 1 --vocab=256 --order=sequential
    --schedule=constant --lr=3e-4 --data $folder/peer/text.txt --device=cpu --quiet"
  $train --steps=0 --save="$folder/peer"
  $train --steps=50 --json="$folder/peer/losses.jsonl"
  cat >"$folder/torch/__init__.py" <<'PYTHON'
class cuda:
    is_available = staticmethod(lambda: True)
PYTHON
  cat >"$folder/torch_gpt.py" <<PYTHON
import json, shutil, sys
if "max-autotune" in sys.argv:
    sys.exit("no such mode")
if "--export" in sys.argv:
    losses = [json.loads(line) for line in open("$folder/peer/losses.jsonl")]
    json.dump([line["loss"] for line in losses if "step" in line and "loss" in line], open("$folder/peer/losses.json", "w"))
    shutil.copytree("$folder/peer", sys.argv[sys.argv.index("--export") + 1], dirs_exist_ok=True)
print(json.dumps({"loss": 1, "ms": 1e6 if "--compile" in sys.argv else 2e6, "peak_bytes": 5000000000}))
PYTHON
  export PYTHONPATH=$folder
}

"$here/gpu.sh" pack "$build" "$folder/gpu" --small
script=$folder/gpu/gpu.sh results=$folder/gpu/results
for command in first attention; do "$script" $command || fail "gpu.sh $command"; done
has "$results/first.log" "6 losses are the CPU's within 0.001"
has "$results/first.log" "captured and not: equal bits"
has "$results/first.log" "each value in memory of its own: equal bits"
has "$results/first.log" "another process: equal bits"
NO_PEER=1 "$script" parity
has "$results/parity.log" "parity skipped"
make_peer
cp "$folder/torch_gpt.py" "$folder/gpu/"
for command in parity speed profile; do "$script" $command || fail "gpu.sh $command"; done
has "$results/parity.log" "50 losses"
[ "$(wc -l <"$results/speed.tsv")" = 24 ] || fail "six at two batches in two rounds are 24 measurements"
[ "$(grep -c failed "$results/speed.tsv")" = 4 ] || fail "who fails is said at two batches in two rounds"
"$script" speed && [ "$(wc -l <"$results/speed.tsv")" = 24 ] || fail "what is measured is not measured again"
has "$results/profile_b1.txt" "GB/s"
"$script" table
has "$results/table.md" "| B 1, tcc |"
has "$results/table.md" "| B 1, compile | 1000000.000 |"
has "$results/table.json" '"who": "tcc"'
# What is wrong is said, and is the exit status: losses that are others, beside the CPU and beside PyTorch; a wrong word.
sed -i 's/"loss":\([0-9]\)/"loss":9\1/' "$folder/gpu/data/baby.jsonl" "$folder/peer/losses.jsonl"
for command in first parity; do
  if "$script" $command >"$folder/wrong_$command.txt" 2>&1; then fail "wrong losses pass"; fi
done
has "$folder/wrong_first.txt" "FAILED: the small model's losses"
has "$folder/wrong_parity.txt" "FAILED: GPT-2's losses beside PyTorch's"
if "$script" >"$folder/usage.txt" 2>&1; then fail "no command is no usage error"; fi
has "$folder/usage.txt" "FOLDER/gpu.sh first"
echo "gpu.sh runs from beginning to end"
