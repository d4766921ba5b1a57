// `trainctl doctor`: what this machine offers, what is missing, and the command that installs it.
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <sstream>

#include "command.h"
#include "core/error.h"
#include "core/json.h"
#include "core/terminal.h"
#include "core/version.h"
#include "library_findings.h"
#include "machine_findings.h"

namespace trainctl::cli {
namespace {

struct DoctorRequest {
  std::string run_dir = "runs";
  bool json = false;
};

constexpr std::size_t kSubjectWidth = 15;

std::vector<Finding> find_all(const DoctorRequest& options) {
  std::vector<Finding> findings{find_cpu(), find_cores(), find_memory(), find_shared_memory(),
                                find_run_directory(options.run_dir)};
  for (Finding& finding : find_libraries()) findings.push_back(std::move(finding));
  return findings;
}

void print_json(const std::vector<Finding>& findings) {
  nlohmann::ordered_json document{{"version", core::kVersion}};
  auto problems = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    document[finding.key] = finding.values;
    if (!finding.problem.empty())
      problems.push_back({{"what", finding.key}, {"problem", finding.problem}, {"try", finding.hint}});
  }
  document["problems"] = std::move(problems);
  std::printf("%s\n", core::indented_json(document).c_str());
}

/// Returns the terminal's columns; without a terminal, lines are not broken.
std::size_t columns() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return std::string::npos;
  return size.ws_col == 0 ? 80 : size.ws_col;
}

/// Prints `text` after `margin` columns; `subject` fills them on the first line.
void print_entry(const std::string& subject, const std::string& text, std::size_t margin) {
  std::string line = subject + std::string(margin - std::min(margin, subject.size()), ' ');
  std::istringstream lines(text);
  for (std::string part; std::getline(lines, part); line = std::string(margin, ' ')) {
    std::istringstream words(part);
    bool is_first = true;
    for (std::string word; words >> word; is_first = false) {
      if (!is_first && line.size() + 1 + word.size() > columns()) {
        core::print(stdout, "%s\n", line.c_str());
        line = std::string(margin + 2, ' ') + word;
        continue;
      }
      line += (is_first ? "" : " ") + word;
    }
    core::print(stdout, "%s\n", line.c_str());
  }
}

void print_table(const std::vector<Finding>& findings) {
  std::size_t num_problems = 0;
  for (const Finding& finding : findings) {
    print_entry(finding.subject, finding.text, kSubjectWidth);
    if (finding.problem.empty()) continue;
    ++num_problems;
    print_entry("", "problem: " + finding.problem, kSubjectWidth);
    if (!finding.hint.empty()) print_entry("", "try: " + finding.hint, kSubjectWidth);
  }
  if (num_problems == 0)
    core::print(stdout, "\nno problem found\n");
  else
    core::print(stdout, "\n%zu %s; a run is affected only if its config uses that part\n", num_problems,
                num_problems == 1 ? "problem" : "problems");
}

int doctor(const DoctorRequest& options) {
  const std::vector<Finding> findings = find_all(options);
  if (options.json)
    print_json(findings);
  else
    print_table(findings);
  return core::kExitDone;
}

}  // namespace

Action declare_doctor(CLI::App& app) {
  const auto options = std::make_shared<DoctorRequest>();
  app.add_option("--run-dir", options->run_dir, "Directory whose disk is measured (64 MiB or half a second)")
      ->type_name("DIR")
      ->capture_default_str();
  app.add_flag("--json", options->json, "One JSON document on standard output");
  return [options] { return doctor(*options); };
}

}  // namespace trainctl::cli
