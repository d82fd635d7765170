#!/usr/bin/env bash
# Test programs under sanitizers: `sanitize.sh address|thread [PROGRAM…]`. By default address and undefined behaviour of core,
# data, record, report and model, threads of core, data and engine. Building takes half an hour of a core.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/phase.sh"

case "${1:-}" in
  address) preset=asan programs=(core_test data_test record_test report_test model_test) ;;
  thread) preset=tsan programs=(core_test data_test engine_test) ;;
  *) echo "usage: scripts/sanitize.sh address|thread [PROGRAM…]" >&2 && exit 2 ;;
esac
shift
if (($#)); then programs=("$@"); fi

scripts/setup.sh test
phase "$preset-configure" cmake --preset "$preset" -DFEDGRAB_CUDA=OFF
phase "$preset-build" cmake --build --preset "$preset" --target "${programs[@]}" --parallel "$(fitting_jobs)"
export ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export LSAN_OPTIONS=suppressions=$PWD/scripts/lsan.supp TSAN_OPTIONS=history_size=4
export XDG_CACHE_HOME=$PWD/build/$preset/cache
for program in "${programs[@]}"; do
  phase "$preset-$program" "build/$preset/tests/${program%_test}/$program" --gtest_filter='-*Cuda*'
done
