// See context.h.
#pragma once

namespace gloo::transport {

class Device;

}  // namespace gloo::transport
