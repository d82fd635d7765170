#!/usr/bin/env bash
# Fuzzes the parsers under the address and undefined-behaviour sanitizers, one after the other:
#   fuzz.sh SECONDS [TARGET…]           each so long (default: all targets)
#   fuzz.sh --inputs NUMBER [TARGET…]   each with so many inputs
# Inputs that found something new are kept in build/fuzz/corpus and are where the next call begins; one that crashes is kept
# in build/fuzz/crashes, and `build/fuzz/tests/fuzz/TARGET_fuzz FILE` repeats it. Needs clang.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/phase.sh"

case "${1:-}" in
  --inputs) limit=(-runs="${2:?}") && shift 2 ;;
  [0-9]*) limit=(-max_total_time="$1") && shift ;;
  *) echo "usage: scripts/fuzz.sh SECONDS|--inputs NUMBER [TARGET…]" >&2 && exit 2 ;;
esac

find_clang() { command -v clang++ || command -v clang++-14; }
find_clang >/dev/null || scripts/setup.sh fuzz
clang=$(find_clang)
phase fuzz-configure cmake -G Ninja -S . -B build/fuzz -DCMAKE_CXX_COMPILER="$clang" -DCMAKE_BUILD_TYPE= "-DCMAKE_CXX_FLAGS=-O1 -g1" \
  -DFEDGRAB_FUZZ=ON -DFEDGRAB_TORCH=OFF -DFEDGRAB_TESTS=OFF -DNODE_PROGRAM=OFF
phase fuzz-build cmake --build build/fuzz --target fuzz --parallel "$(fitting_jobs)"
phase fuzz-seeds python3 -B tests/fuzz/seeds.py build/fuzz/seeds
if (($# == 0)); then
  mapfile -t targets < <(cd tests/fuzz && printf '%s\n' *_fuzz.cpp | sed 's/_fuzz\.cpp$//')
  set -- "${targets[@]}"
fi

if symbolizer=$(command -v llvm-symbolizer || command -v llvm-symbolizer-14); then export ASAN_SYMBOLIZER_PATH=$symbolizer; fi
failed=()
mkdir -p build/fuzz/crashes
for target in "$@"; do
  program=build/fuzz/tests/fuzz/${target}_fuzz log=build/fuzz/$target.log start=$SECONDS status=0
  mkdir -p "build/fuzz/corpus/$target"
  # A limit on the time of one input, because one that takes a minute is a defect of its own.
  "$program" "${limit[@]}" -timeout=60 -rss_limit_mb=2560 -max_len=16384 -print_final_stats=1 -artifact_prefix="build/fuzz/crashes/$target-" \
    "build/fuzz/corpus/$target" "build/fuzz/seeds/$target" >"$log" 2>&1 </dev/null || status=$?
  inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  if ((status == 0)); then
    printf '%-17s%s inputs in %s s, no crash\n' "$target" "$inputs" "$((SECONDS - start))"
  else
    printf '%-17sfailed; the end of %s:\n' "$target" "$log"
    grep -vE '^#[0-9]+\s+(NEW|REDUCE|pulse|RELOAD|INITED|READ)' "$log" | tail -n 40
    failed+=("$target")
  fi
done
if ((${#failed[@]})); then
  echo "failed: ${failed[*]}" >&2
  exit 1
fi
