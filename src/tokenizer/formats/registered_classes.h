// The tokenizer classes that AutoTokenizer of transformers knows: by the network's model_type, and under several names.
#pragma once

#include <string_view>

namespace trainctl::tokenizer {

/// Returns the class, without "Fast", that transformers has for a config.json's model_type; empty: none. The class
/// TokenizersBackend takes a tokenizer.json as it is, whatever class other files name.
std::string_view registered_class(std::string_view model_type);

/// Returns the class that a name stands for: "BartTokenizer" is transformers' second name of RobertaTokenizer.
std::string_view class_of_alias(std::string_view tokenizer_class);

}  // namespace trainctl::tokenizer
