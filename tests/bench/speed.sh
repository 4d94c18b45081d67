#!/usr/bin/env bash
# tokens/s of a training step, tcc and a peer in turn on one machine, so that drift touches both:
#   speed.sh MODEL BATCH ROUNDS DATA [PEER COMMAND...]
# The peer's command must end with a JSON line that has "tok_s". For PyTorch, with a script that trains the same model:
#   speed.sh char 16 3 book.txt python3 tests/bench/torch_gpt.py --size char -B 16 --steps 6 --compile
#   DTYPE=bf16 speed.sh char 16 3 book.txt python3 tests/bench/torch_gpt.py --size char -B 16 --steps 6 --compile --bf16
# BUILD names the build folder where it is not the checkout's build/.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
if (($# < 4)); then
  sed -n '2,7s/^# \?//p' "$0" >&2
  exit 2
fi
model=$1 batch=$2 rounds=$3 data=$4
shift 4
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# ours LEVEL: tokens/s at that level
ours() {
  "${BUILD:-$root/build}/bin/train_gpt" --model "$model" --dtype="${DTYPE:-f32}" --batch "$batch" --data "$data" --steps 8 --lr 3e-4 \
    --schedule=constant --quiet "-O$1" --json="$log" >/dev/null
  sed -n '$s/.*"tokens_per_second":\([0-9.]*\).*/\1/p' "$log"
}

printf '%-6s %12s %12s %12s\n' round "tcc -O2" "tcc -O0" peer
for ((round = 1; round <= rounds; round++)); do
  fused=$(ours 2)
  unfused=$(ours 0)
  peer=-
  if (($#)); then peer=$("$@" | sed -n '$s/.*"tok_s": *\([0-9.]*\).*/\1/p'); fi
  printf '%-6s %12.0f %12.0f %12s\n' "$round" "$fused" "$unfused" "$peer"
done
