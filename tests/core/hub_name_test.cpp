#include "core/hub_name.h"

#include <catch2/catch.hpp>

namespace trainctl::core {
namespace {

TEST_CASE("a name of the hub is told from a path", "[core]") {
  for (const char* name :
       {"bert-base-uncased", "google/vit-base-patch16-224", "meta-llama/Llama-3.2-1B", "timm/resnet50.a1_in1k"})
    CHECK(is_hub_name(name));
  for (const char* path :
       {"", "/models/bert", "./bert", "../bert", "a/b/c", "weights/model.safetensors", "resnet18.pth", "bert base"})
    CHECK_FALSE(is_hub_name(path));
}

TEST_CASE("missing weights with a name of the hub are explained by the command that downloads them", "[core]") {
  const Error error = missing_weights_error("google/vit-base");
  CHECK(
      error.text() ==
      "there is no file or directory google/vit-base; expected a local path, since trainctl downloads nothing\n"
      "  try: `hf download google/vit-base --local-dir vit-base` downloads the model google/vit-base from the Hugging "
      "Face Hub; then give the directory vit-base");
  CHECK(missing_weights_error("/models/bert").text() == "there is no file or directory /models/bert");
  CHECK(missing_weights("./bert") == "there is no file or directory ./bert");
}

}  // namespace
}  // namespace trainctl::core
