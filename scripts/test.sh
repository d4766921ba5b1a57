#!/usr/bin/env bash
# Set-up, build, every test. The last line says how it went: what passed, and what was skipped here, with the reason.
#   scripts/test.sh [any option of ctest]      for instance: scripts/test.sh -R optimizer
set -uo pipefail
cd "$(dirname "$0")/.."

last_line() { printf '\ntest: %s\n' "$1"; }
stage() { "${@:2}" || { last_line "FAILED at $1"; exit 1; }; }
run_tests() { rm -f build/release/tests.xml && ctest --preset release --no-tests=error "$@"; }

SECONDS=0
stage set-up scripts/setup.sh --tests
stage configuring cmake --preset release --log-level=WARNING
stage building cmake --build --preset release --parallel "$(nproc)"
built=$SECONDS
if [ $# -gt 0 ]; then
  stage "the tests named above" run_tests "$@"
else
  stage "the tests named above" run_tests --label-exclude slow
fi
ran=$((SECONDS - built))
summary=$(scripts/count_tests.py build/release/tests.xml) || { last_line "FAILED at counting the tests"; exit 1; }
# All tests: these suites too, in what is left of 75 minutes. What they leave is for whoever commits, within two weeks.
suites="the suites were not run"
if [ $# -eq 0 ]; then
  scripts/suites.py --minutes $((75 - SECONDS / 60)) --tolerate 14 slow odr tsan asan | tee build/suites.txt
  [ "${PIPESTATUS[0]}" -eq 0 ] || { last_line "FAILED at the suites"; exit 1; }
  suites=$(grep '^suites: [0-9]' build/suites.txt)
fi
last_line "passed; $summary; $suites; set-up and build took ${built} s, the tests ${ran} s"
