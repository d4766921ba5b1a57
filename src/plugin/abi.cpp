// Which headers, LibTorch and compiler a library was built with: a plug-in, the engine and the program must agree. This
// source is a part of each of them.
#include "plugin/abi.h"

#include "plugin_abi.h"  // written by the build: a checksum of all headers

#define TRAINCTL_TEXT_OF(number) #number
#define TRAINCTL_TEXT(macro) TRAINCTL_TEXT_OF(macro)

extern "C" __attribute__((visibility("default"), used)) const char trainctl_plugin_abi[] =
    "@trainctl-plugin-abi@" TRAINCTL_PLUGIN_ABI
    ", C++ ABI " TRAINCTL_TEXT(__GXX_ABI_VERSION) "." TRAINCTL_TEXT(_GLIBCXX_USE_CXX11_ABI) "@";
