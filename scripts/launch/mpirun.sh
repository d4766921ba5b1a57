#!/usr/bin/env bash
# Ranks by Open MPI, on this machine or on HOSTS:
#   NPROC=8 scripts/launch/mpirun.sh CONFIG [OPTION…]
#   NPROC=16 HOSTS=node1:8,node2:8 MASTER_ADDR=node1 scripts/launch/mpirun.sh CONFIG …
# MPIRUN may hold further options ("mpirun --allow-run-as-root"). Collectives go over Gloo or NCCL; --set distributed.backend=mpi
# takes MPI for them too.
set -euo pipefail
options=(-n "${NPROC:-2}" --bind-to none)
[ -z "${HOSTS:-}" ] || options+=(--host "$HOSTS")
for variable in MASTER_ADDR MASTER_PORT; do
  [ -z "${!variable:-}" ] || options+=(-x "$variable")
done
exec ${MPIRUN:-mpirun} "${options[@]}" "${TRAINCTL:-trainctl}" train "$@"
