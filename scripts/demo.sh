#!/usr/bin/env bash
# From a clone to a trained model: set-up, build, then a small network learns Fashion-MNIST (minutes on two CPU cores).
#   scripts/demo.sh [any option of `trainctl train`]      for instance: scripts/demo.sh --set train.epochs=1
# TRAINCTL_RUNNER comes before the program where the network is trained: on an emulated CPU with AVX2 and without AVX-512
# (Debian's qemu-user-static; ten to thirty times slower),
#   TRAINCTL_RUNNER='qemu-x86_64-static -cpu EPYC-Rome' scripts/demo.sh --set train.steps=20
set -euo pipefail
cd "$(dirname "$0")/.."

scripts/setup.sh
cmake --preset release --log-level=WARNING
cmake --build --preset release --parallel "$(nproc)" --target trainctl trainctl_engine

run=runs/fashion-mnist/demo-$(date -u +%Y%m%dT%H%M%SZ)-$$
# shellcheck disable=SC2086  # a command and its options
${TRAINCTL_RUNNER:-} build/release/bin/trainctl train configs/fashion_mnist.yaml --run-dir "$run" "$@"
python3 - "$run" <<'END'
import json, sys
summary = json.load(open(sys.argv[1] + "/summary.json"))
print(f"demo: test accuracy {100 * summary['final_metrics']['accuracy']:.2f} % after {summary['wall_s']:.0f} s; everything about the run is in {sys.argv[1]}")
END
