#include "sample_view.h"

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "checkpointed_run.h"
#include "dataset/shown_sample.h"

namespace trainctl::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostTokens = 512;  // of a sequence that are shown
constexpr std::size_t kMostColumns = 40;

std::vector<std::int32_t> ids_of(const at::Tensor& tokens) {
  const at::Tensor host = tokens.to(at::kLong).contiguous();
  const auto* ids = host.const_data_ptr<std::int64_t>();
  std::vector<std::int32_t> shown;
  for (std::int64_t i = 0; i < host.numel() && shown.size() < kMostTokens; ++i)
    shown.push_back(static_cast<std::int32_t>(ids[i]));
  return shown;
}

/// Texts of sequences of tokens. Each token of a language model has the loss with which the model predicted that token.
class TextView {
 public:
  TextView(const cli::EngineCall& call, dataset::Targets targets) : targets_(targets) {
    if (const std::optional<std::string> path = tokenizer_path(call)) tokenizer_ = open_tokenizer(call);
  }

  Json show(const task::Example& example) const {
    const std::vector<std::int32_t> ids = ids_of(example.input);
    if (tokenizer_ == nullptr) return {{"ids", ids}};
    if (example.token_losses.empty()) return {{"text", tokenizer_->decode(ids, tokenizer::SpecialTokens::leave_out)}};
    const std::vector<std::string> pieces = pieces_of(ids);
    Json tokens = Json::array();
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const double loss = loss_of(example.token_losses, i);
      tokens.push_back({pieces[i], std::isfinite(loss) ? Json(std::round(loss * 1e3) / 1e3) : Json(nullptr)});
    }
    return {{"tokens", std::move(tokens)}};
  }

 private:
  /// Returns the text that each token adds to what stands before it.
  std::vector<std::string> pieces_of(const std::vector<std::int32_t>& ids) const {
    std::vector<std::string> pieces;
    std::string before;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      // A few tokens of context are enough, and make the work linear.
      const std::size_t begin = i < kContext ? 0 : i - kContext;
      const std::span<const std::int32_t> all(ids);
      before = tokenizer_->decode(all.subspan(begin, i - begin), tokenizer::SpecialTokens::add);
      const std::string now = tokenizer_->decode(all.subspan(begin, i + 1 - begin), tokenizer::SpecialTokens::add);
      pieces.push_back(now.starts_with(before) ? now.substr(before.size()) : tokenizer_->token_of(ids[i]));
    }
    return pieces;
  }

  double loss_of(const std::vector<double>& losses, std::size_t token) const {
    if (targets_ == dataset::Targets::masked_tokens) return token < losses.size() ? losses[token] : NAN;
    return token > 0 && token - 1 < losses.size() ? losses[token - 1] : NAN;
  }

  static constexpr std::size_t kContext = 8;

  dataset::Targets targets_;
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;  // null: the dataset names none
};

Json show_row(const task::Example& example, const dataset::SampleSpec& spec) {
  Json row = Json::object();
  for (const auto& [name, value] : dataset::columns_of(example.input, spec))
    if (row.size() < kMostColumns) row[name] = value;
  return row.empty() ? Json::object() : Json{{"row", std::move(row)}};
}

}  // namespace

train::ShowSample make_sample_view(const cli::EngineCall& call, const train::Run& run) {
  auto texts = std::make_shared<std::unique_ptr<TextView>>();
  return [&call, &run, texts](const task::Example& example) -> Json {
    const dataset::SampleSpec& spec = run.data.eval->spec();
    if (spec.is_image()) {
      const std::string picture = dataset::picture_of(example.input, run.experiment.dataset);
      return picture.empty() ? Json::object() : Json{{"picture", picture}};
    }
    if (spec.vocab_size == 0) return show_row(example, spec);
    if (*texts == nullptr) *texts = std::make_unique<TextView>(call, spec.targets);
    return (*texts)->show(example);
  };
}

}  // namespace trainctl::engine
