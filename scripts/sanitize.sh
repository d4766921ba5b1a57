#!/usr/bin/env bash
# The unit tests of the folders that you touch, built with a sanitizer; without a folder, of all of them.
#   scripts/sanitize.sh asan tokenizer config     AddressSanitizer and UndefinedBehaviorSanitizer
#   scripts/sanitize.sh tsan comm                 ThreadSanitizer; worth it for comm, dataset, tracking and checkpoint
# A folder takes minutes, all of them hours.
set -euo pipefail
cd "$(dirname "$0")/.."

preset=${1:-}
case $preset in
  asan | tsan) shift ;;
  *) sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
esac
scripts/setup.sh --tests
cmake --preset "$preset" --log-level=WARNING
[ $# -gt 0 ] || mapfile -t folders < <(cd tests && dirname -- */*_test.cpp | sort -u)
[ $# -eq 0 ] || folders=("$@")
export OMP_NUM_THREADS=1  # neither sanitizer sees the barriers of OpenMP
export ASAN_OPTIONS=detect_leaks=0:detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS=ignore_noninstrumented_modules=1:suppressions=$PWD/tests/support/tsan.txt
failed=()
for folder in "${folders[@]}"; do
  cmake --build --preset "$preset" --parallel "$(nproc)" --target "test_$folder"
  # Without address randomization: ThreadSanitizer does not start on kernels that randomize more bits than it knows.
  status=0
  setarch -R "build/$preset/bin/test_$folder" || status=$?
  [ $status -eq 0 ] || [ $status -eq 77 ] || failed+=("$folder")
done
if [ ${#failed[@]} -gt 0 ]; then
  echo "sanitize: $preset FAILED in ${failed[*]}"
  exit 1
fi
echo "sanitize: $preset finds nothing in ${folders[*]}"
