#!/usr/bin/env bash
# Kills the program at system calls: `kill.sh [KILLS [SEED]]`, 1,000 by default, a quarter in each of runs with the state of
# their clients in memory and on disk, image caches and sweeps. Half an hour of two cores.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/phase.sh"

scripts/setup.sh test
build fedgrab
phase library cmake --build --preset release --target kill_at_call
export FEDGRAB=$PWD/build/release/src/cli/fedgrab
export KILL_AT_CALL=$PWD/build/release/tests/kill/libkill_at_call.so
exec python3 -B tests/kill/killing.py "${1:-1000}" "${2:-1}"
