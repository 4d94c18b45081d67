# shellcheck shell=bash
# Sourced by gpu_rehearsal.sh and gpu_session_test.sh: gpu.sh on machines that end at random moments, and what has to hold
# after each end. SEED (printed) draws the moments again, as far as a busy machine allows.

fail() {
  echo "$(basename "$0" .sh): $1" >&2
  exit 1
}
has() { # FILE TEXT
  grep -q -- "$2" "$1" && return
  cat "$1" >&2
  fail "$1 has no \`$2\`"
}
# status_of EXPECTED COMMAND...: its output in $folder/output.txt.
status_of() {
  local expected=$1 status
  shift
  "$@" >"$folder/output.txt" 2>&1
  status=$?
  [ $status = "$expected" ] && return
  cat "$folder/output.txt" >&2
  fail "$(basename "$1") ${*:2} ended with $status instead of $expected"
}

make_torch() { # FOLDER: a package that says that it has CUDA
  mkdir -p "$1/torch"
  printf 'class cuda:\n    is_available = staticmethod(lambda: True)\n' >"$1/torch/__init__.py"
  export PYTHONPATH=$1
}

# Lines of an archive's list of results, sorted; it is whole at every moment.
archived() {
  [ -e "$1" ] || return 0
  tar -xzOf "$1" ./done.tsv | sort || fail "$1 is broken"
}

# What ends when a machine does: the measurement with its group.
end_measurement() { # RESULTS
  local process
  read -r _ process _ 2>/dev/null <"$1/.work/running" && kill -KILL -- "-$process" 2>/dev/null
}

has_lines() { # FILE COUNT: that many or more
  [ -e "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]
}

# run_and_cut FOLDER CUTS TENTHS COMMAND...: gpu.sh COMMAND, ended CUTS times when some more measurements are done and at most
# TENTHS tenths of a second have passed since, by a signal to the script, without a word, or with its measurement first; then
# the same machine goes on, or another one that has the archive alone. What was done before is there after each end as it was.
run_and_cut() {
  local folder=$1 cuts=$2 tenths=$3 cut script way target moment results=$1/results
  shift 3
  for ((cut = 1; cut <= cuts; ++cut)); do
    archived "$folder/results.tar.gz" >"$folder.before"
    target=$(($(wc -l <"$folder.before") + RANDOM % (50 / cuts + 1))) moment=$((RANDOM % tenths + 1)) way=$((RANDOM % 4))
    MINUTES=$((RANDOM % 3)).$((RANDOM % 9 + 1)) setsid bash "$folder/gpu.sh" "$@" >"$folder.log" 2>&1 &
    script=$!
    while kill -0 $script 2>/dev/null && ! has_lines "$results/done.tsv" $target; do sleep 0.02; done
    sleep $((moment / 10)).$((moment % 10))
    case $way in
    0) kill -TERM $script 2>/dev/null ;;
    1) kill -KILL $script 2>/dev/null ;;
    2)
      end_measurement "$results"
      kill -KILL $script 2>/dev/null
      ;;
    3)
      kill -KILL $script 2>/dev/null
      end_measurement "$results"
      ;;
    esac
    wait $script 2>/dev/null
    archived "$folder/results.tar.gz" >"$folder.after"
    if has_lines "$results/done.tsv" $(($(wc -l <"$folder.after") + 2)); then fail "the archive lacks more than what ended last"; fi
    if ((RANDOM % 2)); then
      end_measurement "$results"
      rm -rf "$results" # another machine
    fi
    echo "end $cut, way $way: $(wc -l <"$folder.before"), then $(wc -l <"$folder.after") measurements are done"
    [ -z "$(comm -23 "$folder.before" "$folder.after")" ] || fail "done and lost: $(comm -23 "$folder.before" "$folder.after")"
  done
}

# all_there FOLDER FAILING COMMAND...: each measurement of these commands is done once; those alone failed, and those are
# skipped, whose names match.
all_there() {
  local folder=$1 failing=$2 skipped=$3
  shift 3
  bash "$folder/gpu.sh" plan "$@" | awk '{ print $1 }' | grep -v "$skipped" | sort >"$folder.planned"
  archived "$folder/results.tar.gz" | cut -f1 | sort >"$folder.done"
  diff "$folder.planned" "$folder.done" || fail "not every measurement is there once"
  [ "$(archived "$folder/results.tar.gz" | awk -F'\t' '$2 == "failed" { print $1 }' | sort)" = "$(grep "$failing" "$folder.planned")" ] ||
    fail "recorded as failed: $(archived "$folder/results.tar.gz" | awk -F'\t' '$2 == "failed"')"
}

RANDOM=${SEED:=$((RANDOM + 1))}
echo "SEED=$SEED"
