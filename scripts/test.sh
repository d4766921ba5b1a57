#!/usr/bin/env bash
# Set-up, build, tests. The last line counts what passed, failed and was skipped, with the reasons.
#   scripts/test.sh              the gate: unit tests, a case of each command, the checks of style
#   scripts/test.sh --all        every test; after it any option of ctest: --all -L acceptance, --all --rerun-failed
#   scripts/test.sh OPTION...    tests of the gate, by options of ctest: scripts/test.sh -R optimizer
# The labels of --all are acceptance, reference, emulated, extension and sweep: tests/CMakeLists.txt.
set -uo pipefail
cd "$(dirname "$0")/.."

last_line() { printf '\ntest: %s\n' "$1"; }
stage() { "${@:2}" || { last_line "FAILED at $1"; exit 1; }; }

which=(--label-exclude 'acceptance|reference|emulated|extension|sweep')
if [ "${1:-}" = --all ]; then
  which=()
  shift
fi
cores=$(nproc)
SECONDS=0
stage set-up scripts/setup.sh --tests
set_up=$SECONDS
stage configuring cmake --preset release --log-level=WARNING
stage building cmake --build --preset release --parallel "$cores"
built=$SECONDS
rm -f build/release/tests.xml
# One test more than cores: those of ranks and of limits of time wait for the most part.
ctest --preset release --no-tests=error --parallel $((cores + 1)) ${which[@]+"${which[@]}"} "$@"
failed=$?
ran=$((SECONDS - built))
summary=$(scripts/count_tests.py build/release/tests.xml) || { last_line "FAILED at counting the tests"; exit 1; }
result=passed
[ $failed -eq 0 ] || result=FAILED
last_line "$result; $summary; set-up took $set_up s, the build $((built - set_up)) s, the tests $ran s"
exit $((failed != 0))
