#!/usr/bin/env bash
# From a fresh Debian 12 to a trained model: installs what is missing, builds, and trains a small GPT on the CPU.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'TEXT'
bash run.sh                        install, build, train on the King James Bible for a minute
bash run.sh --data book.txt        the same on a text of yours
bash run.sh --no-install           only check for packages, install nothing
bash run.sh --minutes 5 -- --model char --batch 8      longer; what follows -- goes to train_gpt

  --data FILE      any text file, as bytes (or tokens: see train_gpt --help)
  --minutes X      how long to train (1)
  --no-install     say which packages are missing and exit with 1
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
    # -f: one verse a line, each behind its reference.
    bible -f gen1:1-rev22:21 </dev/null >"$text.part" || fail 'bible (package bible-kjv) failed'
    (($(wc -c <"$text.part") > 4000000)) || fail 'bible printed less than the whole text'
    mv "$text.part" "$text"
  fi
  printf '%s\n' "$text"
}

# last_number FILE KEY: a number from the last line of a JSON log, empty where there is none.
last_number() { tail -n 1 "$1" 2>/dev/null | sed -nE "s/.*\"$2\":([-0-9.eE+]+).*/\1/p"; }

if [[ -n $data ]]; then
  require_packages "${build_packages[@]}"
else
  require_packages "${build_packages[@]}" "${text_packages[@]}"
fi
build_targets train_gpt tcc
if [[ -z $data ]]; then data=$(king_james); fi

train=("$build_dir/bin/train_gpt" --model baby --data "$data")
log=$build_dir/run/train.jsonl baseline_log=$build_dir/run/train-O0.jsonl
mkdir -p "$build_dir/run"
say '' "training a GPT on $data on the CPU (--minutes=$minutes)"
"${train[@]}" --minutes="$minutes" --sample=400 --json="$log" "${extra[@]}"

say '' 'the same model at -O0 (one kernel per op), for the speed beside it'
"${train[@]}" --steps=20 --quiet --json="$baseline_log" "${extra[@]}" -O0
fused=$(last_number "$log" tokens_per_second)
baseline=$(last_number "$baseline_log" tokens_per_second)
awk -v fused="${fused:-0}" -v baseline="${baseline:-0}" 'BEGIN {
  if (fused > 0 && baseline > 0)
    printf "fused: %.0f tokens/s   -O0: %.0f tokens/s   %.2f times as fast\n", fused, baseline, fused / baseline
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
