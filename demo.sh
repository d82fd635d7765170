#!/usr/bin/env bash
# Installs what is missing, builds, and runs `fedgrab demo` with the arguments given here.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/scripts/phase.sh"

scripts/setup.sh
options=()
if [[ ! -e build/release/build.ninja ]]; then options+=(-DFEDGRAB_TESTS=OFF); fi # a tree made by test.sh keeps its tests
build fedgrab "${options[@]}"
exec build/release/src/cli/fedgrab demo "$@"
