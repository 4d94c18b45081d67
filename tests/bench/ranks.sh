#!/usr/bin/env bash
# What lanes and ranks cost on one machine: tokens/s of the same batch in turn, each row beside one process in its round.
#   ranks.sh MODEL BATCH ROUNDS DATA      such as: ranks.sh char 8 3 book.txt
# Then rank_network.py: exchanges over a network of limited rate beside the estimate (root, `tc` and Open MPI).
# BUILD names the build folder where it is not the checkout's build/, MPI openmpi or mpich.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
if (($# != 4)); then
  sed -n '2,5p' "$0" | sed 's/^# \?//' >&2
  exit 2
fi
model=$1 batch=$2 rounds=$3 data=$4
half=$((batch / 2))
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# train LOG OPTION...: a run of a few steps
train() {
  local log=$1
  shift
  TCC_MPI=${MPI:-openmpi} "${BUILD:-$root/build}/bin/train_gpt" --model "$model" --data "$data" --steps 8 --lr 3e-4 \
    --schedule=constant --quiet --json="$log" "$@" >/dev/null
}
# figure LOG KEY: of the run's last line
figure() { sed -n "\$s/.*\"$2\":\\([0-9.]*\\).*/\\1/p" "$1"; }

# rate ROW: tokens/s of a row's run
rate() {
  local log=$folder/$1.json
  case $1 in
    one) train "$log" --batch "$batch" --threads 2 ;;
    lanes) train "$log" --batch "$batch" --threads 2 --lanes 8 ;;
    two_lanes) train "$log" --batch "$batch" --threads 2 --lanes 2 ;;
    ranks) train "$log" --batch "$batch" --threads 1 --ranks 2 --lanes 2 ;;
    ranks8) train "$log" --batch "$batch" --threads 1 --ranks 2 --lanes 8 ;;
    behind) train "$log" --batch "$batch" --threads 1 --ranks 2 --lanes 2 -fno-schedule-collectives ;;
    fast) train "$log" --batch "$batch" --threads 1 --ranks 2 --lanes 2 --reduce=fast ;;
    apart) # two processes that know nothing of each other
      train "$folder/a.json" --batch "$half" --threads 1 &
      train "$log" --batch "$half" --threads 1
      wait
      awk -v a="$(figure "$folder/a.json" tokens_per_second)" -v b="$(figure "$log" tokens_per_second)" 'BEGIN { print a + b }'
      return
      ;;
  esac
  figure "$log" tokens_per_second
}

rows=(one two_lanes lanes ranks ranks8 behind fast apart)
for ((round = 1; round <= rounds; round++)); do
  for row in "${rows[@]}"; do
    printf '%s %s\n' "$row" "$(rate "$row")"
  done
done | tee "$folder/rates" >&2
printf '%-10s %12s %14s %14s\n' row "tokens/s" "of one" "planned MB"
for row in "${rows[@]}"; do
  planned=$(figure "$folder/$row.json" planned_bytes)
  # The median of the ratios in each round.
  awk -v row="$row" -v planned="${planned:-0}" '
    $1 == "one" { one = $2 }
    $1 == row { ratio[++n] = $2 / one; best = $2 > best ? $2 : best }
    END {
      for (i = 1; i <= n; ++i) for (j = i + 1; j <= n; ++j) if (ratio[j] < ratio[i]) { t = ratio[i]; ratio[i] = ratio[j]; ratio[j] = t }
      printf "%-10s %12.0f %14.3f %14.1f\n", row, best, ratio[int((n + 1) / 2)], planned / 1e6
    }' "$folder/rates"
done
if unshare -n true 2>/dev/null && command -v tc mpirun.openmpi >/dev/null; then
  echo
  python3 "$root/tests/bench/rank_network.py" --build "${BUILD:-$root/build}" --model "$model" --data "$data" --rounds "$rounds"
else
  echo "no table over a network: root, tc (iproute2) and mpirun.openmpi are needed"
fi
