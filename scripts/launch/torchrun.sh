#!/usr/bin/env bash
# One node, or each of several, under torchrun's elastic agent:
#   NPROC=8 scripts/launch/torchrun.sh CONFIG [OPTION…]
#   NNODES=2 NPROC=8 RENDEZVOUS=node1:29400 scripts/launch/torchrun.sh CONFIG …   (the same on every node; NNODES=1:4 is elastic)
# TRAINCTL and TORCHRUN name the programs where they are not on PATH; RESTARTS how often a failed job is started again.
set -euo pipefail
# Without this a node that joins a running job waits for a store that nobody names.
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
exec ${TORCHRUN:-torchrun} --no-python --nproc-per-node "${NPROC:-auto}" --nnodes "${NNODES:-1}" --max-restarts "${RESTARTS:-0}" \
  --rdzv-backend c10d --rdzv-endpoint "${RENDEZVOUS:-127.0.0.1:0}" --rdzv-id "${JOB:-trainctl}" \
  "${TRAINCTL:-trainctl}" train "$@"
