#!/usr/bin/env bash
# gpu.sh's minutes, records and archive, over measurements that only wait: no build, no GPU, under 20 s.
set -u
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
# shellcheck source=tests/bench/gpu_cuts.sh disable=SC1091
. "$here/gpu_cuts.sh"
unset BATCHES PEERS CARRIED AGAIN RESULTS ARCHIVE MINUTES PYTHON MACHINE
make_torch "$folder"

# new_pack NAME: a folder as `gpu.sh pack` makes it, with measurements that wait a fifth of a second, or as SLOW says, kill
# themselves where KILLED names them, and fail where a peer is max-autotune. Says in `begun` that it was begun.
new_pack() {
  local to=$folder/$1
  mkdir -p "$to/artefacts"
  cp "$here/gpu.sh" "$here/gpu_session.sh" "$here/gpu_table.sh" "$to/"
  touch "$to"/artefacts/gpt2_b{8,16,32,64}.tcc "$to/gpu_attention.sh"
  printf 'length=1024 packed_batches="32 64 8 16" vocabulary=256 steps=6 packed=%s times=3 limits=100\n' "$1" >"$to/sizes.sh"
  cat >"$to/gpu_measure.sh" <<'MEASURE'
echo "$1" >>"$(dirname "$0")/begun"
[ "$1" != "${KILLED:-}" ] || kill -KILL $$
if [ "$1" = "${SLOW:-}" ]; then sleep 30; else sleep 0.0$((RANDOM % 9)); fi
case $1 in
*memcheck) echo "it is not there"; exit 77 ;;
*max-autotune*) printf 'Traceback\n\n  somewhere\nno such mode\n' >&2; exit 1 ;;
speed_*_tcc_*) printf '100\t5000000000' >"$2/value" ;;
speed_*) printf '150\t7000000000' >"$2/value" ;;
esac
echo "$1 says this"
MEASURE
}
gpu() { # NAME COMMAND...
  local name=$1
  shift
  bash "$folder/$name/gpu.sh" "$@"
}
rows() { cat "$folder/$1/results/$2.tsv"; }

# What is begun, in which order, and who chooses.
new_pack order
[ "$(gpu order plan speed | awk 'NR <= 4 { print $1 }' | xargs)" = \
  "speed_1_tcc_32 speed_1_tcc_64 speed_1_compile-padded_32 speed_1_compile-padded_64" ] || fail "tcc at 32 and 64 and one peer come first"
[ "$(gpu order plan speed | wc -l)" = 56 ] || fail "seven at four batches in two rounds are 56"
[ "$(BATCHES=16 PEERS=eager gpu order plan speed | awk '{ print $1 }' | xargs)" = \
  "speed_1_tcc_16 speed_1_eager_16 speed_2_tcc_16 speed_2_eager_16" ] || fail "BATCHES and PEERS choose"
[ "$(gpu order plan first | grep -c 'baby-bf16\|char-bf16')" = 2 ] || fail "baby and char in bf16 belong to the first"
BATCHES=12 status_of 2 gpu order speed
has "$folder/output.txt" "BATCHES has 12; packed are 32 64 8 16"
PEERS="eager jax" status_of 2 gpu order speed
has "$folder/output.txt" "PEERS has jax"
PYTHON=false BATCHES=8 status_of 0 gpu order speed parity
has "$folder/output.txt" "false has no PyTorch with CUDA: tcc alone"
[ "$(xargs <"$folder/order/begun")" = "speed_1_tcc_8 speed_2_tcc_8" ] || fail "without PyTorch tcc is measured alone"
MINUTES=soon status_of 2 gpu order speed
status_of 2 gpu order fast
has "$folder/output.txt" "FOLDER/gpu.sh first"

# Without its time nothing is begun; what the minutes end is cut short, is not done, and needs more the next time; what does
# not end in its own limit has failed.
new_pack time
MINUTES=0.001 status_of 3 gpu time profile
[ ! -e "$folder/time/begun" ] || fail "begun without its time"
has "$folder/output.txt" "profile_32 is left: it takes about 1 s, there are 0"
MINUTES=0.05 SLOW=profile_32 BATCHES=32 status_of 3 gpu time profile
has "$folder/output.txt" "profile_32 was cut short after [123] s: the minutes ended"
[ -z "$(rows time 'done')" ] || fail "what was cut short is done"
had=$(rows time cuts | cut -f2)
[ "$(BATCHES=32 gpu time plan profile | awk '{ print $2 }')" = $((had * 3 / 2)) ] || fail "what $had s did not suffice for takes longer"
BATCHES=32 MINUTES=0.0$((had > 1 ? 3 : 1)) status_of 3 gpu time profile
[ "$(wc -l <"$folder/time/begun")" = 1 ] || fail "begun where less is left than it had before"
sed -i 's/limits=100/limits=1/' "$folder/time/sizes.sh"
SLOW=profile_32 BATCHES=32 MINUTES=1 status_of 1 gpu time profile
has "$folder/output.txt" "FAILED: profile_32: no end within 1 s"
sed -i 's/limits=1$/limits=100/' "$folder/time/sizes.sh"
BATCHES=32 MINUTES=1 status_of 1 gpu time profile # what has failed is not done again unasked
BATCHES=32 MINUTES=1 AGAIN=failed status_of 0 gpu time profile
[ "$(rows time 'done' | cut -f1,2)" = "profile_32	ok" ] || fail "AGAIN does it anew"
awk -F'\t' -v OFS='\t' '{ $3 = 20; print }' "$folder/time/results/done.tsv" >"$folder/rows" && mv "$folder/rows" "$folder/time/results/done.tsv"
[ "$(BATCHES=64 gpu time plan profile | awk '{ print $2 }')" = 32 ] || fail "another batch's 20 s make 32"

# What a signal ends is cut short, twice; then it has failed. The script's end leaves an archive; one that is killed leaves a
# measurement, which the next one ends.
new_pack signals
for status in 3 3 1; do KILLED=parity MINUTES=1 status_of $status gpu signals parity; done
has "$folder/output.txt" "ended by signal 9, for the third time"
begin_slow() { # sets `script` and `process` of a measurement that is under way
  BATCHES="32 64" SLOW=profile_64 gpu signals profile >"$folder/output.txt" 2>&1 &
  until grep -qs profile_64 "$folder/signals/results/.work/running"; do sleep 0.1; done
  read -r script process _ <"$folder/signals/results/.work/running"
}
begin_slow
BATCHES=8 status_of 2 gpu signals profile
has "$folder/output.txt" "another gpu.sh measures profile_64 here"
kill -TERM "$script"
wait
tar -xzOf "$folder/signals/results.tar.gz" ./cuts.tsv >"$folder/cuts.txt"
has "$folder/cuts.txt" "profile_64.*the script was ended"
archived "$folder/signals/results.tar.gz" >"$folder/done.txt"
has "$folder/done.txt" "profile_32	ok"
begin_slow
kill -KILL "$script"
wait
grep -qs gpu_measure "/proc/$process/cmdline" || fail "what a killed script began was to go on"
BATCHES=16 status_of 0 gpu signals profile
has "$folder/output.txt" "profile_64 was cut short after 0 s: the script was killed"
if grep -qs gpu_measure "/proc/$process/cmdline"; then fail "what a killed script began goes on beside the next"; fi
[ "$(rows signals 'done' | cut -f1 | xargs)" = "parity profile_32 profile_16" ] || fail "what a killed script began is done"

# Results travel: from two machines to a third, which does the rest; not from another pack, nor from half a file.
new_pack machines
MACHINE=one RESULTS=$folder/one ARCHIVE=$folder/one.tar.gz BATCHES=32 PEERS=eager status_of 0 gpu machines speed
MACHINE=two RESULTS=$folder/two ARCHIVE=$folder/two.tar.gz BATCHES=64 PEERS="eager max-autotune" status_of 0 gpu machines speed
: >"$folder/machines/begun"
CARRIED="$folder/one.tar.gz $folder/two.tar.gz" BATCHES="32 64" PEERS="eager" status_of 0 gpu machines speed profile
[ "$(xargs <"$folder/machines/begun")" = "profile_32 profile_64" ] || fail "done twice: $(xargs <"$folder/machines/begun")"
status_of 0 gpu machines table
for text in "| B 32, tcc | 100.000 | 327680 | 5.00 | 1.50 |" "Failed: speed_1_max-autotune_64" "    no such mode" "^one$" "^two$"; do
  has "$folder/output.txt" "$text"
done
has "$folder/machines/results/table.json" '"machine": "one", "batch": 32, "who": "tcc", "ms": 100, "tokens_per_second": 327680.0'
CARRIED=$folder/one.tar.gz status_of 2 gpu order first
has "$folder/output.txt" "holds results of another pack"
head -c 200 "$folder/one.tar.gz" >"$folder/half.tar.gz"
RESULTS=$folder/three CARRIED=$folder/half.tar.gz status_of 2 gpu machines first
has "$folder/output.txt" "half.tar.gz cannot be read"

# Ended at random moments again and again.
new_pack cuts
export BATCHES="32 64" PEERS="compile-cudnn max-autotune"
run_and_cut "$folder/cuts" "${1:-5}" 3 all
MINUTES=5 gpu cuts all >"$folder/output.txt" 2>&1 || { cat "$folder/output.txt"; fail "something failed or is left"; }
all_there "$folder/cuts" max-autotune memcheck all
echo "what is done stays done, and what is cut short is not done"
