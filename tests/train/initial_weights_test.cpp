#include "train/run/initial_weights.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <catch2/catch.hpp>

#include <fstream>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "config/flatten.h"
#include "config/write.h"
#include "core/error.h"
#include "support/published_networks.h"
#include "support/temporary_directory.h"

namespace trainctl::train {
namespace {

using namespace testing;  // NOLINT
namespace fs = std::filesystem;

PublishedNetwork network_of(const std::string& name) {
  for (PublishedNetwork& published : published_networks())
    if (published.name == name) return published;
  throw std::logic_error("no network " + name);
}

std::string load(const PublishedNetwork& published, model::Model& model, const fs::path& path,
                 model::InitPolicy policy = model::InitPolicy::new_head) {
  std::vector<tracking::Notice> notices;
  load_initial_weights(model, {.network = published.network, .init_from = path.string(), .init_policy = policy},
                       {published.input}, notices);
  REQUIRE(notices.size() == 1);
  return notices[0].text;
}

std::string failure(const PublishedNetwork& published, const fs::path& path,
                    model::InitPolicy policy = model::InitPolicy::new_head) {
  const auto model = ready(published);
  try {
    load(published, *model, path, policy);
  } catch (const core::Error& error) {
    return error.text();
  }
  FAIL("loaded");
  return "";
}

checkpoint::TensorMap tensors_of(model::Model& model) {
  checkpoint::TensorMap tensors;
  for (const model::NamedTensor& named : model::named_parameters(model))
    tensors[named.name] = named.tensor.detach().clone();
  return tensors;
}

fs::path write(const TemporaryDirectory& scratch, const checkpoint::TensorMap& tensors,
               const std::string& name = "w.safetensors") {
  checkpoint::write_safetensors(scratch / name, tensors, {}, core::Durability::process);
  return scratch / name;
}

bool same_weights(model::Model& a, model::Model& b) {
  const checkpoint::TensorMap left = tensors_of(a);
  const checkpoint::TensorMap right = tensors_of(b);
  for (const auto& [name, tensor] : left)
    if (!tensor.equal(right.at(name))) return false;
  return left.size() == right.size();
}

/// Checks what is told of a directory that is of another family, or of another soft cap.
void check_family_differences(const TemporaryDirectory& scratch) {
  const std::string qwen = failure(network_of("llama_tied"), scratch / "qwen2_sliding" / "plain");
  CHECK(qwen.find("model_type is \"qwen2\" in config.json, with another model.attention_bias than here") !=
        std::string::npos);
  PublishedNetwork gemma = network_of("gemma2");
  model::LlamaConfig uncapped = *gemma.network.get_if<model::LlamaConfig>();
  uncapped.final_logit_softcapping = std::nullopt;
  gemma.network = uncapped;
  CHECK(failure(gemma, scratch / "gemma2" / "plain")
            .find("final_logit_softcapping is 3.0 in config.json and null here (model.final_logit_softcapping)") !=
        std::string::npos);
}

TEST_CASE("what transformers saved gives its logits here, in one file and in shards", "[train][reference]") {
  const TemporaryDirectory scratch;
  run_published_weights("save", scratch.path());
  for (const PublishedNetwork& published : published_networks()) {
    const checkpoint::TensorMap reference =
        checkpoint::read_safetensors(scratch / published.name / "reference.safetensors");
    for (const char* layout : {"plain", "sharded"}) {
      INFO(published.name << " " << layout);
      CHECK(fs::exists(scratch / published.name / layout / "model.safetensors.index.json") ==
            (std::string(layout) == "sharded"));
      const auto model = ready(published);
      const std::string notice = load(published, *model, scratch / published.name / layout, model::InitPolicy::strict);
      CHECK(notice.find("newly initialized") == std::string::npos);
      CHECK(relative_difference(logits_of(*model, reference.at("inputs")), reference.at("logits")) < 1e-5);
    }
  }
  SECTION("without a prefix") {
    const PublishedNetwork bert = network_of("bert_classifier");
    const auto model = ready(bert);
    const std::string notice = load(bert, *model, scratch / "bert_bare" / "plain");
    CHECK(notice.find("newly initialized: classifier.weight, classifier.bias") != std::string::npos);
    const checkpoint::TensorMap file =
        checkpoint::read_safetensors(scratch / "bert_bare" / "plain" / "model.safetensors");
    const checkpoint::TensorMap loaded = tensors_of(*model);
    CHECK(loaded.at("bert.pooler.dense.weight").equal(file.at("pooler.dense.weight")));
    CHECK(loaded.at("bert.encoder.layer.1.output.dense.weight").equal(file.at("encoder.layer.1.output.dense.weight")));
    const PublishedNetwork gpt2 = network_of("gpt2");
    load(gpt2, *ready(gpt2), scratch / "gpt2_bare" / "sharded", model::InitPolicy::strict);
  }
  SECTION("a classifier from a masked language model") {
    const PublishedNetwork bert = network_of("bert_classifier");
    const std::string notice = load(bert, *ready(bert), scratch / "bert_mlm" / "plain");
    CHECK(notice.find("newly initialized: bert.pooler.dense.weight, bert.pooler.dense.bias, classifier.weight") !=
          std::string::npos);
    CHECK(notice.find("not used: cls.predictions.bias") != std::string::npos);
    CHECK(failure(bert, scratch / "bert_mlm" / "plain", model::InitPolicy::strict).find("classifier.weight: missing") !=
          std::string::npos);
  }
  SECTION("config.json is compared first, all keys at once") {
    PublishedNetwork llama = network_of("llama");
    model::LlamaConfig other = *llama.network.get_if<model::LlamaConfig>();
    other.num_layers = 3;
    other.rope_theta = 10000;
    other.rope_scaling = model::PlainRopeConfig{};
    llama.network = other;
    const std::string text = failure(llama, scratch / "llama" / "plain");
    CHECK(text.find("num_hidden_layers is 2 in config.json and 3 here (model.num_layers)") != std::string::npos);
    CHECK(text.find("rope_theta is 500000.0 in config.json and 10000.0 here (model.rope_theta)") != std::string::npos);
    CHECK(text.find("rope_type is \"llama3\" in config.json and \"default\" here (model.rope_scaling.kind)") !=
          std::string::npos);
    check_family_differences(scratch);
    CHECK(failure(network_of("gpt2"), scratch / "llama" / "plain").find("model_type is \"llama\"") !=
          std::string::npos);
  }
}

TEST_CASE("missing and unexpected tensors and other shapes are listed together", "[train]") {
  const TemporaryDirectory scratch;
  const PublishedNetwork gpt2 = network_of("gpt2");
  checkpoint::TensorMap tensors = tensors_of(*ready(gpt2, 2));
  tensors.erase("transformer.ln_f.bias");
  tensors["transformer.h.7.bias"] = at::zeros({3});
  tensors["transformer.wpe.weight"] = at::zeros({12, 32});
  const fs::path file = write(scratch, tensors);
  for (const model::InitPolicy policy : {model::InitPolicy::new_head, model::InitPolicy::strict}) {
    const std::string text = failure(gpt2, file, policy);
    CHECK(text.find("transformer.ln_f.bias: missing in the file") != std::string::npos);
    CHECK(text.find("transformer.wpe.weight: [12, 32] in the file, [24, 32] in the model") != std::string::npos);
    CHECK(text.find("transformer.h.7.bias: in the file, but not in the model") != std::string::npos);
  }
  const std::string notice = load(gpt2, *ready(gpt2), file, model::InitPolicy::partial);
  CHECK(
      notice.find("newly initialized: transformer.wpe.weight, transformer.ln_f.bias; not used: transformer.h.7.bias") !=
      std::string::npos);
}

TEST_CASE("a head of another size starts afresh, unless strict", "[train]") {
  const TemporaryDirectory scratch;
  const PublishedNetwork vit = network_of("vit");
  PublishedNetwork wider = vit;
  wider.input.num_classes = 1000;
  const fs::path file = write(scratch, tensors_of(*ready(wider, 2)));
  CHECK(load(vit, *ready(vit), file).find("newly initialized: head.weight, head.bias") != std::string::npos);
  CHECK(
      failure(vit, file, model::InitPolicy::strict).find("head.weight: [1000, 32] in the file, [5, 32] in the model") !=
      std::string::npos);
}

TEST_CASE("extras that are no weights, and the same tensor twice, are no problem", "[train]") {
  const TemporaryDirectory scratch;
  const PublishedNetwork gpt2 = network_of("gpt2");
  const auto source = ready(gpt2, 2);
  checkpoint::TensorMap tensors = tensors_of(*source);
  tensors["transformer.h.0.attn.bias"] = at::ones({1, 1, 24, 24});
  tensors["lm_head.weight"] = tensors["transformer.wte.weight"].clone();
  const auto model = ready(gpt2);
  load(gpt2, *model, write(scratch, tensors), model::InitPolicy::strict);
  CHECK(same_weights(*model, *source));
  tensors["lm_head.weight"].add_(1);
  CHECK(failure(gpt2, write(scratch, tensors))
            .find("lm_head.weight: has other values in the file than transformer.wte.weight") != std::string::npos);
}

TEST_CASE("an output layer that the file lacks is told where it takes the embeddings", "[train][regression]") {
  const TemporaryDirectory scratch;
  const PublishedNetwork llama = network_of("llama");
  checkpoint::TensorMap tensors = tensors_of(*ready(llama));
  REQUIRE(tensors.erase("lm_head.weight") == 1);
  const auto model = ready(llama, 2);
  std::vector<tracking::Notice> notices;
  load_initial_weights(*model, {.network = llama.network, .init_from = write(scratch, tensors).string()}, {llama.input},
                       notices);
  REQUIRE(notices.size() == 2);
  CHECK(notices[1].level == tracking::Level::warning);
  CHECK(notices[1].text.find("lm_head.weight from model.embed_tokens.weight") != std::string::npos);
}

TEST_CASE("two names of one tensor are refused if their values differ", "[train][regression]") {
  const TemporaryDirectory scratch;
  const PublishedNetwork bert = network_of("bert_classifier");
  checkpoint::TensorMap tensors;
  for (const auto& [name, tensor] : tensors_of(*ready(bert, 2)))
    tensors[name.starts_with("bert.") ? name.substr(5) : name] = tensor;
  tensors["embeddings.LayerNorm.gamma"] = tensors.at("embeddings.LayerNorm.weight").clone();
  load(bert, *ready(bert), write(scratch, tensors));
  tensors["embeddings.LayerNorm.gamma"].add_(1);
  const std::string text = failure(bert, write(scratch, tensors));
  CHECK(text.find("bert.embeddings.LayerNorm.weight twice with different values") != std::string::npos);
  CHECK(text.find("embeddings.LayerNorm.gamma and embeddings.LayerNorm.weight") != std::string::npos);
}

TEST_CASE("half precision becomes single; eight bits don't", "[train]") {
  const TemporaryDirectory scratch;
  const PublishedNetwork gpt2 = network_of("gpt2");
  const checkpoint::TensorMap tensors = tensors_of(*ready(gpt2, 2));
  const auto with = [&](at::ScalarType type) {
    checkpoint::TensorMap converted;
    for (const auto& [name, tensor] : tensors) converted[name] = tensor.to(type);
    return write(scratch, converted);
  };
  for (const at::ScalarType type : {at::kHalf, at::kBFloat16, at::kDouble}) {
    const auto model = ready(gpt2);
    load(gpt2, *model, with(type));
    const checkpoint::TensorMap loaded = tensors_of(*model);
    for (const auto& [name, tensor] : tensors) CHECK(loaded.at(name).equal(tensor.to(type).to(at::kFloat)));
  }
  CHECK(failure(gpt2, with(at::kFloat8_e4m3fn)).find("Float8_e4m3fn in the file can't become Float") !=
        std::string::npos);
  CHECK(failure(gpt2, with(at::kInt)).find("Int in the file can't become Float") != std::string::npos);
}

/// A run's checkpoint of these weights, in checkpoints/step_00000003.
fs::path save_checkpoint(const TemporaryDirectory& scratch, model::Model& model,
                         const std::map<std::string, std::string>& config = {}) {
  checkpoint::ShownState state;
  for (const auto& [name, tensor] : tensors_of(model)) state.tensors["model." + name] = {tensor, {}};
  state.values["step"] = std::int64_t{3};
  checkpoint::Saver saver(scratch / "checkpoints", {});
  saver.save(state, {.step = 3, .config = config, .metrics = {}, .data_fingerprint = ""});
  saver.finish();
  return scratch / "checkpoints" / "step_00000003";
}

TEST_CASE("a run's weights come from its run, checkpoints and step directories, but not from a damaged one",
          "[train]") {
  const TemporaryDirectory scratch;
  const PublishedNetwork gpt2 = network_of("gpt2");
  const auto source = ready(gpt2, 2);
  const fs::path step = save_checkpoint(scratch, *source);
  for (const fs::path& path : {scratch.path(), scratch / "checkpoints", step}) {
    const auto model = ready(gpt2);
    CHECK(load(gpt2, *model, path, model::InitPolicy::strict).find(step.string()) != std::string::npos);
    CHECK(same_weights(*model, *source));
  }
  std::fstream(step / "model.safetensors", std::ios::in | std::ios::out | std::ios::binary).seekp(-1, std::ios::end)
      << '\x7f';
  for (const fs::path& path : {scratch.path(), scratch / "checkpoints", step})
    CHECK(failure(gpt2, path).find("model.safetensors is damaged: the checksum of bytes") != std::string::npos);
  for (const fs::directory_entry& entry : fs::directory_iterator(step))
    if (entry.path().filename() != "model.safetensors") fs::remove(entry.path());
  CHECK(failure(gpt2, step).find("no complete checkpoint in " + step.string()) != std::string::npos);
}

TEST_CASE("weights whose classes are in another order than the data's are refused", "[train][regression]") {
  const TemporaryDirectory scratch;
  const PublishedNetwork bert = network_of("bert_classifier");
  const auto model = ready(bert);
  write(scratch, tensors_of(*model), "model.safetensors");
  std::ofstream(scratch / "config.json") << R"({"id2label": {"0": "cat", "1": "dog"}})";
  std::vector<tracking::Notice> notices;
  const model::ModelConfig config{.network = bert.network, .init_from = scratch.path().string()};
  CHECK_THROWS_WITH(load_initial_weights(*model, config, {bert.input, {"dog", "cat"}}, notices),
                    Catch::Contains("in another order: cat, dog"));
}

TEST_CASE("keys with which a run's weights compute something else are told", "[train][regression]") {
  const TemporaryDirectory scratch;
  const PublishedNetwork gpt2 = network_of("gpt2");
  const auto model = ready(gpt2);
  model::ModelConfig config{.network = gpt2.network};
  std::map<std::string, std::string> trained;
  for (const auto& [key, value] : config::flatten(config::write(config))) trained["model." + key] = value;
  trained["model.num_heads"] = "8";
  trained["model.dropout"] = "0.3";
  save_checkpoint(scratch, *model, trained);
  config.init_from = scratch.path().string();
  std::vector<tracking::Notice> notices;
  load_initial_weights(*model, config, {gpt2.input}, notices);
  REQUIRE(notices.size() == 2);
  CHECK(notices[0].level == tracking::Level::warning);
  CHECK_THAT(notices[0].text, Catch::EndsWith("were trained with other keys: model.num_heads: 8 -> 4"));
}

TEST_CASE("weights of PyTorch before 0.4.1, without num_batches_tracked, are loaded", "[train][regression]") {
  const TemporaryDirectory scratch;
  const PublishedNetwork cnn{
      .name = "cnn", .network = model::CnnConfig{.channels = {4}}, .input = {.shape = {1, 8, 8}, .num_classes = 3}};
  const auto source = ready(cnn, 2);
  checkpoint::TensorMap tensors = tensors_of(*source);
  for (const model::NamedTensor& named : model::named_buffers(*source))
    if (!named.name.ends_with("num_batches_tracked")) tensors[named.name] = named.tensor.clone();
  const auto model = ready(cnn);
  load(cnn, *model, write(scratch, tensors), model::InitPolicy::strict);
  CHECK(same_weights(*model, *source));
}

TEST_CASE("weights of nothing that the model has are refused by every policy", "[train]") {
  const TemporaryDirectory scratch;
  const PublishedNetwork gpt2 = network_of("gpt2");
  const fs::path file = write(scratch, {{"a", at::zeros({2})}});
  CHECK(failure(gpt2, file, model::InitPolicy::partial).find("none of the weights in") != std::string::npos);
  for (const model::InitPolicy policy : {model::InitPolicy::strict, model::InitPolicy::new_head}) {
    const std::string text = failure(gpt2, file, policy);
    CHECK(text.find("missing in the file") != std::string::npos);
    CHECK(text.find("… and ") != std::string::npos);  // not all of them
  }
  CHECK(failure(network_of("bert_mlm"), write(scratch, {}, "empty.safetensors"), model::InitPolicy::partial)
            .find("none of the weights") != std::string::npos);
  CHECK(failure(gpt2, scratch / "absent").find("absent") != std::string::npos);
}

TEST_CASE("damaged directories are errors that say what is wrong with which file", "[train]") {
  const TemporaryDirectory scratch;
  const PublishedNetwork gpt2 = network_of("gpt2");
  const auto failing = [&](const std::string& part) {
    const std::string text = failure(gpt2, scratch.path());
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  failing("no weights in");
  scratch.write("pytorch_model.bin", "x");
  failing("not a valid safetensors file");
  fs::remove(scratch / "pytorch_model.bin");
  const std::string index = "model.safetensors.index.json";
  scratch.write(index, "[1, 2");
  failing("is no JSON object");
  scratch.write(index, "{\"weight_map\": {}}");
  failing("has no weight_map");
  for (const char* name : {"../x", "/etc/passwd", "..", "", "a/b"}) {
    scratch.write(index, std::string("{\"weight_map\": {\"a\": \"") + name + "\"}}");
    failing("isn't the name of a file beside it");
  }
  scratch.write(index, "{\"weight_map\": {\"a\": 3}}");
  failing("isn't the name of a file beside it");
  scratch.write(index, "{\"weight_map\": {\"a\": \"one.safetensors\"}}");
  failing("names one.safetensors, which isn't there");
  write(scratch, {{"b", at::zeros({2})}}, "one.safetensors");
  failing("a isn't in one.safetensors");
  scratch.write("one.safetensors", std::string("\x10\0\0\0\0\0\0\0{\"a\": {\"dty", 18));
  failing("one.safetensors");
  scratch.write("model.safetensors", std::string("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10));
  failing("model.safetensors");
  write(scratch, tensors_of(*ready(gpt2)), "model.safetensors");
  scratch.write("config.json", "{\"model_type\": 7, \"n_layer\": [], ");
  failing("config.json is no JSON object");
  scratch.write("config.json", "{\"model_type\": 7}");
  failing("model_type is 7 in config.json");
  scratch.write("config.json", "{\"n_layer\": {\"a\": []}, \"n_embd\": \"32\"}");
  failing("n_embd is \"32\" in config.json and 32 here");
}

}  // namespace
}  // namespace trainctl::train
