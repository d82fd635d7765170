# Sourced by the other scripts: goes to the root of the tree and gives them `phase` and `build`.
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# phase NAME COMMAND…: one line with the time it took. What the command prints goes to build/log/NAME.log; its last line
# is shown while a terminal waits, its end when the command fails.
phase() {
  local name=$1 log=build/log/$1.log start=$SECONDS status=0 watcher=
  shift
  mkdir -p build/log
  printf '%-17s' "$name"
  if [[ -t 1 ]]; then
    : >"$log"
    while sleep 0.3 && kill -0 $$ 2>/dev/null; do
      printf '\r\033[K%-17s%s' "$name" "$(tail -n 1 "$log" | cut -c 1-68)"
    done &
    watcher=$!
  fi
  "$@" >"$log" 2>&1 </dev/null || status=$?
  if [[ -n $watcher ]]; then
    kill "$watcher" && wait "$watcher" || true
    printf '\r\033[K%-17s' "$name"
  fi
  if ((status == 0)); then
    echo "$((SECONDS - start)) s"
  else
    echo "failed after $((SECONDS - start)) s; the end of $log:"
    tail -n 40 "$log"
    exit "$status"
  fi
}

# Compiling a file that includes LibTorch takes up to 2 GB: no more at once than fit.
fitting_jobs() {
  local jobs fit
  jobs=$(nproc)
  fit=$(awk '/MemAvailable/ {print int($2 / 2e6) + 1}' /proc/meminfo 2>/dev/null || echo "$jobs")
  echo $((fit < jobs ? fit : jobs))
}

# build TARGET [OPTION…]: configures the release preset and builds one target of it.
build() {
  local target=$1
  shift
  phase configure cmake --preset release "$@"
  phase build cmake --build --preset release --target "$target" --parallel "$(fitting_jobs)"
}
