#include <cstdio>
#include <nlohmann/json.hpp>

#include "core/json.h"
#include "core/log.h"
#include "core/terminal.h"
#include "core/text.h"
#include "dataset/prepare.h"
#include "engine.h"

namespace trainctl::engine {
namespace {

const char* name_of(dataset::Preparation outcome) {
  switch (outcome) {
    case dataset::Preparation::found:
      return "found";
    case dataset::Preparation::made:
      return "made";
    case dataset::Preparation::remade:
      return "remade";
  }
  throw std::logic_error("unknown outcome");
}

double megabytes_per_s(const dataset::PreparedText& text) {
  return text.seconds > 0 ? static_cast<double>(text.num_bytes) / 1e6 / text.seconds : 0;
}

nlohmann::ordered_json as_json(const std::vector<dataset::PreparedText>& texts) {
  auto document = nlohmann::ordered_json::array();
  for (const dataset::PreparedText& text : texts) {
    nlohmann::ordered_json one = {{"part", text.part},         {"outcome", name_of(text.outcome)},
                                  {"files", text.files},       {"directory", text.directory},
                                  {"tokens", text.num_tokens}, {"documents", text.num_documents},
                                  {"bytes", text.num_bytes},   {"seconds", text.seconds}};
    if (text.outcome != dataset::Preparation::found) one["mb_per_s"] = megabytes_per_s(text);
    document.push_back(std::move(one));
  }
  return document;
}

void print_table(const std::vector<dataset::PreparedText>& texts) {
  for (const dataset::PreparedText& text : texts) {
    core::print(stdout, "%s: %s in %s\n", text.part.c_str(), name_of(text.outcome), text.directory.c_str());
    core::print(stdout, "  %s tokens, %s documents, %s of text\n", core::format_count(text.num_tokens).c_str(),
                core::format_count(text.num_documents).c_str(),
                core::format_bytes(static_cast<double>(text.num_bytes)).c_str());
    if (text.outcome == dataset::Preparation::found)
      core::print(stdout, "  checked in %s\n", core::format_duration(text.seconds).c_str());
    else
      core::print(stdout, "  tokenised in %s, %.1f MB/s\n", core::format_duration(text.seconds).c_str(),
                  megabytes_per_s(text));
  }
}

}  // namespace

int run_data_prepare(const cli::EngineCall& call) {
  const dataset::PrepareOptions options{.verification = call.options<cli::DataPrepareOptions>().verify
                                                            ? dataset::Verification::all_checksums
                                                            : dataset::Verification::trust_times,
                                        .tell = [](const std::string& text) { core::log().info(text); }};
  const std::vector<dataset::PreparedText> texts = dataset::prepare(call.loaded.experiment.dataset.source, options);
  if (call.json)
    std::printf("%s\n", core::indented_json(as_json(texts)).c_str());
  else
    print_table(texts);
  return 0;
}

}  // namespace trainctl::engine
