#!/usr/bin/env python3
"""Keeps the meeting place of torchrun's agents on a machine that stays, so that any node of an elastic job may be lost:

  rendezvous_store.py PORT                                           # on head, until it is ended
  RENDEZVOUS=head:PORT RENDEZVOUS_CONF=is_host=0 scripts/launch/torchrun.sh …   # on every node

Without it the first agent keeps the place, and the job ends with that node.
"""
import signal
import sys

from torch.distributed import TCPStore

if __name__ == "__main__":
    store = TCPStore("0.0.0.0", int(sys.argv[1]), is_master=True, wait_for_workers=False)
    print(f"agents meet at port {store.port}", flush=True)
    signal.sigwait({signal.SIGTERM, signal.SIGINT})
