#!/usr/bin/env bash
# clang-format over the tree, clang-tidy over src or the files given. About a minute of one core per file with LibTorch.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/phase.sh"

scripts/setup.sh lint
phase format scripts/format.sh --check
# A build tree of its own, because clang cannot read GCC's precompiled header.
phase lint-tree cmake --preset release -B build/lint -DFEDGRAB_TESTS=OFF -DFEDGRAB_UNITY=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON

tidy() {
  clang-tidy -p build/lint --quiet --extra-arg=-Wno-unknown-warning-option \
    --extra-arg-before=-include"$PWD/scripts/clang_vector.h" "$1" 2>/dev/null
}
export -f tidy
if (($# == 0)); then
  mapfile -t files < <(find src -name '*.cpp' ! -name torch_header.cpp | sort)
  set -- "${files[@]}"
fi
printf '%s\0' "$@" | xargs -0 -n 1 -P "$(nproc)" bash -c 'tidy "$1"' bash
echo "no findings in $# files"
