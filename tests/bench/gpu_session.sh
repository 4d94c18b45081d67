# shellcheck shell=bash
# Functions of gpu.sh, which sources this file. They begin a measurement only if the time that is left suffices for it,
# they keep what it found in the folder `results`, and they pack that folder into an archive, so that another machine
# can go on.
#   results/NAME/      a measurement's log.txt and its other files; the folder is whole, or it is not there
#   results/done.tsv   a line for each measurement that ended: name, ok or failed, seconds, machine, what it found
#   results/cuts.tsv   a line for each that was cut short: name, seconds that it ran, machine, what cut it short, when
#   results/.work      the measurement that is running; the archive does not have it
# A measurement is cut short when the session's minutes end, when a signal ends it or this script, or when the machine
# goes away. Then it counts as not done, its files are deleted, and next time it must have half as much time again. It
# has failed when it says so, when it did not end within its own limit, or when a signal ended it for the third time.

here=${here:?} results=${results:?} archive=${archive:?} machine=${machine:?} packed=${packed:?}
times=${times:?} limits=${limits:?} # expected seconds and limits, in percent of those that expectation() gives
deadline=0                          # when the session ends, as bash's SECONDS counts
child='' child_name='' child_began=0
declare -A ended=() skipped=() # names: ok or failed; what the machine lacks

say() { printf '%s [%s s]\n' "$1" "$SECONDS" | tee -a "$results/gpu.log"; }
refuse() {
  echo "gpu.sh: $1" >&2
  exit 2
}

# begin_session MINUTES DEVICE: measurements have these minutes, less 5 seconds for the last archive.
begin_session() {
  [[ $1 =~ ^[0-9]+([.][0-9]+)?$ ]] || refuse "MINUTES is \`$1\`; a number is needed"
  deadline=$(awk -v minutes="$1" -v times="$times" 'BEGIN { print int(minutes * 60 - 5 * times / 100) }')
  trap stopped TERM INT HUP
  grep -q "^$machine	" "$results/machines.tsv" || printf '%s\t%s\n' "$machine" "$2" >>"$results/machines.tsv"
}

# end_session NAME...: says what failed and what is left. Gives the exit status: 1 if one of ours failed, else 3 if
# something is left. It is no error of ours if a peer that tcc is compared with fails.
end_session() {
  local name failed=0 left=()
  for name in "$@"; do
    [ -n "${ended[$name]:-}${skipped[$name]:-}" ] || left+=("$name")
    [ "${ended[$name]:-}" = failed ] || continue
    say "failed: $name: $(awk -F'\t' -v name="$name" '$1 == name { print $5 }' "$results/done.tsv")"
    case $name in speed_*_tcc_*) failed=1 ;; speed_*) ;; *) failed=1 ;; esac
  done
  write_archive
  say "${#left[@]} of $# measurements are left; results in $results, as one file $archive ($(du -h "$archive" | cut -f1))"
  [ $failed = 0 ] || return 1
  [ ${#left[@]} = 0 ] || { say "left: ${left[*]}"; return 3; }
}

# --- time -----------------------------------------------------------------------------------------------------------

# expectation NAME: the seconds that a measurement is expected to take on a GPU, and the seconds after which it is
# ended.
expectation() {
  case $1 in
  first_baby* | first_char*) echo 30 150 ;;
  first_copy | first_product | attention_lanes) echo 15 60 ;;
  first_memcheck) echo 60 150 ;;
  first_gpt2) echo 30 150 ;;
  parity) echo 120 400 ;;
  speed_*_tcc_* | profile_*) echo 40 150 ;;
  speed_*_eager*) echo 40 180 ;;
  speed_*_compile*) echo 90 300 ;;
  speed_*_max-autotune_*) echo 200 480 ;;
  attention_kernels) if compgen -G "$here/cubins/attention/*" >/dev/null; then echo 15 400; else echo 120 400; fi ;;
  attention_self-test | attention_sweep) echo 120 300 ;;
  attention_bench | attention_peers) echo 90 240 ;;
  *) echo 40 120 ;;
  esac
}

limit_of() {
  local own
  read -r _ own < <(expectation "$1")
  echo $((own * limits / 100))
}

# needed NAME: the seconds that must be left for a measurement to begin. They are estimated from a measurement of the
# same kind with the same batch that has ended, else from one with another batch, else from the table above. If the
# measurement was cut short before, it needs at least half as long again as it ran then. It never needs more than its
# own limit.
needed() {
  local expected
  read -r expected _ < <(expectation "$1")
  awk -F'\t' -v name="$1" -v expected="$((expected * times / 100))" -v own="$(limit_of "$1")" '
    BEGIN { parts = split(name, want, "_"); kind = want[1]; who = kind == "speed" ? want[3] : ""; batch = want[parts] }
    FILENAME ~ /cuts\.tsv$/ { if ($1 == name && $2 > had) had = $2; next }
    $2 == "ok" && (kind == "speed" || kind == "profile") && split($1, is, "_") == parts && is[1] == kind {
      if (kind == "speed" && is[3] != who) next
      if (is[parts] == batch) same = 1.25 * $3 + 1
      else if (1.5 * $3 + 2 > other) other = 1.5 * $3 + 2 }
    END { need = same ? same : other ? other : expected
      if (need < 1.5 * had) need = 1.5 * had
      if (need > own) need = own
      printf "%d\n", need < 1 ? 1 : need }' "$results/done.tsv" "$results/cuts.tsv"
}

# --- what is known --------------------------------------------------------------------------------------------------

# Reads which measurements have ended. Results of another pack are refused; a line that was half written is dropped.
load_results() {
  local name status file
  mkdir -p "$results/.work"
  touch "$results/machines.tsv"
  [ "$(cat "$results/packed" 2>/dev/null || echo "$packed")" = "$packed" ] ||
    refuse "$results holds results of another pack; name another folder with RESULTS, or remove them"
  echo "$packed" >"$results/packed"
  for file in "$results/done.tsv" "$results/cuts.tsv"; do
    [ -e "$file" ] || : >"$file"
    [ -z "$(tail -c 1 "$file")" ] || sed -i '$d' "$file"
  done
  while IFS=$'\t' read -r name status _; do ended[$name]=$status; done <"$results/done.tsv"
}

# read_archive FILE: takes over the measurements that have not ended here.
read_archive() {
  local from=$results/.work/carried line name
  rm -rf "$from" && mkdir -p "$from"
  tar -xzf "$1" -C "$from" || refuse "$1 cannot be read; without it everything is measured anew"
  [ "$(cat "$from/packed" 2>/dev/null)" = "$packed" ] || refuse "$1 holds results of another pack"
  while IFS= read -r line; do
    name=${line%%$'\t'*}
    if [ -n "${ended[$name]:-}" ] || [ ! -d "$from/$name" ]; then continue; fi
    rm -rf "${results:?}/$name"
    mv "$from/$name" "$results/$name"
    printf '%s\n' "$line" >>"$results/done.tsv"
    ended[$name]=$(cut -f2 <<<"$line")
  done <"$from/done.tsv"
  sort -u "$from/cuts.tsv" "$results/cuts.tsv" -o "$results/cuts.tsv"
  sort -u "$from/machines.tsv" "$results/machines.tsv" -o "$results/machines.tsv" 2>/dev/null
  [ -e "$results/tuning.json" ] || [ ! -e "$from/tuning.json" ] || mv "$from/tuning.json" "$results/"
  rm -rf "$from"
}

# Packs the results. The archive is whole at every moment, since a machine may go away at any moment and the last
# archive is then all that is left of its results.
write_archive() {
  if tar -C "$results" --exclude=./.work -czf "$archive.part" . && mv -f "$archive.part" "$archive"; then return; fi
  say "the archive $archive cannot be written"
}

# forget NAME: removes a measurement's results, so that it is measured again.
forget() {
  awk -F'\t' -v name="$1" '$1 != name' "$results/done.tsv" >"$results/.work/done.tsv" && mv "$results/.work/done.tsv" "$results/done.tsv"
  rm -rf "${results:?}/$1"
  unset "ended[$1]"
}

# --- measurements ---------------------------------------------------------------------------------------------------

# Ends the measurement that an earlier script left running when it was killed: it would disturb the next one.
end_leftovers() {
  local script process name
  [ -s "$results/.work/running" ] || return 0
  read -r script process name <"$results/.work/running"
  if grep -qs 'gpu\.sh' "/proc/$script/cmdline"; then refuse "another gpu.sh measures $name here (process $script)"; fi
  if grep -qs 'gpu_measure\.sh' "/proc/$process/cmdline"; then kill -KILL -- "-$process" 2>/dev/null; fi
  rm -f "$results/.work/running"
  cut_short "$name" 0 "the script was killed"
}

keep() { # NAME ok|failed SECONDS NOTE
  rm -rf "${results:?}/$1"
  mv "$results/.work/$1" "$results/$1"
  printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$machine" "$4" >>"$results/done.tsv"
  ended[$1]=$2
  write_archive
}

cut_short() { # NAME SECONDS BY_WHAT
  printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$machine" "$3" "$EPOCHREALTIME" >>"$results/cuts.tsv"
  rm -rf "$results/.work/$1"
  say "$1 was cut short after $2 s: $3"
  write_archive
}

# A signal ends this script: the measurement that runs is cut short.
stopped() {
  trap '' TERM INT HUP
  if [ -n "$child" ]; then
    kill -KILL -- "-$child" "$child" 2>/dev/null
    wait "$child" 2>/dev/null
    rm -f "$results/.work/running"
    cut_short "$child_name" $((SECONDS - child_began)) "the script was ended"
  fi
  exit 143
}

# last_line FILE: the last line that is not blank, as one field of a table.
last_line() { grep -v '^[[:space:]]*$' "$1" | tail -1 | tr '\t' ' ' | cut -c1-300; }

measure() { # NAME
  local name=$1 work=$results/.work/$1 need own left limit status took
  [ -z "${ended[$name]:-}" ] || return 0
  need=$(needed "$name") own=$(limit_of "$name") left=$((deadline - SECONDS))
  if ((left < need)); then
    say "$name is left: it takes about $need s, there are $((left < 0 ? 0 : left))"
    return
  fi
  limit=$((own < left ? own : left))
  rm -rf "$work" && mkdir -p "$work"
  child_name=$name child_began=$SECONDS
  (
    echo "$$ $BASHPID $name" >"$results/.work/running"
    exec timeout -k 2 "$limit" bash "$here/gpu_measure.sh" "$name" "$work" "$results/tuning.json"
  ) >"$work/log.txt" 2>&1 </dev/null &
  child=$!
  wait "$child" 2>/dev/null
  status=$?
  took=$((SECONDS - child_began))
  # A machine that goes away may end the measurement before this script. So after a failure the script waits for a
  # second: if a signal ends it by then, the measurement was cut short and has not failed.
  case $status in 0 | 77) ;; *) sleep "$(printf '%d.%02d' $((times / 100)) $((times % 100)))" ;; esac
  child=''
  rm -f "$results/.work/running"
  say "== $name, $took s"
  tail -40 "$work/log.txt" | tee -a "$results/gpu.log"
  if [ $status = 124 ] || { [ $status = 137 ] && ((took >= limit)); }; then
    if ((limit < own)); then
      cut_short "$name" "$took" "the minutes ended"
      return
    fi
    echo "no end within $own s" >>"$work/log.txt"
  fi
  case $status in
  0)
    [ -s "$work/value" ] || last_line "$work/log.txt" >"$work/value"
    keep "$name" ok "$took" "$(cat "$work/value")"
    ;;
  77) rm -rf "$work"; skipped[$name]=1 ;;
  129 | 130 | 137 | 143)
    if ((took < limit)) && [ "$(grep -c "^$name	.*	a signal	" "$results/cuts.tsv")" -lt 2 ]; then
      cut_short "$name" "$took" "a signal"
    else
      ((took >= limit)) || echo "ended by signal $((status - 128)), for the third time" >>"$work/log.txt"
      fail_measurement "$name" "$took"
    fi
    ;;
  *) fail_measurement "$name" "$took" ;;
  esac
}

fail_measurement() { # NAME SECONDS
  local line
  line=$(last_line "$results/.work/$1/log.txt")
  keep "$1" failed "$2" "$line"
  say "FAILED: $1: $line"
}
