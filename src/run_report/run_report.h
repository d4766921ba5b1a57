// The page about a run, of what its directory records: curves, evaluation, samples, config, machine and warnings.
#pragma once

#include <filesystem>
#include <string>

namespace trainctl::run_report {

/// Returns the page. A run that was stopped, failed or still trains has a page too, of what there is. Throws
/// core::Error if the directory is no run directory.
std::string format_report(const std::filesystem::path& run_directory);

/// Writes the page to the file, or to report.html in the run directory if `output` is empty. Returns the file's path.
std::filesystem::path write_report(const std::filesystem::path& run_directory, const std::filesystem::path& output);

}  // namespace trainctl::run_report
