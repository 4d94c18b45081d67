#!/usr/bin/env bash
# The Debian packages on a clean Debian 12: installed, the README's trainer built by CMake and run there, removed without
# a trace. Needs root and a network.
#
#   deb_test.sh BUILD-FOLDER ROOT     ROOT: a Debian 12 as `debootstrap --variant=minbase bookworm ROOT` makes it
set -euo pipefail
if (($# != 2)) || [[ ! -x ${2-}/usr/bin/apt-get ]]; then
  sed -n '2,5p' "$0" >&2
  exit 2
fi
build=$(realpath "$1") root=$(realpath "$2") source=$(cd "$(dirname "$0")/../.." && pwd)

inside() { # in the root, with /proc; mounts of its own end with it
  unshare --mount bash -c 'mount -t proc proc "$1/proc" 2>/dev/null || mount --rbind /proc "$1/proc"
    root=$1; shift; exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"' \
    inside "$root" "$@"
}
install_in_root() { inside apt-get -q -y --no-install-recommends install "$@" >>"$root/tmp/apt.log" 2>&1 || {
  tail -30 "$root/tmp/apt.log" >&2
  exit 1
}; }
# Every file of the root but apt's and dpkg's own books.
files() { (cd "$root" && find . -xdev \( -path ./proc -o -path ./var/lib/dpkg -o -path ./var/lib/apt -o -path ./var/cache -o \
  -path ./var/log -o -path ./tmp -o -path ./root -o -name ld.so.cache \) -prune -o -print | sort); }

# 1. Packages, and a root that knows the security suite, which LLVM 22 comes from.
cmake -E rm -rf "$build/packages"
(cd "$build" && cpack -G DEB >/dev/null)
cp /etc/resolv.conf "$root/etc/resolv.conf"
# From where this machine, a Debian 12 too, has its packages.
apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
  sort -u >"$root/etc/apt/sources.list"
grep -q -- '-security ' "$root/etc/apt/sources.list" || {
  echo "apt knows no security suite of Debian here" >&2
  exit 1
}
inside apt-get -q update >"$root/tmp/apt.log" 2>&1
# What the packages need, and what builds a program, is there before; ours are what differs.
cp "$build"/packages/*.deb "$root/tmp/"
mapfile -t needs < <(for deb in "$build"/packages/*.deb; do dpkg-deb -f "$deb" Depends; done | tr ',' '\n' |
  sed 's/(.*//; s/ //g' | grep -v '^tcc-graph' | sort -u)
install_in_root "${needs[@]}" g++ cmake make pkg-config
inside apt-get -q -y purge tcc-graph tcc-graph-dev tcc-graph-runtime >>"$root/tmp/apt.log" 2>&1 || true # of a run that was ended
rm -rf "$root/tmp/trainer"
before=$(files)

# 2. Installed and used.
debs=("$build"/packages/*.deb)
install_in_root "${debs[@]/#*\///tmp/}"
inside dpkg --audit
for deb in "$build"/packages/*.deb; do
  printf '%s: %d bytes, installed %d kB\n' "$(basename "$deb")" "$(stat -c %s "$deb")" "$(dpkg-deb -c "$deb" | awk '{ sum += $3 } END { printf "%.0f", sum / 1000 }')"
done
[[ $(inside tcc -dumpversion) == $(inside tcc-graph -dumpversion) ]]
cp "$source/models/train_step.graph" "$root/tmp/"
inside tcc /tmp/train_step.graph -o /tmp/step.tcc
mkdir -p "$root/tmp/trainer"
sed -n '/^```cpp$/,/^```$/p' "$source/README.md" | sed '/^```/d' >"$root/tmp/trainer/trainer.cpp"
cat >"$root/tmp/trainer/CMakeLists.txt" <<'LIST'
cmake_minimum_required(VERSION 3.25)
project(trainer LANGUAGES CXX)
find_package(tcc CONFIG REQUIRED)
add_executable(trainer trainer.cpp)
target_link_libraries(trainer PRIVATE tcc::tcc)
LIST
inside sh -c 'cmake -S /tmp/trainer -B /tmp/trainer/build && cmake --build /tmp/trainer/build' >"$root/tmp/build.log" 2>&1 ||
  { cat "$root/tmp/build.log" >&2; exit 1; }
losses=$(inside /tmp/trainer/build/trainer)
printf 'losses of the trainer: %s … %s\n' "$(head -1 <<<"$losses")" "$(tail -1 <<<"$losses")"
awk 'NR == 1 { first = $1 } { last = $1 } END { exit !(NR == 100 && last < first / 2) }' <<<"$losses"

# 3. Removed without a trace.
inside apt-get -q -y purge tcc-graph tcc-graph-dev tcc-graph-runtime >>"$root/tmp/apt.log" 2>&1
after=$(files)
if [[ $before != "$after" ]]; then
  diff <(printf '%s\n' "$before") <(printf '%s\n' "$after") >&2 || true
  echo 'error: the root differs after the packages are gone' >&2
  exit 1
fi
echo 'installed, used and removed without a trace'
