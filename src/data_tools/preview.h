// What `trainctl data preview` shows: samples as a model gets them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dataset/config.h"
#include "dataset/shown_text.h"

namespace trainctl::data_tools {

/// A part of a text: one token, or several that are one character together.
struct Piece {
  std::string text;
  dataset::TokenFate fate = dataset::TokenFate::seen;
  std::string note{};  // the target, if it is another than the token
};

struct PreviewSample {
  std::string title;                                           // class, value, place
  std::string picture{};                                       // data URI
  std::vector<std::pair<std::string, std::string>> columns{};  // of a row of a table
  std::vector<Piece> pieces{};
};

struct Preview {
  std::string kind;  // of the dataset
  std::string set;   // train or eval
  std::vector<PreviewSample> samples;
  std::int64_t num_looked_at = 0;                             // samples of which the tokens are counted
  std::array<std::int64_t, dataset::kNumFates> num_tokens{};  // by fate; all 0: samples are no texts
  bool knows_cut = false;                                     // tokens that were cut are among these
  std::vector<dataset::LongText> longest{};
  std::vector<std::string> remarks{};
};

struct PreviewRequest {
  std::int64_t num_samples = 3;
  bool of_evaluation = false;
  std::uint64_t seed = 0;
};

/// Looks at the first samples of the first epoch, after the transforms. Of conversations, at the first of the files.
Preview preview_dataset(const dataset::DatasetConfig& config, const PreviewRequest& request);

/// Marks the fates by colours of a terminal, or by brackets.
enum class PreviewMarks { colors, brackets };
std::string preview_text(const Preview& preview, PreviewMarks marks);
/// One HTML file with pictures and coloured texts.
std::string preview_page(const Preview& preview);

}  // namespace trainctl::data_tools
