#include <sstream>

#include "checkpoint/gather_texts.h"
#include "checkpoint/node_snapshots.h"
#include "core/text.h"
#include "train/run/restore.h"

namespace trainctl::train {
namespace {

namespace fs = std::filesystem;

/// The chosen one, and those of its run that are older than that, newest first.
std::vector<ResumePoint> checkpoints_of(const ResumeRequest& wish) {
  std::vector<ResumePoint> points;
  if (!wish.chosen) return points;
  const fs::path chosen = fs::absolute(*wish.chosen);
  for (const checkpoint::Found& found : checkpoint::find_complete(chosen))
    points.push_back({.step_directory = chosen, .step = found.step});
  if (!wish.takes_newest || points.empty()) return points;
  for (const checkpoint::Found& found : checkpoint::find_complete(chosen.parent_path()))
    if (found.step < points.front().step) points.push_back({.step_directory = found.path, .step = found.step});
  return points;
}

std::string text_of(const ResumeRequest& wish) {
  std::ostringstream text;
  text << wish.takes_newest << "\n";
  for (const ResumePoint& point : checkpoints_of(wish))
    text << point.step << " " << point.step_directory.string() << "\n";
  return text.str();
}

}  // namespace

std::vector<ResumePoint> agree_on_points(const ResumeRequest& wish, comm::Group& group,
                                         std::vector<tracking::Notice>& notices) {
  std::istringstream text(checkpoint::gather_texts(group, group.rank() == 0 ? text_of(wish) : "").front());
  bool takes_newest = false;
  text >> takes_newest;
  std::vector<ResumePoint> points;
  std::string path;
  for (std::int64_t step = 0; text >> step && std::getline(text >> std::ws, path);)
    points.push_back({.step_directory = path, .step = step});
  if (!takes_newest || !wish.snapshots) return points;
  checkpoint::SnapshotSearch search =
      checkpoint::find_snapshot(*wish.snapshots, points.empty() ? 0 : points.front().step, group);
  for (const std::string& lack : search.passed_over)
    notices.push_back(
        {tracking::Level::warning, lack + " (their nodes are gone, or failed to write): it is passed over"});
  if (search.found) {
    notices.push_back(
        {tracking::Level::info, "resuming the snapshot of step " + core::format_count(search.found->step)});
    points.insert(points.begin(), {.parts = std::move(search.found->parts), .step = search.found->step});
  }
  return points;
}

}  // namespace trainctl::train
