#!/usr/bin/env bash
# Everything about flash attention that only a GPU can tell, in one command under ten minutes:
#   tests/bench/gpu_attention.sh [RESULTS]        (default: gpu_attention_results)
# 1. the program: GPU_ATTENTION names a prebuilt one, otherwise it is built (a C++20 compiler and CMake; NVRTC for the
#    kernels unless CUBINS names a folder of prebuilt cubins)
# 2. the self-test: every case in its own process under a time limit, so that a hang costs seconds
# 3. compute-sanitizer's four tools on small shapes, where it is installed (advisory on wgmma kernels)
# 4. TFLOP/s of every shape, then PyTorch's back ends in the same run, where python3 has a PyTorch with CUDA
# RESULTS receives selftest.txt, sanitizer.txt, bench.jsonl, table.txt, table.json. Exit status 1 if the self-test failed.
# To rehearse without a GPU: build with -DTCC_GPU_ATTENTION_EMULATOR=ON and set GPU_ATTENTION_FLAGS="--emulator sm_90a".
# To prebuild: build with CMake, then `gpu_attention --cubins FOLDER prebuild sm_90a` (needs NVRTC, no GPU).
set -u
here=$(cd "$(dirname "$0")" && pwd)
results=${1:-gpu_attention_results}
mkdir -p "$results"
cubins=${CUBINS:-$results/cubins}
mkdir -p "$cubins"
flags="--cubins $cubins ${GPU_ATTENTION_FLAGS:-}"
case_limit=${CASE_LIMIT:-20}
say() { printf '%s [%s s]\n' "$1" "$SECONDS"; }

program=${GPU_ATTENTION:-}
if [ -z "$program" ]; then
  say "building"
  cmake -S "$here/gpu_attention" -B "$results/build" -DCMAKE_BUILD_TYPE=Release >"$results/build.txt" 2>&1 &&
    cmake --build "$results/build" -j "$(nproc)" >>"$results/build.txt" 2>&1 ||
    { tail -20 "$results/build.txt"; echo "the program does not build: see $results/build.txt"; exit 1; }
  program=$results/build/gpu_attention
fi
command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,power.limit --format=csv \
  | tee "$results/device.txt"

say "self-test"
cases=$("$program" $flags cases) || exit 1
one_case() {
  if output=$(timeout "$case_limit" "$program" $flags case "$1" 2>&1); then
    echo "PASS $1 $(head -1 <<<"$output")"
  else
    echo "FAIL $1 (exit $?; 124: over $case_limit s) $output"
  fi
}
export -f one_case
export program flags case_limit
seq 0 $((cases - 1)) | xargs -P 4 -I{} bash -c 'one_case {}' >"$results/selftest.txt"
passed=$(grep -c '^PASS' "$results/selftest.txt")
grep -A6 '^FAIL' "$results/selftest.txt" | head -60
say "self-test: $passed of $cases cases pass"

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -1)
: >"$results/sanitizer.txt"
if [ -n "$sanitizer" ] && [ -z "${GPU_ATTENTION_FLAGS:-}" ]; then
  for tool in memcheck racecheck initcheck synccheck; do
    echo "== $tool" >>"$results/sanitizer.txt"
    timeout 45 "$sanitizer" --tool "$tool" "$program" $flags small >>"$results/sanitizer.txt" 2>&1
    say "$tool: $(grep 'ERROR SUMMARY\|RACECHECK SUMMARY' "$results/sanitizer.txt" | tail -1 | sed 's/=* *//')"
  done
else
  say "compute-sanitizer skipped: not installed, or a rehearsal"
fi

say "speed"
timeout 200 "$program" $flags bench "$results/bench.jsonl" | tee "$results/table.txt"
if command -v python3 >/dev/null; then
  timeout 200 python3 "$here/gpu_attention/peers.py" "$results/bench.jsonl" "$results" || true
else
  say "no python3: PyTorch's back ends skipped"
fi
say "done: $results"
[ "$passed" = "$cases" ]
