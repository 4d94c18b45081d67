# torch_environment (sourced by test.sh, bash): a virtual environment with PyTorch for the Python package's tests, and
# with wandb (0.1 GB) for that of train_gpt --wandb, made once under the user's cache. Sets TCC_TORCH_PYTHON; without a
# network the tests skip themselves.
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
  # The last versions that read their files in Python.
  if [[ ! -e $folder/wandb ]]; then
    if timeout "$limit" "$folder/bin/pip" install --quiet --disable-pip-version-check 'wandb>=0.19,<0.24' </dev/null; then
      touch "$folder/wandb"
    else
      say "wandb could not be installed: its test is skipped"
    fi
  fi
  export TCC_TORCH_PYTHON=$folder/bin/python
}
