#!/usr/bin/env bash
# What this machine's CPU can do, beside PyTorch and other libraries of matmuls, in one command (all.py says what):
#   tests/bench/all.sh [--rounds=3] [--json=F.json] [--plot=F.svg] [--markdown=F.md]
# It builds the programs that it needs. PyTorch is that of TCC_TORCH_PYTHON, or of the environment that
# `bash test.sh --torch` makes; without one it stays out. BUILD names the build folder where it is not the checkout's.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
build=${BUILD:-$root/build}
torch=${TCC_TORCH_PYTHON:-${XDG_CACHE_HOME:-$HOME/.cache}/tcc-torch-env/bin/python}
ninja -C "$build" bin/train_gpt bin/tcc bin/products_bench bin/attention_bench bin/kernels_bench >&2
peer=()
if [[ -x $torch ]]; then peer=(--torch="$torch"); else echo "no PyTorch at $torch: measuring without it" >&2; fi
exec python3 "$root/tests/bench/all.py" --bin="$build/bin" "${peer[@]}" "$@"
