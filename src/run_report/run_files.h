// Files of a run directory as JSON: what is missing, damaged or of another kind is null, or left out.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace trainctl::run_report {

/// Returns the file's object; null if there is none, or if it is larger than `max_bytes`.
nlohmann::ordered_json read_object(const std::filesystem::path& path, std::size_t max_bytes = std::size_t{64} << 20);

/// Returns the member, or null.
nlohmann::ordered_json member(const nlohmann::ordered_json& object, const char* key);

/// Returns the warnings of notices.jsonl: [{"step": …, "text": …}], each text once with its first step, at most `most`.
nlohmann::ordered_json warnings_of(const std::filesystem::path& run_directory, std::size_t most);

}  // namespace trainctl::run_report
