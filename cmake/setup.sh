# Shared by run.sh and test.sh (sourced, bash): Debian packages, configuration, build. Callers set `root` to the
# checkout and `install` to 1 or 0 (--no-install). Everything here does nothing where its work is done already.
# shellcheck shell=bash
# The callers set `root` and `install` and use the package lists:
# shellcheck disable=SC2154,SC2034

build_dir="$root/build"
llvm_dir=/usr/lib/llvm-22
terminal=0
if [[ -t 0 ]]; then terminal=1; fi

# What the build and every program of the project need.
build_packages=(
  cmake ninja-build clang-22 git python3 python3-dev python3-venv
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools liblld-22-dev
  libzstd-dev zlib1g-dev libxml2-dev libcurl4-openssl-dev libedit-dev
  libfmt-dev nlohmann-json3-dev libxxhash-dev libdlpack-dev libcli11-dev libonig-dev libutf8proc-dev
  libgtest-dev libgmock-dev libbenchmark-dev pkg-config
)
# A browser that tests click through the page of --report with; the second compiler, and what AddressSanitizer links.
test_packages=(chromium chromium-driver fonts-dejavu-core g++ libclang-rt-22-dev)
# The text that run.sh trains on.
text_packages=(bible-kjv)
# Both MPIs, for the tests of several processes.
rank_packages=(libopenmpi-dev openmpi-bin libmpich-dev mpich)
# For work on the project: quick rebuilds, format and lint, and whom products are measured beside.
developer_packages=(ccache clang-format-22 clang-tidy-22 libdnnl-dev)

# say LINE...: prints each argument as a line.
say() { printf '%s\n' "$@"; }

fail() {
  printf 'error: %s\n' "$1" >&2
  shift
  if (($#)); then printf '  %s\n' "$@" >&2; fi
  exit 1
}

# missing_packages NAME...: those that are not installed, one a line.
missing_packages() {
  local installed name
  installed=$(dpkg-query -W -f='${Package} ${db:Status-Status}\n' "$@" 2>/dev/null | awk '$2 == "installed" { print $1 }') ||
    true # dpkg-query fails where it knows one of the names not at all
  for name in "$@"; do
    grep -qxF -- "$name" <<<"$installed" || printf '%s\n' "$name"
  done
}

# as_root COMMAND...: directly where root, else through sudo, which may ask for a password on a terminal only.
as_root() {
  if ((EUID == 0)); then
    "$@"
  elif ((terminal)); then
    sudo -- "$@"
  else
    sudo -n -- "$@"
  fi
}

can_be_root() {
  ((EUID == 0)) || { command -v sudo >/dev/null && as_root true; }
}

apt_get() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=600 "$@" </dev/null; }

# has_candidate NAME: whether apt knows a version to install.
has_candidate() { LC_ALL=C apt-cache policy "$1" 2>/dev/null | grep 'Candidate: [^(]' >/dev/null; }

# archives: "release address" of each archive that apt uses, one a line.
archives() { LC_ALL=C apt-get indextargets --format "\$(RELEASE) \$(REPO_URI)" 2>/dev/null | sort -u; }

# security_archive SUITE: the address of an archive that serves SUITE: beside the mirror that this machine uses, else
# Debian's own.
security_archive() {
  local suite=$1 release_file uri found=
  release_file=$(mktemp)
  while read -r uri; do
    if /usr/lib/apt/apt-helper -q download-file "$uri/dists/$suite/InRelease" "$release_file" >/dev/null 2>&1; then
      found=$uri
      break
    fi
  done < <(
    archives | awk -v release="${suite%-security}" '$1 == release { print $2 }' | sed -n 's,/debian/*$,/debian-security,p'
    printf 'http://security.debian.org/debian-security\n'
  )
  rm -f "$release_file"
  [[ -n $found ]] && printf '%s\n' "$found"
}

# add_security_suite: MLIR 22 comes from Debian's security suite; adds it in a file of its own.
add_security_suite() {
  local id codename suite uri list=/etc/apt/sources.list.d/tcc-debian-security.sources
  # shellcheck source=/dev/null
  id=$(. /etc/os-release && printf '%s' "$ID")
  # shellcheck source=/dev/null
  codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
  [[ $id == debian && $codename == bookworm ]] ||
    fail "apt knows no package libmlir-22-dev, and this is not Debian 12 (it is ${id:-unknown} ${codename:-})" \
      "tcc needs LLVM, MLIR and LLD 22; on Debian 12 they come from the suite bookworm-security"
  suite=$codename-security
  if archives | grep "^$suite " >/dev/null; then
    fail "apt uses the suite $suite, but finds no package libmlir-22-dev there" \
      "it needs the component main and an up-to-date archive for $(dpkg --print-architecture)"
  fi
  uri=$(security_archive "$suite") || fail "no archive of the suite $suite can be reached" \
    "MLIR 22 comes from there; check the network or add the suite to /etc/apt yourself"
  say "MLIR 22 is in Debian's security suite, which this machine does not use: adding $list ($uri)"
  printf '%s\n' 'Types: deb' "URIs: $uri" "Suites: $suite" 'Components: main' \
    'Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg' | as_root tee "$list" >/dev/null ||
    fail "cannot write $list"
}

# download_size NAME...: what apt says it will fetch and unpack for these and what they need.
download_size() {
  LC_ALL=C apt-get install --assume-no --no-install-recommends "$@" 2>/dev/null </dev/null |
    grep -E '^(Need to get|After this operation)' || true
}

# announce NAME...: what will be downloaded and built, and how long that takes, before any of it begins; nothing where
# all is there.
announce() {
  local missing minutes
  command -v dpkg-query >/dev/null || return 0
  mapfile -t missing < <(missing_packages "$@")
  minutes=$(((10 + $(build_jobs) - 1) / $(build_jobs) + 1))
  if ((${#missing[@]})); then
    say "first: ${#missing[@]} of $# Debian packages are missing (all of them: about 250 MB to download, 1.8 GB on disk)"
  fi
  if [[ ! -x $build_dir/bin/train_gpt ]]; then
    say "then: the build, about $minutes minutes with $(build_jobs) jobs; a second run needs neither"
  fi
}

# require_packages NAME...: installs what is missing, or says what to install and exits with 1.
require_packages() {
  command -v dpkg-query >/dev/null ||
    fail 'this is not Debian: dpkg-query is missing' "tcc is built on Debian 12 from these packages: $*"
  local missing
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]})) || return 0
  local how=("install them with: sudo apt-get install --no-install-recommends ${missing[*]}")
  if ! has_candidate libmlir-22-dev; then
    how+=("libmlir-22-dev and what belongs to it come from Debian 12's suite bookworm-security, which apt has no list of;"
      'run.sh without --no-install, as root or with sudo, adds it')
  fi
  ((install)) || fail "${#missing[@]} packages are missing:" "${missing[@]}" "${how[@]}"
  can_be_root || fail "${#missing[@]} packages are missing, and neither root nor sudo is at hand to install them:" \
    "${missing[@]}" "${how[@]}"

  say "installing ${#missing[@]} Debian packages: ${missing[*]}"
  apt_get update || say 'apt-get update failed; going on with the lists that are there'
  if ! has_candidate libmlir-22-dev; then
    add_security_suite
    apt_get update || fail 'apt-get update failed after the security suite was added'
  fi
  download_size "${missing[@]}"
  apt_get install -y --no-install-recommends "${missing[@]}" ||
    fail 'apt-get could not install the packages; its messages are above' "${how[@]}"
  mapfile -t missing < <(missing_packages "$@")
  ((${#missing[@]} == 0)) || fail 'still missing after the installation:' "${missing[@]}"
}

# build_jobs: one a processor, fewer where memory is short (a file with MLIR's headers takes about 1.5 GB).
build_jobs() {
  local processors memory_kb fitting
  processors=$(nproc)
  memory_kb=$(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo)
  fitting=$((memory_kb / 1500000))
  ((fitting >= 1)) || fitting=1
  printf '%s\n' $((processors < fitting ? processors : fitting))
}

# configure_build: Release, Ninja, ccache when there. Ninja itself configures again when a CMake file changes. With
# --dev (`developer`) each file is compiled by itself, so that a changed one is built quickly.
configure_build() {
  local cache=$build_dir/CMakeCache.txt
  if [[ -f $cache ]] && ! grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$root" "$cache"; then
    say 'the checkout has moved: configuring anew'
    rm -rf "$cache" "$build_dir/CMakeFiles"
  fi
  if ((${developer:-0})) && [[ -f $cache ]] && grep -qx 'TCC_UNITY:BOOL=ON' "$cache"; then
    cmake -DTCC_UNITY=OFF "$build_dir" >/dev/null || fail "CMake failed for $build_dir"
  fi
  [[ -f $cache && -f $build_dir/build.ninja ]] && return 0
  say "configuring $build_dir (the build after it takes some minutes: MLIR's headers are heavy)"
  local log=$build_dir/configure.log
  local batches=ON
  if ((${developer:-0})); then batches=OFF; fi
  mkdir -p "$build_dir"
  if ! cmake -S "$root" -B "$build_dir" -G Ninja -DCMAKE_BUILD_TYPE=Release -DTCC_UNITY=$batches \
    -DMLIR_DIR="$llvm_dir/lib/cmake/mlir" >"$log" 2>&1; then
    cat "$log" >&2
    fail "CMake failed; its messages are above and in $log"
  fi
}

# build_progress: of ninja's lines, one each tenth of the way; everything else (warnings, errors) as it comes.
build_progress() {
  awk 'match($0, /^\[[0-9]+\/[0-9]+\]/) {
      split(substr($0, 2, RLENGTH - 2), step, "/")
      if (step[1] * 10 >= shown * step[2]) { printf "  %d of %d built\n", step[1], step[2]; fflush(); ++shown }
      next
    }
    !/^ninja: (Entering|no work)/ { print; fflush() }
    BEGIN { shown = 1 }'
}

# build_targets NAME...: builds these targets of build/. On a terminal one line is rewritten, elsewhere each tenth is
# said; what the compiler says is always shown.
build_targets() {
  configure_build
  local jobs
  jobs=$(build_jobs)
  say "building $* with $jobs jobs"
  if [[ -t 1 ]]; then
    NINJA_STATUS='  %f of %t built, %e s  ' cmake --build "$build_dir" -j "$jobs" --target "$@"
  else
    NINJA_STATUS='[%f/%t] ' cmake --build "$build_dir" -j "$jobs" --target "$@" 2>&1 | build_progress
  fi || fail 'the build failed; its messages are above'
}
