#!/usr/bin/env bash
# `gpu.sh pack`: fills a folder with all that gpu.sh needs where the GPU is.
#   gpu_pack.sh BUILD FOLDER [--small]     ARCHITECTURE (sm_90a), PYTHON, GPU_ATTENTION as gpu.sh says
# FOLDER gets the scripts, run_artefact, torch_gpt.py, artefacts/, data/ (weights, tokens, the CPU's losses), cubins/ (for a
# disassembler: GPT-2's step; where GPU_ATTENTION names its program, attention's too) and sizes.sh.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd) to=$2 small=${3:-}
architecture=${ARCHITECTURE:-sm_90a}
python=${PYTHON:-python3}

# Sizes; a rehearsal's times are shares of those that gpu_session.sh expects of a GPU.
batches="32 64 8 16" length=1024 vocabulary=50257 steps=20 ceiling="8192 8192" times=100
gpt2=(--model gpt2 --seq 1024)
baby=(--model baby --seq 64 --batch 4)
char=(--model char --layers=2 --seq 256 --batch 4) # as wide and long as `char`; six layers would be 43 MB of weights
if [ -n "$small" ]; then
  batches="1 2" length=16 vocabulary=256 steps=6 ceiling="32 64" times=5
  gpt2=(--model baby --layers=1 --heads=2 --width=16 --seq 16)
  baby=(--model baby --layers=1 --heads=2 --width=16 --seq 16 --batch 2)
  char=(--model char --layers=1 --heads=2 --width=24 --seq 16 --batch 1)
fi

train() { "$build/bin/train_gpt" "$@" --device=cpu --quiet; }
compile() { # GRAPH ARTEFACT FLAG...
  local graph=$1 artefact=$2
  shift 2
  "$build/bin/tcc" "$graph" --target=cuda -march="$architecture" "$@" -o "$to/artefacts/$artefact.tcc" >/dev/null
}

# A text of words, as long as tests need it, and its tokens, targets and steps as raw bytes for COUNT steps.
make_data() { # FOLDER TOKENS_A_STEP COUNT
  "$python" - "$@" <<'PYTHON'
import array, sys
folder, size, count = sys.argv[1], *map(int, sys.argv[2:])
text = bytes("".join(f"line {i * 7919 % 1000} of a text\n" for i in range(8000 + count * size // 16)), "ascii")
open(f"{folder}/text.txt", "wb").write(text)
tokens, targets = array.array("i"), array.array("i")
for i in range(count):
    part = text[i * size : (i + 1) * size + 1]
    tokens.extend(part[:-1]), targets.extend(part[1:])
for name, values in (("tokens", tokens), ("targets", targets), ("steps", array.array("f", range(1, count + 1)))):
    values.tofile(open(f"{folder}/{name}.raw", "wb"))
PYTHON
}

# A small model's graph, weights, tokens and losses on the CPU, in f32.
small_model() { # NAME TOKENS_A_STEP FLAG...
  local data=$to/data/$1 size=$2
  shift 2
  mkdir -p "$data"
  make_data "$data" "$size" "$steps"
  local flags=("$@" --order=sequential --schedule=constant --lr=1e-3 --data "$data/text.txt")
  train "${flags[@]}" --steps=0 --emit-graph="$data/step.graph" --save="$data"
  train "${flags[@]}" --steps="$steps" --json="$data/losses.jsonl"
}

mkdir -p "$to/artefacts" "$to/data" "$to/cubins"
for file in gpu.sh gpu_session.sh gpu_measure.sh gpu_table.sh torch_gpt.py; do cp "$here/$file" "$to/"; done
cp "$build/bin/run_artefact" "$to/"

# 1. Small models in f32 and bf16.
if [ -n "$small" ]; then sizes=(32 16); else sizes=(256 1024); fi
small_model baby "${sizes[0]}" "${baby[@]}"
small_model char "${sizes[1]}" "${char[@]}"
compile "$to/data/baby/step.graph" baby
compile "$to/data/baby/step.graph" baby-bf16 --dtype=bf16
compile "$to/data/char/step.graph" char-bf16 --dtype=bf16

# 2. GPT-2's step at each batch.
graph=$to/data/step.graph
for batch in $batches; do
  train "${gpt2[@]}" --vocab="$vocabulary" --batch "$batch" --data "$to/data/baby/text.txt" --steps=0 --emit-graph="$graph" 2>/dev/null
  compile "$graph" "gpt2_b$batch" --dtype=bf16
  if [ "$batch" = "${batches%% *}" ]; then
    cp "$graph" "$to/cubins/gpt2_b$batch.graph"
    (cd "$to/cubins" && "$build/bin/tcc" "gpt2_b$batch.graph" --target=cuda -march="$architecture" --dtype=bf16 -emit=cubin) >/dev/null
    rm -f "$to/cubins/gpt2_b$batch.graph"
  fi
done

# 3. What a copy and a matmul reach.
read -r rows columns <<<"$ceiling"
cat >"$graph" <<GRAPH
func.func @copy(%a: tensor<${rows}x${columns}xf32> {tcc.name = "a", tcc.state}) -> (tensor<${rows}x${columns}xf32> {tcc.updates = "a"}) {
  %b = tcc.neg %a : tensor<${rows}x${columns}xf32>
  func.return %b : tensor<${rows}x${columns}xf32>
}
GRAPH
compile "$graph" copy
cat >"$graph" <<GRAPH
func.func @product(%a: tensor<${rows}x${columns}xf32> {tcc.name = "a", tcc.state}, %b: tensor<${columns}x${rows}xf32> {tcc.name = "b", tcc.state})
    -> (tensor<1x1xf32> {tcc.name = "sum"}) {
  %c = tcc.matmul %a, %b : tensor<${rows}x${columns}xf32>, tensor<${columns}x${rows}xf32> -> tensor<${rows}x${rows}xf32>
  %s = tcc.reduce_sum %c axes [0, 1] : tensor<${rows}x${rows}xf32> -> tensor<1x1xf32>
  func.return %s : tensor<1x1xf32>
}
GRAPH
compile "$graph" product --dtype=bf16

# 4. Flash attention alone; what cannot be compiled here is compiled there.
if [ -n "${GPU_ATTENTION:-}" ]; then
  mkdir -p "$to/gpu_attention" "$to/cubins/attention"
  cp "$GPU_ATTENTION" "$to/gpu_attention/gpu_attention"
  cp "$here/gpu_attention/peers.py" "$to/gpu_attention/"
  cp "$here/gpu_attention.sh" "$to/"
  "$GPU_ATTENTION" --cubins "$to/cubins/attention" prebuild "$architecture" ||
    echo "attention's kernels are left to be compiled where the GPU is"
fi

rm -f "$graph" "$to"/data/*/text.txt "$to"/data/*/step.graph "$to"/data/*/tokenizer*.json
# Results belong to what was packed, and are refused beside anything else.
id=$(cat "$to/run_artefact" "$to/torch_gpt.py" "$to"/artefacts/*.tcc | cksum | tr ' ' -)
printf 'length=%s packed_batches="%s" vocabulary=%s steps=%s packed=%s times=%s limits=100\n' \
  "$length" "$batches" "$vocabulary" "$steps" "$id" "$times" >"$to/sizes.sh"
echo "packed $(du -sh "$to" | cut -f1) in $to"
