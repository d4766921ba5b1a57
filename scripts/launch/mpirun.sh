#!/usr/bin/env bash
# Ranks by Open MPI, on this machine or on HOSTS:
#   NPROC=8 scripts/launch/mpirun.sh CONFIG [OPTION…]
#   NPROC=16 HOSTS=node1:8,node2:8 MASTER_ADDR=node1 scripts/launch/mpirun.sh CONFIG …
# MPIRUN may hold further options ("mpirun --allow-run-as-root"), and quotes around spaces. Collectives go over Gloo or NCCL;
# --set distributed.backend=mpi takes MPI for them too. Ranks on other nodes get the variables that these libraries read.
set -euo pipefail
options=(-n "${NPROC:-2}" --bind-to none)
[ -z "${HOSTS:-}" ] || options+=(--host "$HOSTS")
for variable in $(compgen -e); do
  case $variable in
    MASTER_ADDR | MASTER_PORT | LD_LIBRARY_PATH | NCCL_* | TORCH_* | GLOO_* | TRAINCTL_*) options+=(-x "$variable") ;;
  esac
done
declare -a mpirun="(${MPIRUN:-mpirun})"
exec "${mpirun[@]}" "${options[@]}" "${TRAINCTL:-trainctl}" train "$@"
