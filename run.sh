#!/usr/bin/env bash
# From a fresh Debian 12 to a trained model: installs what is missing, builds, and trains a small GPT on the CPU.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'TEXT'
bash run.sh                        install, build, train on the King James Bible for a minute
bash run.sh --data book.txt        the same on a text of yours
bash run.sh --no-install           only check for packages: nothing is installed, built or trained
bash run.sh --minutes 5 -- --model char --batch 8      longer; what follows -- goes to train_gpt

  --data FILE      any text file, as bytes (or tokens: see train_gpt --help)
  --minutes X      how long to train (1)
  --no-install     only say which packages are missing: with status 1, or 0 where none is
  -h, --help       this text
TEXT
}

usage_error() {
  printf 'error: %s\n' "$1" >&2
  usage >&2
  exit 2
}

install=1 data='' minutes=1 extra=()
while (($#)); do
  case $1 in
    --no-install) install=0 ;;
    --data=* | --minutes=*) set -- "${1%%=*}" "${1#*=}" "${@:2}" && continue ;;
    --data | --minutes)
      if (($# < 2)) || [[ -z $2 ]]; then usage_error "$1 needs a value"; fi
      if [[ $1 == --data ]]; then data=$2; else minutes=$2; fi
      shift
      ;;
    --)
      extra=("${@:2}")
      break
      ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) usage_error "unknown option: $1" ;;
  esac
  shift
done
if [[ -n $data && ! -f $data ]]; then
  printf 'error: %s: no such file, --data takes a text file\n' "$data" >&2
  exit 1
fi

# shellcheck source=cmake/setup.sh
source "$root/cmake/setup.sh"

# king_james: makes the text once and prints its path.
king_james() {
  local text=$build_dir/data/king-james.txt
  if [[ ! -s $text ]]; then
    mkdir -p "${text%/*}"
    # -f: one verse a line, each after its reference.
    bible -f gen1:1-rev22:21 </dev/null >"$text.part" || fail 'bible (package bible-kjv) failed'
    (($(wc -c <"$text.part") > 4000000)) || fail 'bible printed less than the whole text'
    mv "$text.part" "$text"
  fi
  printf '%s\n' "$text"
}

# last_number FILE KEY: a number from the last line of a JSON log, empty where there is none.
last_number() { tail -n 1 "$1" 2>/dev/null | sed -nE "s/.*\"$2\":([-0-9.eE+]+).*/\1/p"; }

packages=("${build_packages[@]}")
if [[ -z $data ]]; then packages+=("${text_packages[@]}"); fi
if ((!install)); then
  require_packages "${packages[@]}"
  say "all ${#packages[@]} packages are there; without --no-install this script builds and trains"
  exit 0
fi
announce "${packages[@]}"
say "last: training for $minutes minutes (--minutes=$minutes), and half a minute of comparison"
require_packages "${packages[@]}"
build_targets train_gpt tcc
if [[ -z $data ]]; then data=$(king_james); fi

train=("$build_dir/bin/train_gpt" --model baby --data "$data")
log=$build_dir/run/train.jsonl step_log=$build_dir/run/steps.jsonl speeds=$build_dir/run/speeds.txt
mkdir -p "$build_dir/run"
say '' "training a GPT on $data on the CPU (--minutes=$minutes)"
"${train[@]}" --minutes="$minutes" --sample=400 --json="$log" "${extra[@]}"

# Like with like: the same steps of the same model, fused and at -O0 in turn, so that a machine that gets slower or
# faster meanwhile does so for both. The median of each, and its spread.
rounds=3 steps=20
say '' "fused beside -O0 (one kernel per op): $rounds times $steps steps of each, in turn"
: >"$speeds"
for ((round = 0; round < rounds; ++round)); do
  for mode in fused -O0; do
    option=()
    if [[ $mode == -O0 ]]; then option=(-O0); fi
    "${train[@]}" --steps="$steps" --quiet --json="$step_log" "${extra[@]}" "${option[@]}"
    printf '%s %s\n' "$mode" "$(last_number "$step_log" tokens_per_second)" >>"$speeds"
  done
done
sort -k1,1 -k2,2g "$speeds" | awk '
  { count[$1]++; speed[$1, count[$1]] = $2 }
  function median(mode) { return speed[mode, int((count[mode] + 1) / 2)] }
  function text(mode) {
    return sprintf("%.0f tokens/s (%.0f to %.0f)", median(mode), speed[mode, 1], speed[mode, count[mode]])
  }
  END {
    if (median("fused") > 0 && median("-O0") > 0) {
      printf "fused: %s   -O0: %s   %.2f times as fast\n", text("fused"), text("-O0"), median("fused") / median("-O0")
      worst = speed["fused", 1] / speed["fused", count["fused"]]
      if (worst < 0.9) printf "the machine is noisy: equal runs differed by %.0f %%\n", 100 * (1 - worst)
    }
  }'

program=${build_dir#"$PWD"/}/bin
cat <<TEXT

what to try next
  bash run.sh --data FILE
      your own text
  $program/train_gpt --model char --data FILE --minutes=10
      a larger model
  $program/train_gpt --data FILE --steps 10 --emit-graph=step.graph
  $program/tcc step.graph -O3
      the whole training step as text, and what the compiler makes of it
  $program/train_gpt --help
      every option
  bash test.sh
      all tests
TEXT
