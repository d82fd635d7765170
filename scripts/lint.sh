#!/usr/bin/env bash
# clang-format over the tree, clang-tidy over src: `lint.sh [FILE…]`, or `lint.sh --changed` for at most LINT_FILES (8) of the
# files of src that differ from the commit LINT_BASE, by default the one that main of the remote and this branch share, or the
# last commit's parent. About half a minute of one core per file with LibTorch.
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
# Sources that changed; those without LibTorch first, because they take seconds.
changed_files() {
  local base=${LINT_BASE:-} head
  head=$(git rev-parse HEAD)
  [[ -n $base ]] || base=$(git merge-base HEAD origin/main 2>/dev/null || true)
  if [[ -z $base || $base == "$head" ]]; then base=HEAD~1; fi
  git rev-parse --quiet --verify "$base^{commit}" >/dev/null || return 0 # of a clone that has one commit
  git diff --name-only --diff-filter=d "$base" -- 'src/*.cpp' ':!src/torch_header.cpp' ':!src/engine/cuda' |
    awk '{print ($0 ~ "^src/(core|data|record|report)/" ? 0 : 1), $0}' | sort -s -n -k 1,1 | cut -d " " -f 2-
}

if [[ ${1:-} == --changed ]]; then
  mapfile -t files < <(changed_files)
  most=${LINT_FILES:-8}
  if ((${#files[@]} > most)); then echo "lint: ${#files[@]} files changed, the first $most are looked at; scripts/lint.sh takes all" >&2; fi
  set -- "${files[@]:0:most}"
  if (($# == 0)); then
    echo "no file of src has changed"
    exit 0
  fi
elif (($# == 0)); then
  mapfile -t files < <(find src -name '*.cpp' ! -name torch_header.cpp | sort)
  set -- "${files[@]}"
fi
printf '%s\0' "$@" | xargs -0 -n 1 -P "$(nproc)" bash -c 'tidy "$1"' bash
echo "no findings in $# files"
