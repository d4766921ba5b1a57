// Names of the experiment file that were others before the first release, each with the word that took its place. The
// table goes when nobody has such files any more; docs/glossary.md shows it to readers.
#pragma once

#include <array>

#include "config/renamed.h"

namespace trainctl::experiment {

inline constexpr std::array kRenamed = std::to_array<config::Renamed>({
    {"", "deploy", "model_card"},
    {"model_card", "licence", "license"},
    {"dataset", "bucket_batches", "length_group_batches"},
    {"dataset", "shuffle_window", "shuffle_buffer"},
    {"dataset", "invalid_utf8", "encoding_errors"},
    {"dataset", "encoding_errors: refuse", "encoding_errors: strict"},
    {"model", "max_positions", "max_position_embeddings"},
    {"model", "original_max_positions", "original_max_position_embeddings"},
    {"model", "num_token_types", "type_vocab_size"},
    {"model", "padding_id", "pad_token_id"},
    {"model", "train_also", "modules_to_save"},
    {"task", "loss_chunk", "loss_chunk_size"},
    {"optimizer", "decay_share", "decay_ratio"},
    {"activation_checkpointing", "kind: every_block", "kind: full"},
    {"activation_checkpointing", "kind: every", "kind: every_n"},
    {"activation_checkpointing", "k", "n"},
    {"activation_checkpointing", "kind: selective", "kind: selective_op"},
    {"activation_checkpointing", "compress", "storage_dtype"},
    {"distributed", "min_compression", "min_compression_rate"},
    {"profiler", "trace_mib", "max_trace_mib"},
    {"profiler", "in_training_from", "start_step"},
    {"quantization", "keep_float", "skip_modules"},
    {"device", "cache_memory", "caching_allocator"},
});

}  // namespace trainctl::experiment
