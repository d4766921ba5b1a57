#!/usr/bin/env bash
# One node, or each of several, under torchrun's elastic agent:
#   NPROC=8 scripts/launch/torchrun.sh CONFIG [OPTION…]
#   NNODES=2 NPROC=8 RENDEZVOUS=node1:29400 scripts/launch/torchrun.sh CONFIG …   (the same on every node; NNODES=1:4 is elastic)
# TRAINCTL and TORCHRUN name the programs where they are not on PATH. TORCHRUN may hold options, and quotes around spaces:
#   TORCHRUN="'/my environment/bin/python3' -m torch.distributed.run"
# RESTARTS: how often a failed job is started again;
# RENDEZVOUS_CONF is for torchrun's --rdzv-conf (rendezvous_store.py keeps the rendezvous where it outlives every node).
set -euo pipefail
# Without this a node that joins a running job waits for a store that nobody names.
export TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1
# How long a start waits for more than the least number of nodes; and after how many seconds a silent node is given up.
conf=last_call_timeout=10,keep_alive_interval=2,keep_alive_max_attempt=3${RENDEZVOUS_CONF:+,$RENDEZVOUS_CONF}
declare -a torchrun="(${TORCHRUN:-torchrun})"
exec "${torchrun[@]}" --no-python --nproc-per-node "${NPROC:-auto}" --nnodes "${NNODES:-1}" --max-restarts "${RESTARTS:-0}" \
  --rdzv-backend c10d --rdzv-endpoint "${RENDEZVOUS:-127.0.0.1:0}" --rdzv-id "${JOB:-trainctl}" --rdzv-conf "$conf" \
  "${TRAINCTL:-trainctl}" train "$@"
