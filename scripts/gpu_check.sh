#!/usr/bin/env bash
# Everything that needs a GPU, in one call of less than ten minutes; writes docs/gpu-results.md after each stage. Builds nothing.
#   scripts/gpu_check.sh [DIR] [--seconds N] [--output FILE|DIR]
# DIR: a build directory or an installed prefix (default build/release). Get a prefix with the tests in it by
#   cmake --install build/release --prefix P --strip && cmake --install build/release --prefix P --component tests --strip
# LibTorch is taken from TRAINCTL_LIBTORCH (the directory with lib/ and include/), else from the torch package of python3.
# Exit code: 0 all that ran passed, 1 something failed, 3 there is no usable GPU here (nothing is written).
# What no longer fits into N seconds (540) is reported as not run.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)

python=$here/../.deps/python/bin/python3
"$python" -c 'import torch' 2>/dev/null || python=python3
if [ -z "${TRAINCTL_LIBTORCH:-}" ]; then
  TRAINCTL_LIBTORCH=$("$python" -c 'import importlib.util, os; print(os.path.dirname(importlib.util.find_spec("torch").origin))' 2>/dev/null)
fi
export TRAINCTL_LIBTORCH
exec "$python" "$here/gpu_check.py" "$@"
