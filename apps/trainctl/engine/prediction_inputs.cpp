#include "prediction_inputs.h"

#include <cstdio>

#include "core/error.h"
#include "core/file.h"
#include "dataset/inputs.h"

namespace trainctl::engine {
namespace {

constexpr const char* kStandardInput = "-";
constexpr std::uint64_t kMostBytes = std::uint64_t{4} << 30;  // of one file

std::string read_standard_input() {
  std::string content;
  std::vector<char> buffer(std::size_t{1} << 16);
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), stdin)) {
    content.append(buffer.data(), count);
    if (content.size() > kMostBytes) throw core::Error("standard input has more than 4 GiB");
  }
  return content;
}

std::string content_of(const std::string& file) {
  return file == kStandardInput ? read_standard_input() : core::read_file(file, kMostBytes);
}

/// Returns whether bytes are an image, rather than a list of them.
bool is_image(const std::string& content) {
  return content.starts_with("\xFF\xD8\xFF") || content.starts_with("\x89PNG") ||
         (content.starts_with("RIFF") && content.substr(8, 4) == "WEBP");
}

/// Makes an input of the value that `make` returns, or of the error that it throws.
template <class Make>
NamedInput attempt(std::string name, std::optional<std::int64_t> line, const Make& make) {
  NamedInput input{.name = std::move(name), .line = line};
  try {
    input.content = make();
  } catch (const core::Error& error) {
    input.error = error.what();
  }
  return input;
}

class Images {
 public:
  Images(const CheckpointedRun& loaded, const InputUse& use)
      : inputs_(loaded.run->experiment.dataset, loaded.run->data.train->spec()), use_(use) {}

  void read(const std::string& file) {
    if (file != kStandardInput) return take(file, [&] { return content_of(file); });
    const std::string content = content_of(file);
    if (is_image(content)) return take(file, [&] { return content; });
    for (std::size_t begin = 0; begin < content.size();) {
      const std::size_t end = std::min(content.find('\n', begin), content.size());
      std::string path = content.substr(begin, end - begin);
      begin = end + 1;
      if (path.ends_with('\r')) path.pop_back();
      if (!path.empty()) take(path, [&] { return core::read_file(path, kMostBytes); });
    }
  }

 private:
  template <class Content>
  void take(const std::string& name, const Content& content) {
    use_(attempt(name, std::nullopt, [&] {
      return inference::PredictionInput{
          .values = inputs_.read(content(), name), .encoding = {}, .text = "", .name = name};
    }));
  }

  dataset::ImageInputs inputs_;
  const InputUse& use_;
};

void read_texts(const CheckpointedRun& loaded, const std::string& file, const tokenizer::Tokenizer& tokenizer,
                const InputUse& use) {
  const experiment::Experiment& experiment = loaded.run->experiment;
  const tokenizer::EncodeOptions options = encoding_of(experiment.dataset, experiment.task);
  dataset::read_text_inputs(experiment.dataset, content_of(file), file,
                            [&](const dataset::LineInput<dataset::TextInput>& line) {
                              if (!line.content)
                                return use({.name = file, .line = line.line, .content = {}, .error = line.error});
                              use(attempt(file, line.line, [&] {
                                const std::string* pair = line.content->pair ? &*line.content->pair : nullptr;
                                return inference::text_input(tokenizer, line.content->text, pair, options);
                              }));
                            });
}

void read_rows(const dataset::TableInputs& table, const std::string& file, const InputUse& use) {
  const auto use_line = [&](const dataset::LineInput<at::Tensor>& line) {
    NamedInput input{.name = file, .line = line.line, .content = {}, .error = line.error};
    if (line.content) input.content = inference::PredictionInput{.values = *line.content, .encoding = {}, .text = ""};
    use(std::move(input));
  };
  if (dataset::format_of(file, dataset::TextFormat::auto_) == dataset::TextFormat::parquet)
    table.read_parquet(file, use_line);
  else
    table.read(content_of(file), file, use_line);
}

/// Reads one file as the dataset's kind does.
struct Reader {
  std::function<void(const std::string&)> read;
  std::vector<std::string> endings;  // of the files that are taken of a directory
};

Reader reader_of(const CheckpointedRun& loaded, const tokenizer::Tokenizer* tokenizer, const InputUse& use) {
  const experiment::Experiment& experiment = loaded.run->experiment;
  const dataset::SampleSpec& spec = loaded.run->data.train->spec();
  if (tokenizer != nullptr)
    return {.read = [&loaded, tokenizer, &use](const std::string& file) { read_texts(loaded, file, *tokenizer, use); },
            .endings = {".txt", ".jsonl", ".csv", ".tsv", ".tab"}};
  if (const std::shared_ptr<const dataset::TableInputs> table =
          dataset::table_inputs_of(experiment.dataset.source, spec))
    return {.read = [table, &use](const std::string& file) { read_rows(*table, file, use); },
            .endings = {".csv", ".tsv", ".tab", ".parquet", ".pq"}};
  if (!spec.is_image())
    throw core::Error("predict takes images, texts and tables, and this dataset is of none of them");
  const auto images = std::make_shared<Images>(loaded, use);
  return {.read = [images](const std::string& file) { images->read(file); },
          .endings = {".jpg", ".jpeg", ".png", ".webp", ".JPG", ".JPEG", ".PNG"}};
}

}  // namespace

tokenizer::EncodeOptions encoding_of(const dataset::DatasetConfig& dataset, const task::TaskConfig& task) {
  tokenizer::EncodeOptions options;
  const model::Output output = config::traits_of(task).output;
  // What is told of each token is told of all. What is told of a text is told of its beginning, as in training.
  const bool is_of_tokens = output == model::Output::next_tokens || output == model::Output::per_token;
  if (!is_of_tokens) options.max_length = config::facts_of(dataset.source).longest_text();
  if (output == model::Output::next_tokens) options.special_tokens = tokenizer::SpecialTokens::leave_out;
  return options;
}

void read_inputs(const CheckpointedRun& loaded, const std::vector<std::string>& files,
                 const tokenizer::Tokenizer* tokenizer, const InputUse& use) {
  const Reader reader = reader_of(loaded, tokenizer, use);
  const std::vector<std::string> named = dataset::input_files(files, reader.endings);
  for (const std::string& file : files.empty() ? std::vector<std::string>{kStandardInput} : named) try {
      reader.read(file);
    } catch (const core::Error& error) {
      use({.name = file, .line = std::nullopt, .content = {}, .error = error.what()});
    }
}

}  // namespace trainctl::engine
