#include "examples.h"

#include <array>
#include <string>

namespace trainctl::cli {
namespace {

constexpr std::array kExamples = {
    Example{"trainctl train exp.yaml", "Trains, or continues the unfinished run of the same file."},
    Example{"trainctl train exp.yaml --set train.epochs=3 --set optimizer.lr=1e-3", "Replaces two values of the file."},
    Example{"trainctl train exp.yaml --nproc 4", "Trains with four processes on this machine."},
    Example{"trainctl train exp.yaml --folds 5", "Trains five runs, and prints mean and spread of their metrics."},
    Example{"trainctl profile exp.yaml", "Writes a page that shows where steps spend time and memory."},
    Example{"trainctl profile exp.yaml --set dataset.num_workers=4", "Profiles the same experiment with four workers."},
    Example{"trainctl plan exp.yaml", "Predicts memory and time of a step on this machine."},
    Example{"trainctl plan exp.yaml --device h100 --world 8", "Predicts them for eight GPUs that are not here."},
    Example{"trainctl plan exp.yaml --device h100 --world 256 --nodes-of 8",
            "Ranks the layouts of 32 nodes that are not here."},
    Example{"trainctl plan exp.yaml --device here --world 4 --nodes-of 2 --network mine.yaml",
            "Predicts the experiment's own layout on that network, from ranks that run here one by one."},
    Example{"trainctl report runs/digits/20261126T101500Z-1", "Writes the page about a run, report.html, again."},
    Example{"trainctl report runs/digits/*", "Writes one for each run, those that still train too."},
    Example{"trainctl runs", "Lists the runs below the directory runs, newest first."},
    Example{"trainctl runs --name digits --state finished --sort best", "Lists finished runs, the best one first."},
    Example{"trainctl runs clean --failed-starts", "Shows which runs ended before their first step, and their size."},
    Example{"trainctl runs clean --checkpoints best --older-than 30 --yes",
            "Removes the other checkpoints of runs older than 30 days."},
    Example{"trainctl track runs/digits/20261126T101500Z-1 --to wandb",
            "Writes an offline run that 'wandb sync' takes."},
    Example{"trainctl track runs/digits/20261126T101500Z-1 --to mlflow,csv",
            "Delivers a run to a server, and writes a table."},
    Example{"trainctl compare exp.yaml --ablate amp,channels_last --html gain.html",
            "Measures what two strategies gain, alone and together."},
    Example{"trainctl compare runs/digits/20261126T101500Z-1 runs/digits/20261126T113000Z-1",
            "Shows metrics, speed and configs of two runs side by side."},
    Example{"trainctl eval runs/digits/20261126T101500Z-1", "Evaluates the best checkpoint of a run, or its newest."},
    Example{"trainctl eval runs/digits/20261126T101500Z-1 --split test", "Evaluates it on the test set."},
    Example{"trainctl eval exp.yaml --checkpoint model.onnx --json", "Evaluates an exported file, and prints JSON."},
    Example{"trainctl predict runs/digits/20261126T101500Z-1 a.png b.png", "Prints one JSON line for each image."},
    Example{"trainctl predict runs/digits/20261126T101500Z-1 photos --format csv --output labels.csv",
            "Writes a table of all images in a directory."},
    Example{"trainctl predict exp.yaml --checkpoint model.onnx --input texts.csv", "Predicts with an exported file."},
    Example{"trainctl quantize runs/digits/20261126T101500Z-1 --method static --output int8",
            "Quantizes to eight bits, and measures accuracy and speed."},
    Example{"trainctl quantize runs/gpt/20261126T101500Z-1 --method weight_only --output int4 --bits 4",
            "Stores the weights in four bits."},
    Example{"trainctl generate runs/gpt/20261126T101500Z-1 --prompt 'Once upon a time'", "Continues a text."},
    Example{"trainctl generate runs/gpt/20261126T101500Z-1 --prompt 'To be' --greedy --max-tokens 50",
            "Always takes the most likely token."},
    Example{"trainctl generate runs/chat/20261126T101500Z-1 --chat --prompt 'Who are you?'",
            "Puts the chat template around a question, and prints the answer."},
    Example{"trainctl export runs/digits/20261126T101500Z-1 --format onnx --output model.onnx",
            "Writes one ONNX file, and compares it with the live model."},
    Example{"trainctl export runs/bert/20261126T101500Z-1 --output bert",
            "Writes a directory that transformers loads."},
    Example{"trainctl checkpoint verify runs/digits/20261126T101500Z-1", "Reads every byte, and reports damage."},
    Example{"trainctl checkpoint verify runs/digits/20261126T101500Z-1 --json",
            "Prints the same as one JSON document."},
    Example{"trainctl checkpoint consolidate runs/gpt/20261126T101500Z-1 --output gpt.safetensors",
            "Merges the parts of all ranks into one file."},
    Example{"trainctl checkpoint consolidate runs/gpt/20261126T101500Z-1 --output all.safetensors --everything",
            "Adds the state of the optimizer."},
    Example{"trainctl checkpoint average runs/digits/20261126T101500Z-1 --last 5",
            "Averages the weights of the last five checkpoints."},
    Example{"trainctl checkpoint average runs/digits/20261126T101500Z-1 --output averaged",
            "Chooses where the average goes."},
    Example{"trainctl check exp.yaml", "Reports every mistake of the file, with its line."},
    Example{"trainctl check exp.yaml --coordinates --widths 64,128,256",
            "Compares what updates change in networks of three widths (muP)."},
    Example{"trainctl check configs/*.yaml --file-only", "Checks files whose data is on another machine."},
    Example{"trainctl data prepare exp.yaml", "Tokenizes the text once, for all later runs."},
    Example{"trainctl data prepare exp.yaml --verify", "Compares the checksums of what is already tokenized."},
    Example{"trainctl data bench exp.yaml --seconds 20", "Measures the loader alone, without training."},
    Example{"trainctl data bench exp.yaml --set dataset.num_workers=4", "Measures the loader with four workers."},
    Example{"trainctl data shard exp.yaml --output shards --shard-mib 256", "Packs the images into tar files."},
    Example{"trainctl data shard exp.yaml --output shards --max-side 512 --quality 90", "Shrinks large images, too."},
    Example{"trainctl data verify exp.yaml", "Decodes every sample, and lists the damaged ones."},
    Example{"trainctl data verify exp.yaml --json", "Prints the same as one JSON document."},
    Example{"trainctl data stats exp.yaml", "Prints counts, class balance, sizes, mean and std."},
    Example{"trainctl data stats exp.yaml --html data.html", "Writes a page with a contact sheet, too."},
    Example{"trainctl data preview exp.yaml", "Shows three samples; of texts, what is learned, read and cut."},
    Example{"trainctl data preview exp.yaml -n 24 --html samples.html", "Writes a page with 24 augmented pictures."},
    Example{"trainctl tokenize --tokenizer tokenizer.json texts.txt", "Prints the token ids of each line."},
    Example{"trainctl tokenize --tokenizer tokenizer.json --decode ids.jsonl", "Converts ids back to text."},
    Example{"trainctl tokenize --train-bpe --vocab-size 8000 --output tokenizer texts.txt",
            "Learns a vocabulary from a text."},
    Example{"trainctl config new --from photos --output exp.yaml", "Writes an experiment for your data."},
    Example{"trainctl config new --from table.csv --label price", "Prints one for a table, and names its label."},
    Example{"trainctl config new --model resnet18 > exp.yaml", "Starts an experiment file."},
    Example{"trainctl config new --model gpt2 --optimizer sgd", "Prints a file with another update rule."},
    Example{"trainctl config show exp.yaml --set seed=2", "Prints each value with its origin."},
    Example{"trainctl config show exp.yaml > resolved.yaml", "Writes the file with all defaults."},
    Example{"trainctl config schema > schema.json", "Writes the schema for an editor's completion."},
    Example{"trainctl config reference > reference.md", "Writes the documentation of every key."},
    Example{"trainctl doctor", "Reports what is missing, each with the line that installs it."},
    Example{"trainctl doctor --run-dir /scratch --json", "Measures another disk, and prints JSON."},
    Example{"trainctl completion bash > ~/.local/share/bash-completion/completions/trainctl",
            "Installs the completion for bash."},
    Example{"trainctl completion zsh > ~/.zfunc/_trainctl", "Installs it for zsh, if ~/.zfunc is in fpath."},
    Example{"trainctl completion fish > ~/.config/fish/completions/trainctl.fish", "Installs it for fish."},
};

}  // namespace

std::vector<Example> examples_of(std::string_view command) {
  const std::string beginning = "trainctl " + std::string(command) + " ";
  std::vector<Example> found;
  for (const Example& example : kExamples)
    if ((std::string(example.line) + " ").starts_with(beginning)) found.push_back(example);
  return found;
}

}  // namespace trainctl::cli
