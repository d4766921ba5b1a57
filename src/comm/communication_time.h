// How long a member communicated, and how much of that nothing else was done.
#pragma once

namespace trainctl::comm {

/// The communication time of one member. On a GPU it is measured on the host.
struct CommunicationTime {
  double busy_ms = 0;     // some collective was under way, waiting for other members included
  double exposed_ms = 0;  // the thread that computes waited for one
};

}  // namespace trainctl::comm
