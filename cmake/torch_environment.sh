# torch_environment (sourced by test.sh, bash): a virtual environment with PyTorch for the Python package's tests, made
# once under the user's cache. Sets TCC_TORCH_PYTHON; without a network the tests skip themselves.
# shellcheck shell=bash
torch_environment() {
  local folder=${XDG_CACHE_HOME:-$HOME/.cache}/tcc-torch-env limit=360 start=$SECONDS
  if [[ ! -e $folder/complete ]]; then
    say "PyTorch for the tests of the Python package: $folder"
    if ! { python3 -m venv "$folder" &&
      timeout "$limit" "$folder/bin/pip" install --quiet --disable-pip-version-check 'torch>=2.10' transformers numpy pytest \
        expecttest && touch "$folder/complete"; } </dev/null; then
      say "PyTorch could not be installed within $limit s: the tests of the Python package are skipped"
      return
    fi
    say "installed in $((SECONDS - start)) s, $(du -sh "$folder" | cut -f1)"
  fi
  export TCC_TORCH_PYTHON=$folder/bin/python
}
