// The mark of a build, by which a plug-in is known before it is loaded.
#pragma once

#include <cstddef>  // _GLIBCXX_USE_CXX11_ABI

/// Begins with kAbiMark and ends with "@".
extern "C" __attribute__((visibility("default"))) const char trainctl_plugin_abi[];

namespace trainctl::plugin {

inline constexpr const char* kAbiSymbol = "trainctl_plugin_abi";
/// The mark's beginning as it stands in a file. In two parts, so that this program's own constant isn't one.
inline constexpr const char* kAbiMark[] = {"@trainctl-plugin", "-abi@"};

}  // namespace trainctl::plugin
