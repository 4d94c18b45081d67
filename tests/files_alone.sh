#!/usr/bin/env bash
# Compiles each file of the libraries by itself: in batches, a file may rely on what another one includes.
#   files_alone.sh SOURCE FOLDER COMPILER MLIR_DIR      FOLDER is made for it
set -euo pipefail
source=$1 folder=$2 compiler=$3 mlir=$4
cmake -S "$source" -B "$folder" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE=-O0 -DTCC_UNITY=OFF \
  -DCMAKE_CXX_COMPILER="$compiler" -DMLIR_DIR="$mlir" >/dev/null
# The status is the build's, which goes on after a file that does not compile; its progress is left out.
cmake --build "$folder" -j "$(nproc)" --target bin/tcc bin/train_gpt -- -k 0 | { grep -v '^\[' || true; }
rm -rf "$folder"
