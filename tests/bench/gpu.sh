#!/usr/bin/env bash
# Measures what only a GPU can tell, on a machine that is lent for minutes at a time. The folder that runs there needs the
# driver, CUDA's libraries and glibc, and no compiler. `pack` fills it where the compiler is; the other commands run on the
# machine with the GPU:
#   tests/bench/gpu.sh pack BUILD FOLDER [--small]   fills FOLDER (tar it); --small: sizes for a rehearsal. ARCHITECTURE=sm_90a;
#                                  GPU_ATTENTION=FILE packs that program of gpu_attention.sh too, and its cubins
#   FOLDER/gpu.sh first            whether results are right: baby in f32 and bf16 and char in bf16 beside the CPU's losses,
#                                  captured and not, in another process, with memory of its own for each value; one step
#                                  under compute-sanitizer; what a copy and a matmul reach; one step of GPT-2
#   FOLDER/gpu.sh speed            GPT-2 124M: tcc, then one peer, at the first two batches; then all the others
#   FOLDER/gpu.sh parity           GPT-2, 50 steps beside PyTorch from the same weights and tokens
#   FOLDER/gpu.sh profile          each launch of GPT-2's step: time, GB/s, TFLOP/s
#   FOLDER/gpu.sh attention        the stages of gpu_attention.sh, cubins first
#   FOLDER/gpu.sh all              all of these, the most needed first
#   FOLDER/gpu.sh plan [COMMAND]   what a command would measure, the seconds that each takes, and what is done
#   FOLDER/gpu.sh table            results as Markdown for docs/PERFORMANCE.md, and as JSON
# Several commands can be named. A session has MINUTES (9): a measurement that needs more than is left of them is not begun,
# and one that is cut short counts as not done. Run the same command again, here or on the next machine, until nothing is
# left; measurements that are done are not repeated. The folder RESULTS (FOLDER/results) gets everything, and after each
# measurement the file ARCHIVE (FOLDER/results.tar.gz) gets the same. At the start the results in ARCHIVE and in the archives
# that CARRIED names are taken over. BATCHES (32 64 8 16) and PEERS (compile-padded compile-cudnn compile max-autotune
# eager-cudnn eager; may be empty) say what is measured, in this order. AGAIN names measurements to repeat; `failed` stands
# for those that failed. PYTHON is a Python that has PyTorch. The exit status is 1 if something is wrong, else 3 if
# something is left.
set -u
here=$(cd "$(dirname "$0")" && pwd)
usage() { sed -n '2,/^set -u/p' "$0" | sed '$d; s/^# \?//'; }

case ${1:-} in
pack)
  [ $# -ge 3 ] || { usage >&2; exit 2; }
  shift
  bash "$here/gpu_pack.sh" "$@" || { echo "gpu.sh: packing failed" >&2; exit 1; }
  exit 0
  ;;
-h | --help) usage; exit 0 ;;
first | speed | parity | profile | attention | all | plan | table) ;;
*) usage >&2; exit 2 ;;
esac

length='' packed_batches=''
[ -f "$here/sizes.sh" ] || { echo "gpu.sh: no archive lies here; \`gpu.sh pack\` makes one" >&2; exit 2; }
# shellcheck source=/dev/null
. "$here/sizes.sh"
results=${RESULTS:-$here/results}
archive=${ARCHIVE:-$here/results.tar.gz}
python=${PYTHON:-python3}
mkdir -p "$results" "$(dirname "$archive")"
results=$(cd "$results" && pwd)
machine=${MACHINE:-unknown} described=${MACHINE:-unknown}
if [ "$machine" = unknown ] && command -v nvidia-smi >/dev/null; then
  machine=$(nvidia-smi --query-gpu=uuid --format=csv,noheader | head -1 | cut -c5-12)
  described=$(nvidia-smi --query-gpu=name,driver_version,clocks.max.sm,power.limit,memory.total --format=csv,noheader | head -1)
fi
# shellcheck source=tests/bench/gpu_session.sh disable=SC1091
. "$here/gpu_session.sh"

# --- what is measured -----------------------------------------------------------------------------------------------

read -ra batches <<<"${BATCHES:-$packed_batches}"
for batch in "${batches[@]}"; do
  [ -f "$here/artefacts/gpt2_b$batch.tcc" ] || refuse "BATCHES has $batch; packed are $packed_batches"
done
read -ra peers <<<"${PEERS-compile-padded compile-cudnn compile max-autotune eager-cudnn eager}"
for peer in "${peers[@]}"; do
  case $peer in
  eager | eager-cudnn | compile | compile-cudnn | compile-padded | max-autotune) ;;
  *) refuse "PEERS has $peer; there are compile-padded, compile-cudnn, compile, max-autotune, eager-cudnn, eager" ;;
  esac
done

torch_is_there() { timeout -k 2 90 "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' >/dev/null 2>&1; }
# Without PyTorch there are no peers. Asked once.
find_peers() {
  [ ${#peers[@]} != 0 ] || return 0
  torch_is_there && return
  say "$python has no PyTorch with CUDA: tcc alone"
  peers=()
}

speed_names() { # "BATCHES" WHO...: both rounds, who after who
  local round who batch of=$1
  shift
  for round in 1 2; do
    for who in "$@"; do
      for batch in $of; do echo "speed_${round}_${who}_$batch"; done
    done
  done
}

names_of() { # COMMAND
  local stage
  case $1 in
  first) printf 'first_%s\n' baby baby-bf16 char-bf16 memcheck copy product gpt2 ;;
  speed-first) speed_names "${batches[*]:0:2}" tcc "${peers[@]:0:1}" ;;
  speed)
    names_of speed-first
    speed_names "${batches[*]:2}" tcc "${peers[@]:0:1}"
    speed_names "${batches[*]}" "${peers[@]:1}"
    ;;
  parity) [ ${#peers[@]} = 0 ] || echo parity ;;
  profile) printf 'profile_%s\n' "${batches[@]}" ;;
  attention)
    for stage in kernels lanes self-test bench peers sweep memcheck racecheck initcheck synccheck; do
      case $stage in
      kernels) ;;
      peers) [ ${#peers[@]} != 0 ] || continue ;;&
      *) [ -f "$here/gpu_attention.sh" ] || continue ;;
      esac
      echo "attention_$stage"
    done
    ;;
  all) for stage in first speed-first parity profile attention speed; do names_of $stage; done ;;
  *) refuse "no command is called $1" ;;
  esac
}

# --- commands -------------------------------------------------------------------------------------------------------

load_results
[ "$1" = table ] || [ "$1" = plan ] || end_leftovers
for file in ${CARRIED:-}; do read_archive "$file"; done
[ ! -e "$archive" ] || read_archive "$archive"
case $1 in
table) exec bash "$here/gpu_table.sh" "$results" "$length" ;;
plan)
  shift
  for command in "${@:-all}"; do names_of "$command"; done | awk '!seen[$0]++' | while read -r name; do
    printf '%-32s %4s s  %s\n' "$name" "$(needed "$name")" "${ended[$name]:-}"
  done
  exit 0
  ;;
esac
for name in ${AGAIN:-}; do
  for known in "${!ended[@]}"; do
    if [ "$name" = "$known" ] || [ "$name" = "${ended[$known]}" ]; then forget "$known"; fi
  done
done
begin_session "${MINUTES:-9}" "$described"
find_peers
mapfile -t planned < <(for command in "$@"; do names_of "$command"; done | awk '!seen[$0]++')
for name in "${planned[@]}"; do measure "$name"; done
end_session "${planned[@]}"
