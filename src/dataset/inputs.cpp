#include "dataset/inputs.h"

#include "dataset/files/named_files.h"

namespace trainctl::dataset {

std::vector<std::string> input_files(const std::vector<std::string>& patterns,
                                     const std::vector<std::string>& endings) {
  return named_files(patterns, "--input", {endings});
}

}  // namespace trainctl::dataset
