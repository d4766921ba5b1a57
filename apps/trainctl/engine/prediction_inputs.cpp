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
  if (std::ferror(stdin) != 0) throw core::system_error("read", "standard input");
  return content;
}

std::string content_of(const InputFile& file) {
  if (file.content) return *file.content;
  return file.name == kStandardInput ? read_standard_input() : core::read_file(file.name, kMostBytes);
}

/// Returns whether bytes are an image, rather than a list of them.
bool is_image(const std::string& content) {
  return content.starts_with("\xFF\xD8\xFF") || content.starts_with("\x89PNG") ||
         (content.starts_with("RIFF") && content.substr(8, 4) == "WEBP");
}

/// Returns standard input if it is an image, else the paths in its lines.
std::vector<InputFile> images_on_standard_input() {
  const std::string content = read_standard_input();
  if (is_image(content)) return {{.name = kStandardInput, .content = content}};
  std::vector<InputFile> files;
  for (std::size_t begin = 0; begin < content.size();) {
    const std::size_t end = std::min(content.find('\n', begin), content.size());
    std::string path = content.substr(begin, end - begin);
    begin = end + 1;
    if (path.ends_with('\r')) path.pop_back();
    if (!path.empty()) files.push_back({.name = std::move(path)});
  }
  return files;
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

  void read(const InputFile& file) {
    use_(attempt(file.name, std::nullopt, [&] {
      return inference::PredictionInput{
          .values = inputs_.read(content_of(file), file.name), .encoding = {}, .text = "", .name = file.name};
    }));
  }

 private:
  dataset::ImageInputs inputs_;
  const InputUse& use_;
};

void read_texts(const CheckpointedRun& loaded, const InputFile& file, const tokenizer::Tokenizer& tokenizer,
                const InputUse& use) {
  const experiment::Experiment& experiment = loaded.run->experiment;
  const tokenizer::EncodeOptions options = encoding_of(experiment.dataset, experiment.task);
  dataset::read_text_inputs(experiment.dataset, content_of(file), file.name,
                            [&](const dataset::LineInput<dataset::TextInput>& line) {
                              if (!line.content)
                                return use({.name = file.name, .line = line.line, .content = {}, .error = line.error});
                              use(attempt(file.name, line.line, [&] {
                                const std::string* pair = line.content->pair ? &*line.content->pair : nullptr;
                                return inference::text_input(tokenizer, line.content->text, pair, options);
                              }));
                            });
}

void read_rows(const dataset::TableInputs& table, const InputFile& file, const InputUse& use) {
  const auto use_line = [&](const dataset::LineInput<at::Tensor>& line) {
    NamedInput input{.name = file.name, .line = line.line, .content = {}, .error = line.error};
    if (line.content) input.content = inference::PredictionInput{.values = *line.content, .encoding = {}, .text = ""};
    use(std::move(input));
  };
  if (dataset::format_of(file.name, dataset::TextFormat::auto_) == dataset::TextFormat::parquet)
    table.read_parquet(file.name, use_line);
  else
    table.read(content_of(file), file.name, use_line);
}

/// Reads one file as the dataset's kind does.
struct Reader {
  std::function<void(const InputFile&)> read;
  std::vector<std::string> endings;  // of the files that are taken of a directory
  bool takes_paths = false;          // on standard input
};

Reader reader_of(const CheckpointedRun& loaded, const tokenizer::Tokenizer* tokenizer, const InputUse& use) {
  const experiment::Experiment& experiment = loaded.run->experiment;
  const dataset::SampleSpec& spec = loaded.run->data.train->spec();
  if (tokenizer != nullptr)
    return {.read = [&loaded, tokenizer, &use](const InputFile& file) { read_texts(loaded, file, *tokenizer, use); },
            .endings = {".txt", ".jsonl", ".csv", ".tsv", ".tab"}};
  if (const std::shared_ptr<const dataset::TableInputs> table =
          dataset::table_inputs_of(experiment.dataset.source, spec))
    return {.read = [table, &use](const InputFile& file) { read_rows(*table, file, use); },
            .endings = {".csv", ".tsv", ".tab", ".parquet", ".pq"}};
  if (!spec.is_image())
    throw core::Error("predict takes images, texts and tables, and this dataset is of none of them");
  const auto images = std::make_shared<Images>(loaded, use);
  return {.read = [images](const InputFile& file) { images->read(file); },
          .endings = {".jpg", ".jpeg", ".png", ".webp", ".JPG", ".JPEG", ".PNG"},
          .takes_paths = true};
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

std::vector<InputFile> list_inputs(const CheckpointedRun& loaded, const std::vector<std::string>& patterns,
                                   const tokenizer::Tokenizer* tokenizer) {
  const InputUse unused;
  const Reader reader = reader_of(loaded, tokenizer, unused);
  std::vector<std::string> names = dataset::input_files(patterns, reader.endings);
  if (patterns.empty()) names.emplace_back(kStandardInput);
  std::vector<InputFile> files;
  for (std::string& name : names) {
    if (name != kStandardInput || !reader.takes_paths) {
      files.push_back({.name = std::move(name)});
      continue;
    }
    for (InputFile& image : images_on_standard_input()) files.push_back(std::move(image));
  }
  return files;
}

std::set<std::filesystem::path> paths_of(const std::vector<InputFile>& files) {
  std::set<std::filesystem::path> paths;
  std::error_code unreadable;
  for (const InputFile& file : files)
    if (file.name != kStandardInput) paths.insert(std::filesystem::weakly_canonical(file.name, unreadable));
  paths.erase("");  // of files that can't be reached
  return paths;
}

void read_inputs(const CheckpointedRun& loaded, const std::vector<InputFile>& files,
                 const tokenizer::Tokenizer* tokenizer, const InputUse& use) {
  const Reader reader = reader_of(loaded, tokenizer, use);
  for (const InputFile& file : files) {
    bool is_open = file.name == kStandardInput;
    try {
      if (!is_open) core::RegularFile{file.name};
      is_open = true;
      reader.read(file);
    } catch (const core::Error& error) {
      use({.name = file.name, .line = {}, .content = {}, .error = error.what(), .is_unopened = !is_open});
    }
  }
}

}  // namespace trainctl::engine
