#!/usr/bin/env bash
# Everything about flash attention that only a GPU can tell, in one command under ten minutes:
#   tests/bench/gpu_attention.sh [RESULTS [STAGE...]]        (default: gpu_attention_results, every stage)
# The program: GPU_ATTENTION names a prebuilt one, otherwise it is built (a C++20 compiler and CMake). Stages:
#   kernels     cubins by NVRTC into CUBINS (RESULTS/cubins); those that are there are not made again
#   lanes       lane maps and swizzles against the repository's tables; the device's own go to RESULTS/lane_tables
#   self-test   every case in its own process under a time limit, first in the probe build, where a barrier wait that
#               takes a second becomes an error with its line, then in the plain one
#   bench       TFLOP/s of every shape
#   peers       PyTorch's back ends on the shapes of RESULTS/bench.jsonl, where python3 has a PyTorch with CUDA; the table
#   sweep       other tiles and switches of each pass
#   memcheck racecheck initcheck synccheck
#               compute-sanitizer on small shapes, where it is installed (advisory on wgmma kernels)
# RESULTS receives lanes.txt, selftest.txt, TOOL.txt, bench.jsonl, sweep.jsonl, table.txt (Markdown), table.json. Exit
# status 1 if something failed; 77 if a stage that was named lacks what it takes. What the time limit (TIME_LIMIT, 580 s)
# leaves no room for is skipped and named; gpu.sh has one that takes up later what was cut short.
# To rehearse without a GPU: build with -DTCC_GPU_ATTENTION_EMULATOR=ON and set GPU_ATTENTION_FLAGS="--emulator sm_90a".
# To prebuild: build with CMake, then `gpu_attention --cubins FOLDER prebuild sm_90a` (needs NVRTC, no GPU).
set -u
here=$(cd "$(dirname "$0")" && pwd)
results=${1:-gpu_attention_results}
[ $# = 0 ] || shift
stages=("$@")
[ $# != 0 ] || stages=(kernels lanes self-test bench peers sweep memcheck racecheck initcheck synccheck)
cubins=${CUBINS:-$results/cubins}
mkdir -p "$results" "$cubins"
read -ra flags <<<"${GPU_ATTENTION_FLAGS:-}"
rehearsal=${GPU_ATTENTION_FLAGS:-}
flags+=(--cubins "$cubins")
# The emulator takes longer than a GPU: a rehearsal's limits are stretched.
stretch=1
[ -z "$rehearsal" ] || stretch=8
case_limit=$((${CASE_LIMIT:-30} * stretch))
time_limit=$((${TIME_LIMIT:-580} * stretch))
failed=0 lacking=0
say() { printf '%s [%s s]\n' "$1" "$SECONDS"; }
wrong() { say "FAILED: $1"; failed=1; }
lacks() { say "$1"; lacking=1; }
# limited SECONDS COMMAND...: under that limit and what is left of the whole; 125 where nothing is. In the group of this
# script, so that what ends the script ends the command.
limited() {
  local limit=$(($1 * stretch)) left=$((time_limit - SECONDS))
  shift
  ((left > 5)) || return 125
  timeout --foreground -k 5 $((limit < left ? limit : left)) "$@"
}

program=${GPU_ATTENTION:-}
if [ -z "$program" ]; then
  say "building"
  if ! { cmake -S "$here/gpu_attention" -B "$results/build" -DCMAKE_BUILD_TYPE=Release &&
    cmake --build "$results/build" -j "$(nproc)"; } >"$results/build.txt" 2>&1; then
    tail -20 "$results/build.txt"
    echo "the program does not build: see $results/build.txt"
    exit 1
  fi
  program=$results/build/gpu_attention
fi

kernels() {
  [ -z "$rehearsal" ] || return 0
  # Without NVRTC the prebuilt cubins must do; what is missing then fails in its own case.
  limited 150 "$program" "${flags[@]}" prebuild || say "not all kernels could be compiled now"
}

lanes() {
  local kind
  : >"$results/lanes.txt"
  for kind in warp hopper; do
    limited 60 "$program" "${flags[@]}" lanes "$kind" --write-tables "$results/lane_tables" >>"$results/lanes.txt" 2>&1 ||
      wrong "lane maps, $kind"
  done
  cat "$results/lanes.txt"
}

# A case is a process of its own; --foreground leaves it in the group that ends with the stage.
# shellcheck disable=SC2317 # xargs calls it
one_case() { # NUMBER LIMIT PROGRAM FLAG...
  local number=$1 limit=$2 output
  shift 2
  if output=$(timeout --foreground -k 5 "$limit" "$@" case "$number" 2>&1); then
    echo "PASS $number $(head -1 <<<"$output")"
  else
    echo "FAIL $number (exit $?; 124: over $limit s) $output"
  fi
}
self_test() {
  local cases jobs passed ended
  cases=$("$program" "${flags[@]}" cases) || { wrong "the self-test has no cases"; return; }
  export -f one_case
  jobs=$(($(nproc) / 2))
  jobs=$((jobs < 1 ? 1 : jobs > 8 ? 8 : jobs))
  # shellcheck disable=SC2016
  seq 0 $((cases - 1)) | limited 300 xargs -P $jobs -I{} bash -c 'one_case "$@"' _ {} "$case_limit" "$program" "${flags[@]}" \
    >"$results/selftest.txt"
  passed=$(grep -c '^PASS' "$results/selftest.txt")
  ended=$(grep -c '^PASS\|^FAIL' "$results/selftest.txt")
  grep -A14 '^FAIL' "$results/selftest.txt" | head -80
  say "self-test: $passed of $cases cases pass, $((cases - ended)) had no time"
  if [ "$passed" != "$ended" ] || [ "$ended" = 0 ]; then wrong "self-test"; fi
}

bench() { limited 240 "$program" "${flags[@]}" bench "$results/bench.jsonl" || wrong "not all shapes were measured"; }

peers() {
  if ! command -v python3 >/dev/null; then
    lacks "PyTorch's back ends and the Markdown table skipped: no python3"
  elif ! [ -s "$results/bench.jsonl" ]; then
    lacks "PyTorch's back ends skipped: no shape was measured"
  else
    limited 200 python3 "$here/gpu_attention/peers.py" "$results/bench.jsonl" "$results" || wrong "PyTorch's back ends"
  fi
}

sweep() { limited 300 "$program" "${flags[@]}" sweep "$results/sweep.jsonl" || wrong "not all tiles were measured"; }

sanitize() { # TOOL
  local sanitizer status summary
  sanitizer=$(command -v compute-sanitizer || compgen -G '/usr/local/cuda*/bin/compute-sanitizer' | head -1)
  if [ -z "$sanitizer" ]; then
    lacks "$1 skipped: compute-sanitizer is not installed (it comes with the CUDA toolkit)"
  elif [ -n "$rehearsal" ]; then
    lacks "$1 skipped: a rehearsal"
  else
    limited 90 "$sanitizer" --tool "$1" "$program" "${flags[@]}" small >"$results/$1.txt" 2>&1
    status=$?
    summary=$(grep 'ERROR SUMMARY\|RACECHECK SUMMARY' "$results/$1.txt" | tail -1)
    say "$1: ${summary:-no summary, exit $status (124: over its limit)}"
  fi
}

if command -v nvidia-smi >/dev/null; then
  nvidia-smi --query-gpu=name,driver_version,clocks.sm,clocks.max.sm,power.limit --format=csv | tee "$results/device.txt"
fi
for stage in "${stages[@]}"; do
  if ((time_limit - SECONDS <= 5)); then
    say "$stage skipped: no time is left"
    continue
  fi
  case $stage in
  kernels) say "$stage"; kernels ;;
  lanes) say "$stage"; lanes ;;
  self-test) say "$stage"; self_test ;;
  bench) say "$stage"; bench ;;
  peers) say "$stage"; peers ;;
  sweep) say "$stage"; sweep ;;
  memcheck | racecheck | initcheck | synccheck) sanitize "$stage" ;;
  *) echo "gpu_attention.sh: no stage is called $stage" >&2; exit 2 ;;
  esac
done
say "done: $results"
[ $failed = 0 ] || exit 1
[ $lacking = 0 ] || [ $# = 0 ] || exit 77
exit 0
