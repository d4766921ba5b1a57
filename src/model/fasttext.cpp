// fastText's classifier (Joulin et al., "Bag of Tricks for Efficient Text Classification",
// https://arxiv.org/abs/1607.01759): the mean of the embeddings of all n-grams, and a linear layer.
#include <ATen/ops/ones.h>

#include <limits>

#include "core/error.h"
#include "model/layers/embedding.h"
#include "model/layers/linear.h"
#include "model/networks.h"

namespace trainctl::model {
namespace {

// An n-gram has a polynomial hash, whose products stay below 2^63, also in an exported graph.
constexpr std::int64_t kBase = 16'777'619;
constexpr std::int64_t kModulus = 2'147'483'647;

/// The mean of the embeddings of the n-grams without padding, [B, D]; zeros for a sequence without any.
class NgramEmbedding final : public SequenceLayer {
 public:
  explicit NgramEmbedding(const FastTextConfig& config)
      : embedding_(child<Embedding>("embedding", config.num_buckets, config.embedding_size,
                                    Init::uniform(1.0 / static_cast<double>(config.embedding_size)))),
        config_(config) {}

  at::Tensor compute(const at::Tensor& ids, const SequenceContext& context) override {
    const at::Tensor is_token =
        context.key_mask.defined() ? context.key_mask : at::ones(ids.sizes(), ids.options().dtype(at::kBool));
    at::Tensor hash = ids;           // of the n-grams that begin at each place
    at::Tensor is_whole = is_token;  // none of their tokens is padding
    at::Tensor sum;
    at::Tensor count;
    for (std::int64_t n = 1; n <= config_.max_ngram; ++n) {
      if (n > 1) {
        hash = hash.slice(1, 0, -1).mul(kBase).add(ids.slice(1, n - 1)).add(1).remainder(kModulus);
        is_whole = is_whole.slice(1, 0, -1).logical_and(is_token.slice(1, n - 1));
      }
      if (n < config_.min_ngram) continue;
      const at::Tensor vectors = embedding_.forward(hash.add(n).remainder(config_.num_buckets));  // [B, T - n + 1, D]
      const at::Tensor weights = is_whole.unsqueeze(2).to(vectors.scalar_type());
      const at::Tensor of_length = vectors.mul(weights).sum(1);
      const at::Tensor num_of_length = weights.sum(1);
      sum = sum.defined() ? sum.add(of_length) : of_length;
      count = count.defined() ? count.add(num_of_length) : num_of_length;
    }
    return sum.div(count.clamp_min(1));
  }

 private:
  Embedding& embedding_;
  FastTextConfig config_;
};

class FastText final : public Model {
 public:
  FastText(const FastTextConfig& config, const InputSpec& input) {
    sequence_length(input, FastTextConfig::kind, std::numeric_limits<std::int64_t>::max());  // of any length
    auto& ngrams = child<NgramEmbedding>("ngrams", config);
    add_block("ngrams", ngrams);
    auto& classifier =
        child<Linear>("classifier", config.embedding_size, num_outputs_or_one(config.num_classes, input));
    add_block("classifier", classifier);
    flops_ = classifier.flops();  // of products, as everywhere: not of the embeddings' sum
  }

  double flops_per_sample() const override { return flops_; }

 protected:
  SequenceContext context(const ModelInput& input) const override {
    return make_context(input, Causality::bidirectional);
  }

 private:
  double flops_ = 0;
};

}  // namespace

std::unique_ptr<Model> build(const FastTextConfig& config, const InputSpec& input) {
  return std::make_unique<FastText>(config, input);
}

}  // namespace trainctl::model
