#!/usr/bin/env bash
# Everything that only a GPU can tell, in a few commands of under ten minutes each, from an archive that needs the driver,
# CUDA's libraries and glibc. Made where the compiler is, run where the GPU is:
#   tests/bench/gpu.sh pack BUILD FOLDER [--small]   fills FOLDER: programs, artefacts, data, this script (tar it); --small: sizes
#                                          for a rehearsal, and with the stand-ins' NVRTC in TCC_NVRTC code for them
#   FOLDER/gpu.sh first            right?  losses beside the CPU's, captured and not, another process, memory of its own for
#                                          each value, one step checked by compute-sanitizer, ceilings, one step of GPT-2
#   FOLDER/gpu.sh parity           GPT-2, 50 steps beside PyTorch from the same weights and tokens
#   FOLDER/gpu.sh speed            GPT-2 124M at each batch, tcc and PyTorch in turn; run it again until nothing is left
#   FOLDER/gpu.sh profile          each launch of GPT-2's step: time, GB/s, TFLOP/s
#   FOLDER/gpu.sh attention        gpu_attention.sh, where its program was packed
#   FOLDER/gpu.sh table            results as Markdown for docs/PERFORMANCE.md, and as JSON
# RESULTS (default FOLDER/results) gets a log a command, runs.jsonl, speed.tsv, table.md, table.json. Exit status 1 where
# something is wrong. TIME_LIMIT (560 s) ends a command; what it leaves out is named. ARCHITECTURE=sm_90a at packing; PYTHON.
set -u
here=$(cd "$(dirname "$0")" && pwd)
limit=${TIME_LIMIT:-560}
python=${PYTHON:-python3}
failed=0
say() { printf '%s [%s s]\n' "$1" "$SECONDS"; }
wrong() { say "FAILED: $1"; failed=1; }
# limited SECONDS COMMAND...: under that limit and what is left of the whole; 125 where nothing is.
limited() {
  local most=$1 left=$((limit - SECONDS))
  shift
  ((left > 2)) || return 125
  timeout -k 5 $((most < left ? most : left)) "$@"
}

# --- where the compiler is ------------------------------------------------------------------------------------------

# A text of words, as long as tests need it; then tokens, targets and steps as raw bytes for BATCH x LENGTH, COUNT steps.
make_data() { # FOLDER BATCH LENGTH COUNT
  "$python" - "$@" <<'PYTHON'
import array, sys
folder, batch, length, count = sys.argv[1], *map(int, sys.argv[2:])
text = bytes("".join(f"line {i * 7919 % 1000} of a text\n" for i in range(8000 + count * batch * length // 16)), "ascii")
open(f"{folder}/text.txt", "wb").write(text)
tokens, targets = array.array("i"), array.array("i")
for i in range(count):
    part = text[i * batch * length : (i + 1) * batch * length + 1]
    tokens.extend(part[:-1]), targets.extend(part[1:])
for name, values in (("tokens", tokens), ("targets", targets), ("steps", array.array("f", range(1, count + 1)))):
    values.tofile(open(f"{folder}/{name}.raw", "wb"))
PYTHON
}

pack() { # BUILD FOLDER [--small]
  local build=$1 to=$2 small=${3:-} architecture=${ARCHITECTURE:-sm_90a}
  local model=gpt2 length=1024 batches="8 16 32 64" dtype=bf16 shape=""
  local baby="--layers=4" babyBatch=4 babyLength=64 steps=20
  if [ -n "$small" ]; then
    model=baby length=16 batches="1 2" shape="--layers=1 --heads=2 --width=16"
    baby="--layers=1 --heads=2 --width=16" babyBatch=2 babyLength=16 steps=6
  fi
  mkdir -p "$to/artefacts" "$to/data" || return 1
  cp "$build/bin/run_artefact" "$here/gpu.sh" "$here/torch_gpt.py" "$to/" || return 1
  if [ -n "${GPU_ATTENTION:-}" ]; then
    mkdir -p "$to/gpu_attention" && cp "$here/gpu_attention.sh" "$GPU_ATTENTION" "$to/" &&
      cp "$here/gpu_attention/peers.py" "$to/gpu_attention/" || return 1
  fi
  make_data "$to/data" $babyBatch $babyLength $steps || return 1
  # 1. A small model with the CPU's losses from the same weights, f32.
  local common="--model baby $baby --seq $babyLength --batch $babyBatch --order=sequential --schedule=constant --lr=1e-3
    --data $to/data/text.txt --device=cpu --quiet"
  "$build/bin/train_gpt" $common --steps=0 --emit-graph="$to/data/baby.graph" --save="$to/data/baby" || return 1
  "$build/bin/train_gpt" $common --steps=$steps --json="$to/data/baby.jsonl" || return 1
  "$build/bin/tcc" "$to/data/baby.graph" --target=cuda -march="$architecture" -o "$to/artefacts/baby.tcc" >/dev/null || return 1
  # 2. GPT-2's step at each batch.
  local batch
  for batch in $batches; do
    "$build/bin/train_gpt" --model $model $shape --seq $length --batch "$batch" --data "$to/data/text.txt" --device=cpu --quiet \
      --vocab=$([ -n "$small" ] && echo 256 || echo 50257) --steps=0 --emit-graph="$to/data/step.graph" 2>/dev/null || return 1
    "$build/bin/tcc" "$to/data/step.graph" --target=cuda -march="$architecture" --dtype=$dtype \
      -o "$to/artefacts/gpt2_b$batch.tcc" >/dev/null || return 1
  done
  # 3. What a copy and a product reach.
  local rows=8192 columns=8192
  [ -z "$small" ] || rows=32 columns=64
  cat >"$to/data/copy.graph" <<GRAPH
func.func @copy(%a: tensor<${rows}x${columns}xf32> {tcc.name = "a", tcc.state}) -> (tensor<${rows}x${columns}xf32> {tcc.updates = "a"}) {
  %b = tcc.neg %a : tensor<${rows}x${columns}xf32>
  func.return %b : tensor<${rows}x${columns}xf32>
}
GRAPH
  cat >"$to/data/product.graph" <<GRAPH
func.func @product(%a: tensor<${rows}x${columns}xf32> {tcc.name = "a", tcc.state}, %b: tensor<${columns}x${rows}xf32> {tcc.name = "b", tcc.state})
    -> (tensor<1x1xf32> {tcc.name = "sum"}) {
  %c = tcc.matmul %a, %b : tensor<${rows}x${columns}xf32>, tensor<${columns}x${rows}xf32> -> tensor<${rows}x${rows}xf32>
  %s = tcc.reduce_sum %c axes [0, 1] : tensor<${rows}x${rows}xf32> -> tensor<1x1xf32>
  func.return %s : tensor<1x1xf32>
}
GRAPH
  "$build/bin/tcc" "$to/data/copy.graph" --target=cuda -march="$architecture" -o "$to/artefacts/copy.tcc" >/dev/null &&
    "$build/bin/tcc" "$to/data/product.graph" --target=cuda -march="$architecture" --dtype=$dtype -o "$to/artefacts/product.tcc" \
      >/dev/null || return 1
  rm -f "$to/data/text.txt" "$to/data/baby.graph" "$to/data/step.graph" "$to/data/copy.graph" "$to/data/product.graph"
  printf 'model=%s length=%s batches="%s" vocabulary=%s baby_steps=%s\n' $model $length "$batches" \
    "$([ -n "$small" ] && echo 256 || echo 50257)" $steps >"$to/sizes.sh"
  say "packed $(du -sh "$to" | cut -f1) in $to"
}

# --- where the GPU is -----------------------------------------------------------------------------------------------

baby() { # EXTRA...: the small model's losses, a line a step
  limited 120 "$here/run_artefact" "$here/artefacts/baby.tcc" --steps="$baby_steps" --states="$here/data/baby/model.safetensors" \
    --input tokens="$here/data/tokens.raw" --input targets="$here/data/targets.raw" --input lr=0.001 \
    --input step="$here/data/steps.raw" --tuning="$results/tuning.json" "$@"
}

gpt2() { # BATCH EXTRA...
  local batch=$1
  shift
  "$here/run_artefact" "$here/artefacts/gpt2_b$batch.tcc" --input tokens=integers:"$vocabulary" \
    --input targets=integers:"$vocabulary" --input lr=0.0003 --input step=10 --tuning="$results/tuning.json" "$@"
}

# The same under a limit, which `timeout` has for programs alone.
gpt2_limited() { # SECONDS BATCH EXTRA...
  local most=$1
  shift
  export here results vocabulary
  export -f gpt2
  limited "$most" bash -c 'gpt2 "$@"' _ "$@"
}

# same WHAT FILE FILE: the steps' lines are equal.
same() {
  if grep -q '^step' "$2" && cmp -s <(grep '^step' "$2") <(grep '^step' "$3"); then say "$1: equal bits"; else wrong "$1: other bits, see $2 and $3"; fi
}

first() {
  command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,power.limit,memory.total \
    --format=csv | tee "$results/device.txt"
  say "a small model beside the CPU"
  baby --json="$results/runs.jsonl" >"$results/baby.txt" 2>&1 || wrong "the small model: $(tail -1 "$results/baby.txt")"
  head -1 "$results/baby.txt"
  # Losses: the CPU's within a thousandth.
  awk 'BEGIN { n = i = 0 } NR == FNR { if (match($0, /"loss":[0-9.eE+-]+/) && /"step":/) cpu[n++] = substr($0, RSTART + 7, RLENGTH - 7); next }
    /^step / { d = $4 - cpu[i]; if (d < 0) d = -d; if (!(d <= 1e-3 * cpu[i])) bad = bad " step " i ": " $4 " for " cpu[i]; ++i }
    END { if (i != n || i == 0) bad = bad " " i " steps of " n; if (bad) { print "losses differ:" bad; exit 1 }; print i " losses are the CPU'"'"'s within 0.001" }' \
    "$here/data/baby.jsonl" "$results/baby.txt" || wrong "the small model's losses"
  baby --eager >"$results/baby_eager.txt" 2>&1 || wrong "eager steps"
  same "captured and not" "$results/baby.txt" "$results/baby_eager.txt"
  baby --separate >"$results/baby_separate.txt" 2>&1 || wrong "separate values"
  same "each value in memory of its own" "$results/baby.txt" "$results/baby_separate.txt"
  baby >"$results/baby_again.txt" 2>&1 || wrong "a second process"
  same "another process" "$results/baby.txt" "$results/baby_again.txt"
  local sanitizer
  sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -1)
  if [ -n "$sanitizer" ] && [ -z "${TCC_CUDA_MACHINE:-}" ]; then
    limited 120 "$sanitizer" --tool memcheck "$here/run_artefact" "$here/artefacts/baby.tcc" --steps=2 --eager \
      --input tokens=integers:256 --input targets=integers:256 >"$results/sanitizer.txt" 2>&1
    say "memcheck: $(grep 'ERROR SUMMARY' "$results/sanitizer.txt" || echo "no summary, see sanitizer.txt")"
  else
    say "compute-sanitizer skipped: it is not there (it comes with the CUDA toolkit)"
  fi
  say "ceilings"
  for what in copy product; do
    limited 60 "$here/run_artefact" "$here/artefacts/$what.tcc" --steps=20 --profile="$results/$what.trace.json" \
      --tuning="$results/tuning.json" --json="$results/runs.jsonl" >"$results/$what.txt" 2>&1 || wrong "$what: $(tail -1 "$results/$what.txt")"
    grep -A3 'label\|ms a step' "$results/$what.txt" | head -4
  done
  say "GPT-2's step"
  local smallest=${batches%% *}
  gpt2_limited 150 "$smallest" --steps=6 >"$results/gpt2.txt" 2>&1 || wrong "GPT-2: $(tail -1 "$results/gpt2.txt")"
  cat "$results/gpt2.txt"
  grep -q 'loss.*nan' "$results/gpt2.txt" && wrong "GPT-2's loss is no number"
}

peer_is_there() {
  [ -n "${NO_PEER:-}" ] && return 1
  "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' >/dev/null 2>&1
}

parity() {
  peer_is_there || { say "parity skipped: $python has no PyTorch with CUDA"; return; }
  local batch=${batches%% *} steps=50
  limited 300 "$python" "$here/torch_gpt.py" --size gpt2 -B "$batch" -T "$length" --steps $steps --device cuda --export "$results/peer" \
    >"$results/parity_torch.txt" 2>&1 || { wrong "PyTorch: $(tail -1 "$results/parity_torch.txt")"; return; }
  "$python" - "$results/peer" "$batch" "$length" $steps <<'PYTHON' || { wrong "PyTorch's tokens, see $results/peer"; return; }
import array, sys
folder, tokens, size, count = sys.argv[1], array.array("H"), int(sys.argv[2]) * int(sys.argv[3]), int(sys.argv[4])
tokens.frombytes(open(f"{folder}/tokens.bin", "rb").read())
assert len(tokens) == count * size + 1, f"{len(tokens)} tokens; {count} steps of {size} and one more are expected"
array.array("i", tokens[:-1]).tofile(open(f"{folder}/tokens.raw", "wb"))
array.array("i", tokens[1:]).tofile(open(f"{folder}/targets.raw", "wb"))
array.array("f", range(1, count + 1)).tofile(open(f"{folder}/steps.raw", "wb"))
PYTHON
  limited 200 "$here/run_artefact" "$here/artefacts/gpt2_b$batch.tcc" --steps=$steps --states="$results/peer/model.safetensors" \
    --input tokens="$results/peer/tokens.raw" --input targets="$results/peer/targets.raw" --input lr=0.0003 \
    --input step="$results/peer/steps.raw" --tuning="$results/tuning.json" --json="$results/runs.jsonl" >"$results/parity.txt" 2>&1 ||
    { wrong "parity: $(tail -1 "$results/parity.txt")"; return; }
  "$python" - "$results/peer/losses.json" "$results/parity.txt" <<'PYTHON' || wrong "GPT-2's losses beside PyTorch's"
import json, sys
peer = json.load(open(sys.argv[1]))
ours = [float(line.split()[3]) for line in open(sys.argv[2]) if line.startswith("step ")]
worst = max((abs(a - b) / abs(b) for a, b in zip(ours, peer)), default=float("nan"))
print(f"{len(ours)} losses, {ours[0]:.4f} to {ours[-1]:.4f}, PyTorch {peer[0]:.4f} to {peer[-1]:.4f}, at most {100 * worst:.3f} % apart")
sys.exit(not (len(ours) == len(peer) and worst < 0.01))
PYTHON
}

# measured ROUND WHO BATCH: whether speed.tsv has it.
measured() { grep -qs "^$1	$2	$3	" "$results/speed.tsv"; }

speed() {
  local round who batch flags line left=0
  local -A peers=([eager]="" [eager-cudnn]="--sdpa cudnn" [compile]="--compile" [compile-cudnn]="--compile --sdpa cudnn"
    [max-autotune]="--compile --mode max-autotune --pad 50304")
  local names="tcc"
  if peer_is_there; then names="tcc eager eager-cudnn compile compile-cudnn max-autotune"; else say "PyTorch is not there: tcc alone"; fi
  for round in 1 2; do
    for batch in $batches; do
      for who in $names; do
        measured $round $who "$batch" && continue
        ((limit - SECONDS > 20)) || { ((++left)); continue; }
        if [ $who = tcc ]; then
          line=$(gpt2_limited 120 "$batch" --steps="${STEPS:-20}" \
            --json="$results/runs.jsonl" 2>&1 | awk '/ ms a step/ { ms = $1 } / bytes planned/ { bytes = $4 } END { if (ms) print ms "\t" bytes }')
        else
          line=$(limited 240 "$python" "$here/torch_gpt.py" --size gpt2 --bf16 --device cuda -B "$batch" --steps 20 ${peers[$who]} 2>/dev/null |
            tail -1 | "$python" -c 'import json, sys; r = json.loads(sys.stdin.read()); print(r["ms"], r.get("peak_bytes", 0), sep="\t")' 2>/dev/null)
        fi
        [ -n "$line" ] || { line=$'failed\t0'; [ $who = tcc ] && wrong "tcc at batch $batch"; }
        printf '%s\t%s\t%s\t%s\n' $round $who "$batch" "$line" >>"$results/speed.tsv"
        say "round $round, batch $batch, $who: $line"
      done
    done
  done
  ((left == 0)) || say "$left measurements are left: run \`gpu.sh speed\` again"
}

profile() {
  local batch
  for batch in $batches; do
    gpt2_limited 120 "$batch" --steps=6 --profile="$results/gpt2_b$batch.trace.json" >"$results/profile_b$batch.txt" 2>&1 ||
      wrong "profile at batch $batch: $(tail -1 "$results/profile_b$batch.txt")"
    say "batch $batch"
    sed -n '/bytes planned/,$p' "$results/profile_b$batch.txt" | head -30
  done
}

attention() {
  [ -x "$here/gpu_attention" ] || [ -f "$here/gpu_attention.sh" ] || { say "attention skipped: its program was not packed"; return; }
  GPU_ATTENTION="$here/gpu_attention" TIME_LIMIT=$limit "$here/gpu_attention.sh" "$results/attention" || wrong "attention"
}

# The better of the rounds; tokens a second, and tcc's share beside the best peer at that batch.
table() {
  [ -s "$results/speed.tsv" ] || { wrong "nothing was measured: run \`gpu.sh speed\` first"; return; }
  awk -F'\t' -v length_="$length" -v json="$results/table.json" '
    $4 != "failed" && $4 > 0 { key = $2 SUBSEP $3; if (!(key in ms) || $4 < ms[key]) { ms[key] = $4; bytes[key] = $5 }
      if (!($3 in seen)) { seen[$3] = 1; order[n++] = $3 } if (!($2 in known)) { known[$2] = 1; who[m++] = $2 } }
    END { print "| GPT-2 124M bf16, T " length_ " | ms a step | tokens/s | GB | beside the best peer |"; print "| --- | --- | --- | --- | --- |"
      printf "[" > json
      for (b = 0; b < n; ++b) for (w = 0; w < m; ++w) { key = who[w] SUBSEP order[b]; if (!(key in ms)) continue
        best = 0; for (o = 0; o < m; ++o) if (who[o] != "tcc" && (who[o] SUBSEP order[b]) in ms && (!best || ms[who[o] SUBSEP order[b]] < best)) best = ms[who[o] SUBSEP order[b]]
        speed = order[b] * length_ / ms[key] * 1000
        printf "| B %s, %s | %.3f | %.0f | %.2f | %s |\n", order[b], who[w], ms[key], speed, bytes[key] / 1e9, who[w] == "tcc" && best ? sprintf("%.2f", best / ms[key]) : ""
        printf "%s{\"batch\": %s, \"who\": \"%s\", \"ms\": %s, \"tokens_per_second\": %.1f, \"bytes\": %s}", sep, order[b], who[w], ms[key], speed, bytes[key] > json; sep = ",\n " }
      print "]" > json }' "$results/speed.tsv" | tee "$results/table.md"
}

command=${1:-}
case $command in
pack)
  [ $# -ge 3 ] || { echo "usage: gpu.sh pack BUILD FOLDER [--small]" >&2; exit 2; }
  pack "$2" "$3" "${4:-}" || { echo "gpu.sh: packing failed" >&2; exit 1; }
  ;;
first | parity | speed | profile | attention | table)
  [ -f "$here/sizes.sh" ] || { echo "gpu.sh: no archive lies here; \`gpu.sh pack\` makes one" >&2; exit 2; }
  . "$here/sizes.sh"
  results=${RESULTS:-$here/results}
  mkdir -p "$results"
  $command > >(tee "$results/$command.log") 2>&1
  wait
  say "$command: $([ $failed = 0 ] && echo done || echo FAILED), results in $results"
  ;;
*)
  sed -n '2,/^set -u/p' "$0" | sed '$d; s/^# \?//'
  exit 2
  ;;
esac
exit $failed
