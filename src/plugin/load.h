// Plug-ins that are loaded into this process.
#pragma once

#include <filesystem>
#include <functional>

namespace trainctl::plugin {

/// Loads a plug-in and adds its kinds to those of the sections. A file that is loaded already is left alone. Throws
/// core::Error, before anything of the plug-in runs, if it is no plug-in of this build, or has a kind that exists.
/// `load_engine`: is called before the library is opened, so that it finds the engine and LibTorch.
void load(const std::filesystem::path& file, const std::function<void()>& load_engine);

}  // namespace trainctl::plugin
