// Sends a run to MLflow's server by its REST interface: https://mlflow.org/docs/latest/rest-api.html
#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "core/version.h"
#include "tracking/trackers/environment.h"
#include "tracking/trackers/http.h"
#include "tracking/trackers/tracker_kinds.h"
#include "tracking/trackers/typed_json.h"

namespace trainctl::tracking {
namespace {

using nlohmann::ordered_json;

// The server's limits of one request.
constexpr std::size_t kMetricsAtOnce = 1000;
constexpr std::size_t kParamsAtOnce = 100;
constexpr std::size_t kTagsAtOnce = 100;
// The least of what servers take: 500 characters before MLflow 2.8, 6000 since.
constexpr std::size_t kMaxParamBytes = 500;
constexpr std::size_t kMaxTagBytes = 5000;

/// Returns the credentials and certificates that MLflow's own client takes from the environment.
HttpOptions http_options() {
  const std::string insecure = environment_variable("MLFLOW_TRACKING_INSECURE_TLS");
  return {.user = environment_variable("MLFLOW_TRACKING_USERNAME"),
          .password = environment_variable("MLFLOW_TRACKING_PASSWORD"),
          .bearer_token = environment_variable("MLFLOW_TRACKING_TOKEN"),
          .ca_file = environment_variable("MLFLOW_TRACKING_SERVER_CERT_PATH"),
          .verifies_certificate = insecure != "true" && insecure != "1"};
}

/// Returns a name of the characters that MLflow allows.
std::string mlflow_name(const std::string& text) {
  std::string name;
  for (const char c : text) {
    if (c == ']') continue;
    const bool is_allowed =
        std::isalnum(static_cast<unsigned char>(c)) != 0 || std::string_view("_-. /").find(c) != std::string_view::npos;
    name += is_allowed ? c : c == '[' ? '.' : '_';
  }
  return name;
}

/// Returns the longest beginning of a text within the limit that ends between two characters of UTF-8.
std::string cut_text(std::string text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return text;
  std::size_t end = max_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  text.resize(end);
  return text;
}

std::int64_t in_milliseconds(double unix_time) {
  return std::llround(unix_time * 1e3);
}

/// MLflow's server.
class MlflowServer {
 public:
  explicit MlflowServer(std::string address) : address_(std::move(address)), http_(http_options()) {}

  /// Returns the response's JSON; nothing if the server has no such experiment or run.
  std::optional<ordered_json> get(const std::string& endpoint, const std::string& query) {
    return read(endpoint, http_.get(address_ + "/api/2.0/mlflow/" + endpoint + "?" + query));
  }
  std::optional<ordered_json> post(const std::string& endpoint, const ordered_json& body) {
    const std::string text = body.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
    return read(endpoint, http_.post_json(address_ + "/api/2.0/mlflow/" + endpoint, text));
  }

 private:
  std::optional<ordered_json> read(const std::string& endpoint, const HttpResponse& response) const {
    const ordered_json json = core::parse_json_or_discard<ordered_json>(response.body);
    if (response.status == 200 && json.is_object()) return json;
    const std::string code = json.is_object() ? json.value("error_code", "") : "";
    if (code == "RESOURCE_DOES_NOT_EXIST") return std::nullopt;
    const std::string message = json.is_object() ? json.value("message", "") : "";
    core::Error error(address_ + " answers " + endpoint + " with " + std::to_string(response.status) +
                      (code.empty() ? "" : " " + code) + (message.empty() ? "" : ": " + cut_text(message, 300)));
    if (response.status == 401 || response.status == 403)
      error.hint("set MLFLOW_TRACKING_TOKEN, or MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD");
    else if (response.status != 200 && code.empty())
      error.hint("is " + address_ + " the address of an MLflow server?");
    throw error;
  }

  std::string address_;
  HttpClient http_;
};

class MlflowRun final : public RunTracker {
 public:
  MlflowRun(const TrackerTarget& target, const RunInfo& run)
      : address_(mlflow_address(target.server)),
        experiment_(target.project.empty() ? run.name : target.project),
        run_(run),
        server_(address_) {}

  bool open(Start start, const ordered_json& state) override {
    const bool is_same = !state.is_null() && state.at("server") == address_ && state.at("experiment") == experiment_;
    if (is_same && find_run(state.at("run_id"))) {
      has_ended_ = state.at("has_ended");
      return true;
    }
    if (start == Start::goes_on) return false;
    experiment_id_ = find_or_make_experiment();
    run_id_ = find_or_make_run();
    send_config();
    return true;
  }

  bool add(const MetricRecord& record) override {
    for (const auto& [name, value] : record.values)
      metrics_.push_back({{"key", mlflow_name(name)},
                          {"value", std::isnan(value) ? ordered_json("NaN") : ordered_json(value)},
                          {"timestamp", in_milliseconds(record.time)},
                          {"step", record.step}});
    return true;
  }

  ordered_json commit() override {
    if (has_ended_ && !metrics_.empty()) update({{"status", "RUNNING"}});  // the run was resumed
    has_ended_ = has_ended_ && metrics_.empty();
    send("metrics", std::exchange(metrics_, {}), kMetricsAtOnce);
    return state();
  }

  ordered_json finish(const RunResult& result) override {
    std::vector<ordered_json> tags;
    const ordered_json flat = flat_values(result.summary);
    for (const auto& [key, value] : flat.items())
      tags.push_back(tag("trainctl." + key, value.is_string() ? value.get<std::string>() : value.dump()));
    send("tags", tags, kTagsAtOnce);
    const char* status = result.outcome == "finished" ? "FINISHED" : result.outcome == "failed" ? "FAILED" : "KILLED";
    update({{"status", status}, {"end_time", in_milliseconds(result.time)}});
    has_ended_ = true;
    return state();
  }

  std::string place() const override { return address_ + "/#/experiments/" + experiment_id_ + "/runs/" + run_id_; }

 private:
  ordered_json state() const {
    return {{"server", address_}, {"experiment", experiment_}, {"run_id", run_id_}, {"has_ended", has_ended_}};
  }

  static ordered_json tag(const std::string& key, const std::string& value) {
    return {{"key", mlflow_name(key)}, {"value", cut_text(value, kMaxTagBytes)}};
  }

  /// Looks for a run that was made before and not deleted.
  bool find_run(const std::string& run_id) {
    const std::optional<ordered_json> found = server_.get("runs/get", "run_id=" + percent_encoded(run_id));
    if (!found) return false;
    const ordered_json& info = found->at("run").at("info");
    if (info.value("lifecycle_stage", "active") != "active") return false;
    run_id_ = run_id;
    experiment_id_ = info.at("experiment_id");
    return true;
  }

  std::string find_or_make_experiment() {
    const std::string query = "experiment_name=" + percent_encoded(experiment_);
    if (const auto found = server_.get("experiments/get-by-name", query))
      return found->at("experiment").at("experiment_id");
    if (const auto made = server_.post("experiments/create", {{"name", experiment_}})) return made->at("experiment_id");
    throw core::Error(address_ + " makes no experiment " + experiment_);
  }

  /// A tag tells whether an earlier request, whose response was lost, has made the run.
  std::string find_or_make_run() {
    const auto found = server_.post("runs/search", {{"experiment_ids", {experiment_id_}},
                                                    {"filter", "tags.`trainctl.run_key` = '" + run_.key + "'"},
                                                    {"max_results", 1}});
    if (found && found->contains("runs") && !found->at("runs").empty())
      return found->at("runs").at(0).at("info").at("run_id");
    const std::string name = run_.directory.filename().string();
    const auto made = server_.post(
        "runs/create", {{"experiment_id", experiment_id_},
                        {"run_name", name},
                        {"start_time", in_milliseconds(run_.start_time)},
                        {"tags",
                         {tag("mlflow.runName", name), tag("mlflow.source.name", "trainctl"),
                          tag("trainctl.version", std::string(core::kVersion)), tag("trainctl.run_key", run_.key)}}});
    if (!made) throw core::Error(address_ + " makes no run in experiment " + experiment_);
    return made->at("run").at("info").at("run_id");
  }

  void send_config() {
    std::vector<ordered_json> params;
    for (const auto& [key, value] : run_.config)
      params.push_back({{"key", mlflow_name(key)}, {"value", cut_text(value, kMaxParamBytes)}});
    send("params", params, kParamsAtOnce);
  }

  void send(const char* what, const std::vector<ordered_json>& items, std::size_t at_once) {
    for (std::size_t begin = 0; begin < items.size(); begin += at_once) {
      const auto first = items.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto end = items.begin() + static_cast<std::ptrdiff_t>(std::min(begin + at_once, items.size()));
      if (!server_.post("runs/log-batch", {{"run_id", run_id_}, {what, std::vector<ordered_json>(first, end)}}))
        throw core::Error(address_ + " has no run " + run_id_ + " any more");
    }
  }

  void update(ordered_json values) {
    values["run_id"] = run_id_;
    if (!server_.post("runs/update", values)) throw core::Error(address_ + " has no run " + run_id_ + " any more");
  }

  std::string address_;
  std::string experiment_;
  RunInfo run_;
  MlflowServer server_;
  std::string experiment_id_;
  std::string run_id_;
  bool has_ended_ = false;
  std::vector<ordered_json> metrics_;
};

}  // namespace

std::string mlflow_address(const std::string& server) {
  std::string address = server.empty() ? environment_variable("MLFLOW_TRACKING_URI") : server;
  while (address.ends_with('/')) address.pop_back();
  if (address.empty())
    throw core::Error("no MLflow server is named").hint("set tracking.mlflow.server, --server or MLFLOW_TRACKING_URI");
  const std::size_t scheme = address.starts_with("http://") ? 7 : address.starts_with("https://") ? 8 : 0;
  if (scheme == 0)
    throw core::Error("MLflow's address: expected http:// or https://, got " + address)
        .hint("`mlflow server` starts a server over files or a database");
  if (address.substr(scheme, address.find('/', scheme) - scheme).find('@') != std::string::npos)
    throw core::Error("MLflow's address: expected no user and password in the address")
        .hint("set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD");
  return address;
}

std::unique_ptr<RunTracker> make_mlflow(const TrackerTarget& target, const RunInfo& run) {
  return std::make_unique<MlflowRun>(target, run);
}

}  // namespace trainctl::tracking
