#!/usr/bin/env bash
# One measurement of gpu.sh: gpu_measure.sh NAME WORK TUNING, started by gpu_session.sh, which ends it after its time.
# Files go to the folder WORK; WORK/value gets the text for the list of results. The exit status is 0, or 77 if the machine
# lacks something that the measurement needs (the last line says what), and anything else if something is wrong (the last
# lines say what). It has no time limit of its own.
set -u
here=$(cd "$(dirname "$0")" && pwd)
name=$1 work=$2 tuning=$3
python=${PYTHON:-python3}
length='' packed_batches='' vocabulary='' steps=''
# shellcheck source=/dev/null
. "$here/sizes.sh"
smallest=$(tr ' ' '\n' <<<"$packed_batches" | sort -n | head -1)
fail() { echo "$1"; exit 1; }
lacking() { echo "$1"; exit 77; }
# A command that a signal from outside ended has not failed.
end_with() { case $1 in 129 | 130 | 137 | 143) exit "$1" ;; *) exit 1 ;; esac }
# try FILE COMMAND...: writes the output to FILE. If the command fails, its last lines are shown and the measurement fails.
try() {
  local file=$1 status
  shift
  "$@" >"$file" 2>&1
  status=$?
  [ $status = 0 ] && return
  echo "$(basename "$file" .txt) ended with $status:"
  tail -5 "$file"
  end_with $status
}
run() { # ARTEFACT FLAG...
  local artefact=$1
  shift
  "$here/run_artefact" "$here/artefacts/$artefact.tcc" --tuning="$tuning" "$@"
}
gpt2() { # BATCH FLAG...
  local batch=$1
  shift
  run "gpt2_b$batch" --input tokens=integers:"$vocabulary" --input targets=integers:"$vocabulary" --input lr=0.0003 \
    --input step=10 --json="$work/run.json" "$@"
}

# A small model must have the CPU's losses within a share, and equal bits from steps that are not captured, with memory of its
# own for each value, and in another process. It is one measurement, since on another machine tuning may choose other
# algorithms for matmuls.
small_model() { # ARTEFACT DATA SHARE
  local data=$here/data/$2 way flags
  for way in captured eager separate again; do
    case $way in
    eager | separate) flags=(--"$way") ;;
    captured) flags=(--json="$work/run.json") ;;
    *) flags=() ;;
    esac
    try "$work/$way.txt" run "$1" --steps="$steps" --states="$data/model.safetensors" --input tokens="$data/tokens.raw" \
      --input targets="$data/targets.raw" --input lr=0.001 --input step="$data/steps.raw" "${flags[@]}"
  done
  head -1 "$work/captured.txt"
  awk -v share="$3" 'BEGIN { n = i = 0 }
    NR == FNR { if (match($0, /"loss":[0-9.eE+-]+/) && /"step":/) cpu[n++] = substr($0, RSTART + 7, RLENGTH - 7); next }
    /^step / { d = $4 - cpu[i]; if (d < 0) d = -d; if (!(d <= share * cpu[i])) bad = bad " step " i ": " $4 " for " cpu[i]; ++i }
    END { if (i != n || i == 0) bad = bad " " i " steps of " n; if (bad) { print "losses differ:" bad; exit 1 }
      print i " losses are the CPU'"'"'s within " share }' "$data/losses.jsonl" "$work/captured.txt" || exit 1
  for way in eager separate again; do
    cmp -s <(grep '^step' "$work/captured.txt") <(grep '^step' "$work/$way.txt") || fail "captured and $way: other bits"
    echo "captured and $way: equal bits"
  done
}

memcheck() {
  local sanitizer
  sanitizer=$(command -v compute-sanitizer || compgen -G '/usr/local/cuda*/bin/compute-sanitizer' | head -1)
  if [ -z "$sanitizer" ] || [ -n "${TCC_CUDA_MACHINE:-}" ]; then
    lacking "compute-sanitizer is not there (it comes with the CUDA toolkit)"
  fi
  "$sanitizer" --tool memcheck "$here/run_artefact" "$here/artefacts/baby.tcc" --steps=2 --eager \
    --input tokens=integers:256 --input targets=integers:256 >"$work/memcheck.txt" 2>&1
  grep 'ERROR SUMMARY' "$work/memcheck.txt" || fail "no summary: $(tail -3 "$work/memcheck.txt")"
}

ceiling() { # ARTEFACT
  try "$work/output.txt" run "$1" --steps=20 --profile="$work/trace.json" --json="$work/run.json"
  grep -A3 'label\|ms a step' "$work/output.txt" | head -4
}

first_step() {
  try "$work/output.txt" gpt2 "$smallest" --steps=6
  cat "$work/output.txt"
  ! grep -q 'loss.*nan' "$work/output.txt" || fail "GPT-2's loss is no number"
}

# GPT-2, 50 steps from PyTorch's weights and tokens; those, a gigabyte, are no result.
parity() {
  local peer=$work/peer
  trap 'rm -rf "$work/peer"' EXIT
  "$python" "$here/torch_gpt.py" --size gpt2 -B "$smallest" -T "$length" --steps 50 --device cuda --export "$peer" || end_with $?
  cp "$peer/losses.json" "$work/"
  "$python" - "$peer" "$smallest" "$length" 50 <<'PYTHON' || fail "PyTorch's tokens are not as many as expected"
import array, sys
folder, tokens, size, count = sys.argv[1], array.array("H"), int(sys.argv[2]) * int(sys.argv[3]), int(sys.argv[4])
tokens.frombytes(open(f"{folder}/tokens.bin", "rb").read())
assert len(tokens) == count * size + 1, f"{len(tokens)} tokens; {count} steps of {size} and one more are expected"
array.array("i", tokens[:-1]).tofile(open(f"{folder}/tokens.raw", "wb"))
array.array("i", tokens[1:]).tofile(open(f"{folder}/targets.raw", "wb"))
array.array("f", range(1, count + 1)).tofile(open(f"{folder}/steps.raw", "wb"))
PYTHON
  try "$work/output.txt" run "gpt2_b$smallest" --steps=50 --states="$peer/model.safetensors" --input tokens="$peer/tokens.raw" \
    --input targets="$peer/targets.raw" --input lr=0.0003 --input step="$peer/steps.raw" --json="$work/run.json"
  "$python" - "$work/losses.json" "$work/output.txt" <<'PYTHON' || fail "GPT-2's losses are not PyTorch's"
import json, sys
peer = json.load(open(sys.argv[1]))
ours = [float(line.split()[3]) for line in open(sys.argv[2]) if line.startswith("step ")]
worst = max((abs(a - b) / abs(b) for a, b in zip(ours, peer)), default=float("nan"))
print(f"{len(ours)} losses, {ours[0]:.4f} to {ours[-1]:.4f}, PyTorch {peer[0]:.4f} to {peer[-1]:.4f}, at most {100 * worst:.3f} % apart")
sys.exit(not (len(ours) == len(peer) and worst < 0.01))
PYTHON
}

# Writes ms a step and bytes.
speed() { # WHO BATCH
  local flags=()
  case $1 in
  tcc)
    try "$work/output.txt" gpt2 "$2" --steps="${STEPS:-20}"
    awk '/ ms a step/ { ms = $1 } / bytes planned/ { bytes = $4 } END { if (ms) print ms "\t" bytes }' "$work/output.txt" >"$work/value"
    ;;
  eager) ;;
  eager-cudnn) flags=(--sdpa cudnn) ;;
  compile) flags=(--compile) ;;
  compile-cudnn) flags=(--compile --sdpa cudnn) ;;
  compile-padded) flags=(--compile --sdpa cudnn --pad 50304) ;;
  max-autotune) flags=(--compile --mode max-autotune --pad 50304) ;;
  esac
  if [ "$1" != tcc ]; then
    "$python" "$here/torch_gpt.py" --size gpt2 --bf16 --device cuda -B "$2" --steps 20 "${flags[@]}" >"$work/output.txt" || end_with $?
    tail -1 "$work/output.txt" | "$python" -c 'import json, sys
result = json.loads(sys.stdin.read())
print(result["ms"], result.get("peak_bytes", 0), sep="\t")' >"$work/value" || exit 1
  fi
  [ -s "$work/value" ] || fail "no time in the output: $(tail -3 "$work/output.txt")"
  awk -F'\t' '{ print $1 " ms a step, " $2 " bytes" }' "$work/value"
}

profile() { # BATCH
  try "$work/output.txt" gpt2 "$1" --steps=6 --profile="$work/trace.json"
  sed -n '/bytes planned/,$p' "$work/output.txt" | head -30
}

# A stage of gpu_attention.sh. The one that compiles leaves all machine code as a file, for a disassembler and for other
# machines, which need not compile it again.
attention() { # STAGE
  local results cubins=$here/cubins/attention
  results=$(dirname "$(dirname "$work")")
  mkdir -p "$cubins"
  [ ! -s "$results/attention_kernels/cubins.tar.gz" ] || tar -xzf "$results/attention_kernels/cubins.tar.gz" -C "$here"
  if [ "$1" = peers ]; then
    [ -s "$results/attention_bench/bench.jsonl" ] || lacking "attention_bench has to be there first"
    cp "$results/attention_bench/bench.jsonl" "$work/"
  fi
  if [ -x "$here/gpu_attention/gpu_attention" ]; then
    GPU_ATTENTION=$here/gpu_attention/gpu_attention CUBINS=$cubins TIME_LIMIT=86400 bash "$here/gpu_attention.sh" "$work" "$1" || exit
  elif [ "$1" != kernels ]; then
    lacking "its program was not packed"
  fi
  [ "$1" != kernels ] || tar -czf "$work/cubins.tar.gz" -C "$here" cubins
}

IFS=_ read -r _ what who batch <<<"$name"
case $name in
first_baby) small_model baby baby 0.001 ;;
first_baby-bf16) small_model baby-bf16 baby 0.02 ;;
first_char-bf16) small_model char-bf16 char 0.02 ;;
first_memcheck) memcheck ;;
first_copy | first_product) ceiling "$what" ;;
first_gpt2) first_step ;;
parity) parity ;;
speed_*) speed "$who" "$batch" ;;
profile_*) profile "$what" ;;
attention_*) attention "$what" ;;
*) fail "no measurement is called $name" ;;
esac
