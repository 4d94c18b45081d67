#!/usr/bin/env bash
# What lanes and ranks cost on one machine, by turns (rank_turns.py).
#   ranks.sh MODEL BATCH TURNS DATA      such as: ranks.sh char 8 12 book.txt
# Then rank_network.py: exchanges over a network of limited rate beside the estimate (root, `tc` and Open MPI).
# BUILD names the build folder where it is not the checkout's build/, MPI openmpi or mpich, ROUNDS (1) those of the network.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
if (($# != 4)); then
  sed -n '2,5p' "$0" | sed 's/^# \?//' >&2
  exit 2
fi
model=$1 batch=$2 turns=$3 data=$4
build=${BUILD:-$root/build}
python3 "$root/tests/bench/rank_turns.py" --build "$build" --model "$model" --batch "$batch" --turns "$turns" \
  --data "$data" --mpi "${MPI:-openmpi}"
echo
if unshare -n true 2>/dev/null && command -v tc mpirun.openmpi >/dev/null; then
  python3 "$root/tests/bench/rank_network.py" --build "$build" --model "$model" --data "$data" --rounds "${ROUNDS:-1}"
else
  echo "no table over a network: root, tc (iproute2) and mpirun.openmpi are needed"
fi
