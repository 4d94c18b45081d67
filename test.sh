#!/usr/bin/env bash
# The same set-up as run.sh, then every test through ctest; ctest's summary comes last.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

usage() {
  cat <<'TEXT'
bash test.sh                    install what is missing, build everything, run every test
bash test.sh -R models          arguments go to ctest: only tests whose name matches
bash test.sh --no-install       the same with the packages that are there, or a list of those that are missing
bash test.sh --torch            also test the Python package, with PyTorch in an environment of its own (6 GB, once)
bash test.sh --dev              also install ccache, clang, clang-format and clang-tidy
TEXT
}

install=1 developer=0 torch=0
while (($#)); do
  case $1 in
    --no-install) install=0 ;;
    --dev) developer=1 ;;
    --torch) torch=1 ;;
    -h | --help)
      usage
      exit 0
      ;;
    *) break ;;
  esac
  shift
done

# shellcheck source=cmake/setup.sh
source "$root/cmake/setup.sh"

packages=("${build_packages[@]}" "${text_packages[@]}" "${test_packages[@]}" "${rank_packages[@]}")
if ((developer)); then packages+=("${developer_packages[@]}"); fi
require_packages "${packages[@]}"
build_targets all
if ((torch)); then
  # shellcheck source=cmake/torch_environment.sh
  source "$root/cmake/torch_environment.sh"
  torch_environment
fi
ctest --test-dir "$build_dir" --output-on-failure -j "$(nproc)" "$@"
