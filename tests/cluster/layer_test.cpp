#include "cluster/layer.h"

#include <catch2/catch.hpp>

#include "cases.h"

namespace trainctl::cluster {
namespace {

/// Llama 3 70B of tensor ranks that share the tokens.
Run llama_70b(const std::string& device, const std::string& software) {
  return {.model = llama3(80, 8192, 64, 28672),
          .layout = {.tensor = 4, .sequence_parallel = true},
          .machines = machines(device, software)};
}

LayerTimes times_of(const Run& run) {
  return layer_times(run.setup());
}

TEST_CASE("a softmax is fused for lengths and heads that Megatron's kernel takes", "[cluster]") {
  Run run = gpt_310b();
  const auto attention = [&](std::int64_t length, std::int64_t heads) {
    run.model.sequence_length = length;
    run.model.num_heads = run.model.num_kv_heads = heads;
    run.model.head_size = 128;
    run.layout.tensor = 1;
    return times_of(run).attention.forward / static_cast<double>(heads * length * length);
  };
  const double fused = attention(2048, 64);
  CHECK(attention(2048, 60) == Approx(fused).epsilon(0.05));
  CHECK(attention(2048, 62) > 1.2 * fused);
  CHECK(attention(4096, 64) > 1.2 * fused);
}

TEST_CASE("without a fused softmax each score takes 8 bytes more and the host launches more kernels", "[cluster]") {
  Run run = gpt_310b();
  run.layout.tensor = 1;
  run.model.num_heads = run.model.num_kv_heads = 126;
  run.model.head_size = 128;
  const LayerTimes separate = times_of(run);
  run.machines.software.forward.separate_softmax_bytes = 0;
  run.machines.software.forward.separate_softmax_kernels = 0;
  const LayerTimes fused = times_of(run);
  const Kernels kernels(run.machines);
  CHECK(separate.attention.forward - fused.attention.forward == Approx(kernels.stream(126.0 * 2048 * 2048 * 8, 0)));
  CHECK(separate.launches.forward - fused.launches.forward == Approx(3 * kernels.launch_time()));
}

TEST_CASE("scales by row slow forward products and rescale what backward products write", "[cluster]") {
  Run run = llama_70b("h100", "torchtitan");
  run.layout.precision = Precision::fp8;
  run.layout.quantization = Quantization::tensorwise;
  const LayerTimes tensorwise = times_of(run);
  run.layout.quantization = Quantization::rowwise;
  const LayerTimes rowwise = times_of(run);
  CHECK(rowwise.products.forward == Approx(tensorwise.products.forward / 0.95));
  CHECK(rowwise.products.backward == Approx(tensorwise.products.backward));
  CHECK(rowwise.quantization.backward > tensorwise.quantization.backward);

  run.machines.software.communication.chunks_tensor_parallel = true;
  const double whole_gathers = times_of(run).tensor_communication.forward;
  run.layout.quantization = Quantization::tensorwise;
  CHECK(times_of(run).tensor_communication.forward < whole_gathers);
}

TEST_CASE("fp8 with a scale for each block attains its own rate", "[cluster]") {
  Run run = llama_70b("b300", "transformer_engine");
  run.layout.precision = Precision::fp8;
  run.layout.quantization = Quantization::current;
  const double current = times_of(run).products.forward;
  run.layout.quantization = Quantization::mx;
  CHECK(times_of(run).products.forward == Approx(current * 2814 / 2677).epsilon(0.01));
  run.machines = machines("gb300", "transformer_engine");
  CHECK(run.machines.device.sustained->mxfp8 == Approx(2677 * 1400 / 1100.0));
}

TEST_CASE("tensor ranks gather NVFP4 values with their scales", "[cluster]") {
  Run run = llama_70b("gb300", "transformer_engine");
  run.layout.precision = Precision::nvfp4;
  run.layout.quantization = Quantization::nvfp4;
  run.machines.software.communication.chunks_tensor_parallel = false;
  const double quantized = times_of(run).tensor_communication.forward;
  run.machines.software.communication.tensor_gather_bytes_nvfp4 = 2;
  const double whole = times_of(run).tensor_communication.forward;
  const double bytes = (2 - 0.5625) * 8192.0 * 8192;
  CHECK(whole - quantized == Approx(2 * bytes * 3 / 4 / (run.machines.network.link_gbs * 1e9)));
}

TEST_CASE("a compiled layer does not recompute its last product", "[cluster]") {
  Run run = llama_70b("h100", "torchtitan");
  run.layout.recomputation = Recomputation::full;
  const LayerTimes compiled = times_of(run);
  run.machines.software.kernels.recomputes_only_needed = false;
  const double left_out = times_of(run).recomputation - compiled.recomputation;
  CHECK(left_out > compiled.tensor_communication.forward / 4);
  CHECK(left_out < compiled.products.forward / 3 + compiled.tensor_communication.forward / 4);
}

TEST_CASE("ranks that merge attention by blocks send more and hide less than those that gather keys", "[cluster]") {
  Run run = llama_70b("h100", "torchtitan");
  run.layout.context = 4;
  const ForwardBackward merged = times_of(run).context_communication;
  run.machines.software.communication.merges_context_blocks = false;
  const ForwardBackward gathered = times_of(run).context_communication;
  CHECK(merged.forward > gathered.forward);
  CHECK(merged.backward > gathered.backward);
  run.layout.context = 1;
  CHECK(times_of(run).context_communication.forward == 0);
}

TEST_CASE("odd vocabularies of a rank are read in narrow loads", "[cluster]") {
  Run run = llama_70b("h100", "nanotron");
  run.model.vocab_size = 50257;
  run.layout.tensor = 1;
  const double odd = head_times(run.setup()).forward;
  run.model.vocab_size = 50304;
  CHECK(odd > 4 * head_times(run.setup()).forward);
  run.machines = machines("h100", "megatron_2022");
  run.model.vocab_size = 50257;
  const double padded = head_times(run.setup()).forward;
  run.model.vocab_size = 50304;
  CHECK(padded == Approx(head_times(run.setup()).forward));
}

}  // namespace
}  // namespace trainctl::cluster
