#!/usr/bin/env bash
# gpu.sh from packing to its table on the machine of stand-ins, small, and ended at random moments: so that no minute on a
# GPU goes into its mistakes.
#   gpu_rehearsal.sh BUILD DRIVER NVRTC CUBLASLT [ENDS]     the stand-ins' files; how often it is ended (3)
# PyTorch has a stand-in too: a package that says it has CUDA, and in torch_gpt.py's place a program that answers with the
# weights, tokens and losses of train_gpt on the CPU, and fails for one of its flags.
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TCC_CUDA_DRIVER=$2 TCC_NVRTC=$3 TCC_CUBLASLT=$4 TCC_CUDA_MACHINE=late STEPS=5
unset BATCHES PEERS CARRIED AGAIN RESULTS ARCHIVE MINUTES PYTHON MACHINE
ends=${5:-3}
# shellcheck source=tests/bench/gpu_cuts.sh disable=SC1091
. "$here/gpu_cuts.sh"

make_peer() { # of gpu.sh's small GPT-2 at batch 1
  mkdir -p "$folder/peer"
  python3 - "$folder/peer" $((50 * 16 + 1)) <<'PYTHON' || return 1
import array, sys
folder, count = sys.argv[1], int(sys.argv[2])
text = bytes("".join(f"step {i * 31 % 97}, " for i in range(count)), "ascii")[:count]
open(f"{folder}/text.txt", "wb").write(text + text)
array.array("H", list(text)).tofile(open(f"{folder}/tokens.bin", "wb"))
PYTHON
  local train=("$build/bin/train_gpt" --model baby --layers=1 --heads=2 --width=16 --seq 16 --batch 1 --vocab=256
    --order=sequential --schedule=constant --lr=3e-4 --data "$folder/peer/text.txt" --device=cpu --quiet)
  "${train[@]}" --steps=0 --save="$folder/peer" && "${train[@]}" --steps=50 --json="$folder/peer/losses.jsonl" || return 1
  cat >"$folder/gpu/torch_gpt.py" <<PYTHON
import json, shutil, sys
if "max-autotune" in sys.argv:
    sys.exit("no such mode")
if "--export" in sys.argv:
    losses = [json.loads(line) for line in open("$folder/peer/losses.jsonl")]
    json.dump([line["loss"] for line in losses if "step" in line and "loss" in line], open("$folder/peer/losses.json", "w"))
    shutil.copytree("$folder/peer", sys.argv[sys.argv.index("--export") + 1], dirs_exist_ok=True)
print(json.dumps({"loss": 1, "ms": 1e6 if "--compile" in sys.argv else 2e6, "peak_bytes": 5000000000}))
PYTHON
}

gpu() { bash "$folder/gpu/gpu.sh" "$@"; }

"$here/gpu.sh" pack "$build" "$folder/gpu" --small || fail "packing"
make_torch "$folder"
make_peer || fail "the peer's stand-in"
run_and_cut "$folder/gpu" "$ends" 20 all
MINUTES=30 status_of 0 gpu all
cat "$folder/output.txt"
all_there "$folder/gpu" max-autotune memcheck all

results=$folder/gpu/results
for model in baby baby-bf16 char-bf16; do
  for text in "6 losses are the CPU's within 0.0" "captured and eager: equal bits" "captured and separate: equal bits" \
    "captured and again: equal bits"; do
    has "$results/first_$model/log.txt" "$text"
  done
done
has "$results/parity/log.txt" "50 losses"
has "$results/profile_1/log.txt" "GB/s"
tar -tzf "$results/attention_kernels/cubins.tar.gz" >"$folder/cubins.txt"
has "$folder/cubins.txt" "cubins/gpt2_b1.sm_90a.0.cubin"
MINUTES=30 status_of 0 gpu all
if grep '^== ' "$folder/output.txt" | grep -qv memcheck; then fail "what is measured is measured again"; fi
status_of 0 gpu table
for text in "| B 1, tcc |" "| B 1, compile | 1000000.000 |" "Failed: speed_1_max-autotune_1" "    no such mode"; do
  has "$results/table.md" "$text"
done
has "$results/table.json" '"who": "tcc"'

# What is wrong is said, and is the exit status: losses that are others, beside the CPU and beside PyTorch.
sed -i 's/"loss":\([0-9]\)/"loss":9\1/' "$folder/gpu/data/baby/losses.jsonl" "$folder/peer/losses.jsonl"
AGAIN="first_baby parity" status_of 1 gpu first parity
has "$folder/output.txt" "FAILED: first_baby: losses differ: step 0"
has "$folder/output.txt" "FAILED: parity: GPT-2's losses are not PyTorch's"
echo "gpu.sh runs from beginning to end"
