// What a search found, as text, as YAML to paste, and as JSON.
#pragma once

#include <optional>
#include <string>

#include "cluster/goodput.h"
#include "cluster/search.h"

namespace trainctl::cluster {

/// What a report is about.
struct ReportSubject {
  std::string experiment;
  const SearchRequest& request;
  const SearchResult& result;
  std::optional<Candidate> own;  // the experiment's own layout
  Interruptions interruptions;   // of the run
  Goodput goodput;               // at the best interval between checkpoints
  double cost_per_hour = 0;      // of one device
  bool explains = false;
};

/// "tensor 8, pipeline 4, data 8".
std::string axes_text(const Layout& layout);

/// The best layouts as a table, the first in detail, and its YAML.
std::string format_report(const ReportSubject& subject);

/// Sections of an experiment that select this layout.
std::string layout_yaml(const Layout& layout);

/// Returns an HTML page: layouts, a scaling curve, memory by rank and the pipeline's timeline.
std::string format_html(const ReportSubject& subject);

/// One JSON document.
std::string format_json(const ReportSubject& subject);

}  // namespace trainctl::cluster
