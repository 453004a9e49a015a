# shellcheck shell=bash
# What the scripts share: messages, folders, locks and the build. To be sourced.
# Everything is said on standard error; standard output belongs to the programs that the scripts run.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
# Written by scripts/setup: what was set up, and in the second line the LibTorch folder that was found.
setup_stamp=$root/build/setup.stamp

say() { printf 'bov: %s\n' "$*" >&2; }

die() {
  say "$*"
  exit 1
}

# take_lock FILE WHAT: holds the lock FILE until release_lock or the end of the script.
take_lock() {
  mkdir -p "$(dirname "$1")" || die "cannot make the folder $(dirname "$1")"
  exec {lock_descriptor}>"$1"
  flock --nonblock "$lock_descriptor" || {
    say "waiting: another $2 is running"
    flock "$lock_descriptor"
  }
}

release_lock() { exec {lock_descriptor}>&-; }

torch_folder() { sed -n 2p "$setup_stamp"; }

# A preset of CMakePresets.json.
preset=${BOV_PRESET:-release}

# A file that includes LibTorch takes up to 2 GB to compile.
build_jobs() {
  local memory_jobs
  memory_jobs=$(awk '/^MemTotal/ { print int($2 / 2000000) }' /proc/meminfo)
  echo $((memory_jobs < 1 ? 1 : memory_jobs < $(nproc) ? memory_jobs : $(nproc)))
}

configure() {
  local folder=$root/build/$preset torch log
  torch=$(torch_folder)
  if [[ -e $folder/build.ninja && $(cat "$folder/torch_folder" 2>/dev/null) == "$torch" ]]; then
    return
  fi
  log=$folder/configure.log
  mkdir -p "$folder"
  cmake -S "$root" --preset "$preset" -D "BOV_TORCH=$torch" >"$log" 2>&1 || {
    cat "$log" >&2
    die "CMake could not configure the preset '$preset'"
  }
  sed -n 's/^-- bov: \(CUDA\)/bov: \1/p' "$log" >&2
  echo "$torch" >"$folder/torch_folder"
}

# Lets errors and warnings through. Shows how far a longer build is: on a terminal in one line, which is wiped out at
# the end, else every half minute.
show_progress() {
  local line interval=30 end=$'\n' wipe='' last=$SECONDS
  if [[ -t 2 ]]; then
    interval=1 end='' wipe=$'\r\033[K'
  fi
  while IFS= read -r line; do
    if [[ $line =~ ^\[([0-9]+)/([0-9]+)\] ]]; then
      ((SECONDS - last >= interval)) || continue
      last=$SECONDS
      printf '%sbov: built %d of %d%s' "$wipe" "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" "$end"
    elif [[ ! $line =~ ^ninja:\ (Entering|no\ work) ]]; then
      printf '%s%s\n' "$wipe" "$line"
    fi
  done >&2
  printf '%s' "$wipe" >&2
}

# build TARGET...: makes the targets up to date; says nothing where they are.
build() {
  local folder=$root/build/$preset command
  take_lock "$root/build/$preset.lock" "build of $preset"
  configure
  command=(cmake --build "$folder" --parallel "${CMAKE_BUILD_PARALLEL_LEVEL:-$(build_jobs)}" --target "$@")
  if [[ ! -e $folder/built ]]; then
    say "building in build/$preset (the first time takes some twenty minutes on two cores)"
  fi
  "${command[@]}" 2>&1 | show_progress || die "the build failed; see above"
  touch "$folder/built"
  release_lock
}
