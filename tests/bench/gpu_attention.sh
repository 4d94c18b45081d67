#!/usr/bin/env bash
# Everything about flash attention that only a GPU can tell, in one command under ten minutes:
#   tests/bench/gpu_attention.sh [RESULTS]        (default: gpu_attention_results)
# 1. the program: GPU_ATTENTION names a prebuilt one, otherwise it is built (a C++20 compiler and CMake); its kernels by
#    NVRTC, unless CUBINS names a folder of prebuilt cubins
# 2. lane maps and swizzles against the repository's tables; the device's own go to RESULTS/lane_tables
# 3. the self-test: every case in its own process under a time limit, first in the probe build, where a barrier wait that
#    takes a second becomes an error with its line, then in the plain one
# 4. compute-sanitizer's four tools on small shapes, where it is installed (advisory on wgmma kernels)
# 5. TFLOP/s of every shape, other tiles and switches of each pass, and PyTorch's back ends in the same run, where python3 has a
#    PyTorch with CUDA
# RESULTS receives lanes.txt, selftest.txt, sanitizer.txt, bench.jsonl, sweep.jsonl, table.txt (Markdown), table.json. Exit
# status 1 if the self-test or the lane maps failed. What the time limit (TIME_LIMIT, 580 s) leaves no room for is skipped
# and named.
# To rehearse without a GPU: build with -DTCC_GPU_ATTENTION_EMULATOR=ON and set GPU_ATTENTION_FLAGS="--emulator sm_90a".
# To prebuild: build with CMake, then `gpu_attention --cubins FOLDER prebuild sm_90a` (needs NVRTC, no GPU).
set -u
here=$(cd "$(dirname "$0")" && pwd)
results=${1:-gpu_attention_results}
mkdir -p "$results"
cubins=${CUBINS:-$results/cubins}
mkdir -p "$cubins"
flags="--cubins $cubins ${GPU_ATTENTION_FLAGS:-}"
rehearsal=${GPU_ATTENTION_FLAGS:-}
# The emulator takes longer than a GPU: a rehearsal's limits are stretched.
stretch=1
[ -z "$rehearsal" ] || stretch=8
case_limit=$((${CASE_LIMIT:-30} * stretch))
time_limit=$((${TIME_LIMIT:-580} * stretch))
failed=0
say() { printf '%s [%s s]\n' "$1" "$SECONDS"; }
# limited SECONDS COMMAND...: under that limit and what is left of the whole; 125 where nothing is.
limited() {
  local limit=$(($1 * stretch)) left=$((time_limit - SECONDS))
  shift
  ((left > 5)) || return 125
  timeout -k 5 $((limit < left ? limit : left)) "$@"
}

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
if [ -z "$rehearsal" ]; then
  say "compiling kernels"
  # Without NVRTC the prebuilt cubins must do; what is missing then fails in its own case.
  limited 150 "$program" $flags prebuild || say "not all kernels could be compiled now"
fi

say "lane maps"
: >"$results/lanes.txt"
for kind in warp hopper; do
  limited 60 "$program" $flags lanes "$kind" --write-tables "$results/lane_tables" >>"$results/lanes.txt" 2>&1 ||
    { say "lane maps, $kind: FAILED"; failed=1; }
done
cat "$results/lanes.txt"

say "self-test"
cases=$("$program" $flags cases) || exit 1
one_case() {
  if output=$(timeout -k 5 "$case_limit" "$program" $flags case "$1" 2>&1); then
    echo "PASS $1 $(head -1 <<<"$output")"
  else
    echo "FAIL $1 (exit $?; 124: over $case_limit s) $output"
  fi
}
export -f one_case
export program flags case_limit
jobs=$(($(nproc) / 2))
seq 0 $((cases - 1)) | limited 200 xargs -P "$((jobs < 1 ? 1 : jobs > 8 ? 8 : jobs))" -I{} bash -c 'one_case {}' \
  >"$results/selftest.txt"
passed=$(grep -c '^PASS' "$results/selftest.txt")
grep -A14 '^FAIL' "$results/selftest.txt" | head -80
say "self-test: $passed of $cases cases pass"
[ "$passed" = "$cases" ] || failed=1

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -1)
: >"$results/sanitizer.txt"
if [ -z "$sanitizer" ]; then
  say "compute-sanitizer skipped: it is not installed (it comes with the CUDA toolkit)"
elif [ -n "$rehearsal" ]; then
  say "compute-sanitizer skipped: a rehearsal"
else
  for tool in memcheck racecheck initcheck synccheck; do
    echo "== $tool" >>"$results/sanitizer.txt"
    limited 30 "$sanitizer" --tool "$tool" "$program" $flags small >>"$results/sanitizer.txt" 2>&1
    status=$?
    summary=$(sed -n "/^== $tool/,\$p" "$results/sanitizer.txt" | grep 'ERROR SUMMARY\|RACECHECK SUMMARY' | tail -1)
    say "$tool: ${summary:-no summary, exit $status (124: over its limit)}"
  done
fi

say "speed"
limited 150 "$program" $flags bench "$results/bench.jsonl" || say "speed: not all shapes were measured"
peers_limit=120
if ! command -v python3 >/dev/null; then
  say "PyTorch's back ends and the Markdown table skipped: no python3"
elif ! [ -s "$results/bench.jsonl" ]; then
  say "PyTorch's back ends skipped: no shape was measured"
else
  limited $peers_limit python3 "$here/gpu_attention/peers.py" "$results/bench.jsonl" "$results" ||
    say "PyTorch's back ends: cut short"
fi
say "other tiles and switches"
limited 110 "$program" $flags sweep "$results/sweep.jsonl" || say "not all tiles were measured"
say "done: $results"
exit $failed
