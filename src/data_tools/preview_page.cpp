#include <nlohmann/json.hpp>

#include "data_tools/preview.h"
#include "data_tools/preview.js.h"
#include "html_report/page.h"

namespace trainctl::data_tools {

std::string preview_page(const Preview& preview) {
  using Json = nlohmann::ordered_json;
  Json samples = Json::array();
  for (const PreviewSample& sample : preview.samples) {
    Json one = {{"title", sample.title}};
    if (!sample.picture.empty()) one["picture"] = sample.picture;
    for (const auto& [name, value] : sample.columns) one["columns"].push_back({name, value});
    for (const Piece& piece : sample.pieces)
      one["pieces"].push_back({piece.text, static_cast<int>(piece.fate), piece.note});
    samples.push_back(std::move(one));
  }
  Json longest = Json::array();
  for (const dataset::LongText& text : preview.longest)
    longest.push_back({{"place", text.place}, {"num_tokens", text.num_tokens}});
  const Json data = {{"kind", preview.kind},
                     {"set", preview.set},
                     {"samples", std::move(samples)},
                     {"num_looked_at", preview.num_looked_at},
                     {"num_tokens", preview.num_tokens},
                     {"knows_cut", preview.knows_cut},
                     {"longest", std::move(longest)},
                     {"remarks", preview.remarks}};
  return html_report::format_page({.title = "Samples of " + preview.kind + ", " + preview.set,
                                   .data = data.dump(-1, ' ', false, Json::error_handler_t::replace),
                                   .script = kDataToolsPreviewJs});
}

}  // namespace trainctl::data_tools
