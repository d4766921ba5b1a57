#include "data_tools/preview.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones_like.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text.h"
#include "dataset/dataset.h"
#include "dataset/shown_sample.h"
#include "tokenizer/tokenizer.h"

namespace trainctl::data_tools {
namespace {

using dataset::Targets;
using dataset::TokenFate;

constexpr std::size_t kContext = 8;
constexpr std::string_view kUnfinished = "\xEF\xBF\xBD";  // U+FFFD, which bytes that end inside a character become

/// The text that tokens [begin, end) add to those before them.
std::string text_between(const std::vector<std::int32_t>& ids, std::size_t begin, std::size_t end,
                         const tokenizer::Tokenizer& tokenizer) {
  const std::size_t from = begin < kContext ? 0 : begin - kContext;
  const std::span<const std::int32_t> all(ids);
  const std::string before = tokenizer.decode(all.subspan(from, begin - from), tokenizer::SpecialTokens::add);
  const std::string now = tokenizer.decode(all.subspan(from, end - from), tokenizer::SpecialTokens::add);
  if (now.starts_with(before)) return now.substr(before.size());
  return tokenizer.decode(all.subspan(begin, end - begin), tokenizer::SpecialTokens::add);
}

/// Tokens that are one character together are one piece. `notes`: of each token, or none. Without a tokenizer the
/// pieces are ids.
std::vector<Piece> pieces_of(const std::vector<dataset::ShownToken>& tokens, const std::vector<std::string>& notes,
                             const tokenizer::Tokenizer* tokenizer) {
  std::vector<std::int32_t> ids;
  for (const dataset::ShownToken& token : tokens) ids.push_back(token.id);
  std::vector<Piece> pieces;
  for (std::size_t begin = 0; begin < tokens.size();) {
    std::size_t end = begin + 1;
    std::string text =
        tokenizer == nullptr ? std::to_string(ids[begin]) + " " : text_between(ids, begin, end, *tokenizer);
    while (tokenizer != nullptr && text.ends_with(kUnfinished) && end < tokens.size() && end - begin < 4 &&
           tokens[end].fate == tokens[begin].fate)
      text = text_between(ids, begin, ++end, *tokenizer);
    pieces.push_back({std::move(text), tokens[begin].fate, notes.empty() ? "" : notes[begin]});
    begin = end;
  }
  return pieces;
}

constexpr std::int64_t kMostLookedAt = 1000;
constexpr std::size_t kMostLongest = 5;
constexpr std::int64_t kNoTarget = -100;

std::unique_ptr<tokenizer::Tokenizer> tokenizer_of(const dataset::DatasetConfig& config) {
  for (const dataset::NamedSource& source : dataset::sources_of(config.source))
    if (const dataset::TokenFacts* tokens = source.facts.tokens(); tokens != nullptr && *tokens->tokenizer)
      return **tokens->tokenizer == "bytes" ? tokenizer::byte_tokenizer()
                                            : tokenizer::load_tokenizer(**tokens->tokenizer);
  return nullptr;
}

/// Rows of a batch's tokens, and what becomes of each.
class BatchView {
 public:
  BatchView(const dataset::Batch& batch, const dataset::SampleSpec& spec)
      : ids_(batch.inputs.to(at::kLong).contiguous()),
        targets_(batch.targets.contiguous()),
        mask_(batch.key_mask.defined() ? batch.key_mask.contiguous() : at::Tensor()),
        kind_(spec.targets) {
    if (kind_ == Targets::target_tokens) put_targets_behind_sources();
  }

  std::vector<dataset::ShownToken> row(std::int64_t index) const {
    const std::int64_t width = ids_.size(1);
    const auto* const ids = ids_.const_data_ptr<std::int64_t>() + index * width;
    std::vector<dataset::ShownToken> tokens;
    for (std::int64_t t = 0; t < width; ++t) tokens.push_back({static_cast<std::int32_t>(ids[t]), fate_of(index, t)});
    return tokens;
  }
  /// The target at a token; -100: none.
  std::int64_t target(std::int64_t index, std::int64_t token) const {
    if (!has_token_targets() || token < 0) return kNoTarget;
    return targets_.const_data_ptr<std::int64_t>()[index * targets_.size(1) + token];
  }
  bool has_token_targets() const { return targets_.dim() == 2; }

 private:
  /// Makes a row of each pair: its source, then its target, whose tokens are their own targets.
  void put_targets_behind_sources() {
    const at::Tensor has_target = targets_.ne(kNoTarget);
    mask_ = at::cat({mask_.defined() ? mask_ : at::ones_like(ids_, at::kBool), has_target}, 1);
    const at::Tensor no_targets = at::full_like(ids_, kNoTarget);
    ids_ = at::cat({ids_, targets_.clamp_min(0)}, 1);
    targets_ = at::cat({no_targets, targets_}, 1);
  }

  TokenFate fate_of(std::int64_t index, std::int64_t token) const {
    if (mask_.defined() && !mask_.const_data_ptr<bool>()[index * mask_.size(1) + token]) return TokenFate::padding;
    const bool is_next = kind_ == Targets::next_tokens || kind_ == Targets::preferences;
    return target(index, is_next ? token - 1 : token) == kNoTarget ? TokenFate::seen : TokenFate::learned;
  }

  at::Tensor ids_;
  at::Tensor targets_;
  at::Tensor mask_;
  Targets kind_;
};

/// Fills a preview from a loader's batches.
class LoaderView {
 public:
  LoaderView(const dataset::DatasetConfig& config, const PreviewRequest& request, Preview& preview)
      : config_(config), request_(request), preview_(preview), tokenizer_(tokenizer_of(config)) {
    config_.normalize_on = dataset::NormalizeOn::host;
    config_.num_workers = 0;
    if (!request.of_evaluation) config_.eval_transforms.reset();  // the picture's normalization is that of training
  }

  void look() {
    dataset::LoaderOptions options;
    options.seed = request_.seed;
    options.tell = [this](const std::string& text) { preview_.remarks.push_back(text); };
    dataset::Datasets sets = dataset::build(config_, options);
    dataset::Loader* const loader = request_.of_evaluation ? sets.eval.get() : sets.train.get();
    if (loader == nullptr)
      throw core::Error("the dataset has no evaluation set").hint("set dataset.eval or dataset.eval_fraction");
    const bool is_text = loader->spec().vocab_size > 0;
    const std::int64_t most = std::max(request_.num_samples, is_text ? kMostLookedAt : 0);
    while (preview_.num_looked_at < most) {
      const std::optional<dataset::Batch> batch = loader->next();
      if (!batch) break;
      add(*batch, loader->spec());
    }
    // Streams of text fill all rows; texts with a label fill one if they are long.
    const Targets targets = loader->spec().targets;
    const bool is_labelled =
        targets != Targets::next_tokens && targets != Targets::masked_tokens && targets != Targets::target_tokens;
    if (is_text && is_labelled && num_full_ > 0)
      preview_.remarks.push_back(core::format_count(num_full_) + " of " + core::format_count(preview_.num_looked_at) +
                                 " texts have the most tokens that a text can have: longer texts are cut to these");
  }

 private:
  void add(const dataset::Batch& batch, const dataset::SampleSpec& spec) {
    for (std::int64_t row = 0; row < batch.size(); ++row) {
      const std::string place = "sample " + std::to_string(++preview_.num_looked_at);
      const bool is_shown = std::ssize(preview_.samples) < request_.num_samples;
      if (spec.vocab_size > 0) {
        add_text(BatchView(batch, spec), spec, row, place, is_shown);
      } else if (is_shown) {
        PreviewSample sample{.title = place};
        if (spec.targets == Targets::class_masks)
          sample.picture = dataset::masked_picture_of(batch.inputs[row], batch.targets[row], config_);
        else if (spec.is_image())
          sample.picture = dataset::picture_of(batch.inputs[row], config_);
        else
          sample.columns = dataset::columns_of(batch.inputs[row], spec);
        preview_.samples.push_back(std::move(sample));
      }
      const bool has_own_title = batch.targets.dim() == 1 || spec.is_image();
      if (is_shown && has_own_title) preview_.samples.back().title += ": " + label_of(batch.targets[row], spec);
    }
  }

  static std::string label_of(const at::Tensor& target, const dataset::SampleSpec& spec) {
    if (spec.targets == Targets::label_sets) return labels_of(target, spec);
    if (spec.targets == Targets::class_masks) return shares_of(target, spec);
    if (spec.targets == Targets::values) return core::format_digits(spec.labels.restored(target.item<double>()), 6);
    return name_of_class(target.item<std::int64_t>(), spec);
  }
  /// Returns the names of the labels of a row of 0 and 1.
  static std::string labels_of(const at::Tensor& target, const dataset::SampleSpec& spec) {
    std::vector<std::string> names;
    for (std::int64_t label = 0; label < target.size(0); ++label)
      if (target[label].item<std::int64_t>() != 0) names.push_back(name_of_class(label, spec));
    return names.empty() ? "no label" : core::list_words(names);
  }
  /// Returns the classes of a mask, with the share of each.
  static std::string shares_of(const at::Tensor& target, const dataset::SampleSpec& spec) {
    std::vector<std::string> shares;
    const auto num_pixels = static_cast<double>(target.numel());
    for (std::int64_t label = 0; label < spec.num_classes; ++label)
      if (const auto pixels = target.eq(label).sum().item<std::int64_t>(); pixels > 0)
        shares.push_back(name_of_class(label, spec) + " " +
                         core::format_number(std::round(1000 * static_cast<double>(pixels) / num_pixels) / 10) + " %");
    return shares.empty() ? "no class" : core::list_words(shares);
  }
  static std::string name_of_class(std::int64_t label, const dataset::SampleSpec& spec) {
    return label >= 0 && label < std::ssize(spec.class_names) ? spec.class_names[static_cast<std::size_t>(label)]
                                                              : std::to_string(label);
  }

  void add_text(const BatchView& view, const dataset::SampleSpec& spec, std::int64_t row, const std::string& place,
                bool is_shown) {
    const std::vector<dataset::ShownToken> tokens = view.row(row);
    std::int64_t length = 0;
    for (const dataset::ShownToken& token : tokens) {
      ++preview_.num_tokens.at(static_cast<std::size_t>(token.fate));
      if (token.fate != TokenFate::padding) ++length;
    }
    if (length == spec.input_shape[0]) ++num_full_;
    note_length({place, length});
    if (!is_shown) return;
    std::vector<std::string> notes;
    for (std::int64_t t = 0; t < std::ssize(tokens); ++t) notes.push_back(note_of(view, spec, row, t));
    preview_.samples.push_back({.title = place, .pieces = pieces_of(tokens, notes, tokenizer_.get())});
  }

  std::string note_of(const BatchView& view, const dataset::SampleSpec& spec, std::int64_t row,
                      std::int64_t token) const {
    if (spec.targets == Targets::next_tokens || spec.targets == Targets::target_tokens) return "";
    const std::int64_t target = view.target(row, token);
    if (target == kNoTarget) return "";
    if (spec.targets == Targets::token_labels) return name_of_class(target, spec);
    return tokenizer_ == nullptr ? std::to_string(target) : tokenizer_->token_of(static_cast<std::int32_t>(target));
  }

  void note_length(dataset::LongText text) {
    std::vector<dataset::LongText>& longest = preview_.longest;
    const auto at = std::upper_bound(
        longest.begin(), longest.end(), text,
        [](const dataset::LongText& a, const dataset::LongText& b) { return a.num_tokens > b.num_tokens; });
    longest.insert(at, std::move(text));
    if (longest.size() > kMostLongest) longest.pop_back();
  }

  dataset::DatasetConfig config_;
  const PreviewRequest& request_;
  Preview& preview_;
  std::int64_t num_full_ = 0;  // texts of the longest permitted length
  std::unique_ptr<tokenizer::Tokenizer> tokenizer_;
};

void take_conversations(const dataset::ShownConversations& shown, const dataset::DatasetConfig& config,
                        Preview& preview) {
  const std::unique_ptr<tokenizer::Tokenizer> tokenizer = tokenizer_of(config);
  for (const dataset::ShownText& text : shown.texts)
    preview.samples.push_back({.title = text.place, .pieces = pieces_of(text.tokens, {}, tokenizer.get())});
  preview.num_looked_at = shown.num_conversations;
  preview.num_tokens = shown.num_tokens;
  preview.knows_cut = true;
  preview.longest = shown.longest;
  if (shown.num_rows > 0)
    preview.remarks.push_back(core::format_count(shown.num_conversations) + " conversations in " +
                              core::format_count(shown.num_rows) + " rows");
}

}  // namespace

Preview preview_dataset(const dataset::DatasetConfig& config, const PreviewRequest& request) {
  Preview preview{
      .kind = std::string(config.source.kind()), .set = request.of_evaluation ? "eval" : "train", .samples = {}};
  const auto tell = [&](const std::string& text) { preview.remarks.push_back(text); };
  const dataset::ShowRequest show{
      .most_texts = request.num_samples, .of_evaluation = request.of_evaluation, .tell = tell};
  if (const auto conversations = dataset::shown_conversations(config.source, show))
    take_conversations(*conversations, config, preview);
  else if (const auto pairs = dataset::shown_pairs(config.source, show))
    take_conversations(*pairs, config, preview);
  else
    LoaderView(config, request, preview).look();
  return preview;
}

}  // namespace trainctl::data_tools
