#!/usr/bin/env bash
# Installs what is missing, builds everything, and runs all tests; arguments go to ctest (-R REGEX, say).
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/scripts/phase.sh"

scripts/setup.sh test
phase format scripts/format.sh --check
build all -DFEDGRAB_TESTS=ON -DFEDGRAB_WERROR=ON
# Four files take two minutes; the others are for scripts/lint.sh before a release.
if [[ ${CI:-} == true ]]; then LINT_FILES=4 scripts/lint.sh --changed; fi
ctest --preset release --parallel 2 --progress "$@"
