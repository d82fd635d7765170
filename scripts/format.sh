#!/usr/bin/env bash
# Formats the C++ of the tree in place; with --check changes nothing and fails where something would change.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/phase.sh"

# Releases of clang-format disagree on details; the tree follows Debian 12's.
format=$(command -v clang-format-14 || command -v clang-format || true)
if [[ -z $format || $("$format" --version) != *"version 14."* ]]; then
  if [[ ${CI:-} == true ]]; then
    echo "format: there is no clang-format 14 here" >&2
    exit 1
  fi
  echo "format: skipped, there is no clang-format 14 here" >&2
  exit 0
fi
mode=(-i)
if [[ ${1:-} == --check ]]; then mode=(--dry-run --Werror); fi
folders=()
for folder in include src tests bench python; do
  if [[ -d $folder ]]; then folders+=("$folder"); fi
done
find "${folders[@]}" -type f \( -name '*.cpp' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh' \) -print0 |
  xargs -0 --no-run-if-empty "$format" "${mode[@]}"
