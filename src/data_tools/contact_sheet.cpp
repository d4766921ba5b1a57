#include "data_tools/contact_sheet.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "core/base64.h"
#include "core/error.h"
#include "core/text.h"
#include "data_tools/set_reader.h"
#include "dataset/image/transform/resample.h"

namespace trainctl::data_tools {
namespace {

constexpr std::int64_t kThumbnails = 96;
constexpr std::int64_t kThumbnailSide = 112;
constexpr std::size_t kMostBars = 200;  // that have a bar

constexpr std::string_view kHead = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Dataset</title><style>
:root { color-scheme: light dark; }
body { font: 14px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } td, th { padding: .15rem .8rem .15rem 0; text-align: left; vertical-align: baseline; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
.bar { background: #3b82c4; height: .7rem; border-radius: 2px; min-width: 1px; }
.sheet { display: grid; grid-template-columns: repeat(auto-fill, minmax(7rem, 1fr)); gap: .6rem; }
figure { margin: 0; } figure img { width: 100%; height: 7rem; object-fit: contain; background: #8882; image-rendering: auto; }
figcaption { font-size: 11px; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
</style></head><body>
)";

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", value);
  return text;
}

std::string list(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += (text.empty() ? "" : ", ") + number(value);
  return "[" + text + "]";
}

std::string row(const std::string& name, const std::string& value) {
  return "<tr><th>" + name + "</th><td>" + core::escape_html(value) + "</td></tr>\n";
}

std::string class_name(const StatReport& report, std::size_t label) {
  return label < report.class_names.size() ? report.class_names[label] : std::to_string(label);
}

std::string figures(const SetStatistics& set) {
  std::string html = "<h2>" + set.part + "</h2><table>\n" + row("samples", core::format_count(set.samples));
  if (set.read < set.samples) html += row("of which read", core::format_count(set.read) + ", evenly spread");
  if (set.bad > 0) html += row("unreadable", core::format_count(set.bad));
  html += row("stored size", core::format_bytes(set.bytes) + " on average");
  const auto range = [](const std::array<std::int64_t, 3>& r) {
    return core::format_count(r[0]) + " to " + core::format_count(r[2]) + ", median " + core::format_count(r[1]);
  };
  if (set.width[2] > 0) html += row("width", range(set.width)) + row("height", range(set.height));
  if (!set.mean.empty()) html += row("mean", list(set.mean)) + row("std", list(set.std));
  return html + "</table>\n";
}

std::string balance(const StatReport& report, const SetStatistics& set) {
  if (set.class_counts.empty()) return "";
  std::vector<std::size_t> order(set.class_counts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return set.class_counts[a] > set.class_counts[b]; });
  const auto most = static_cast<double>(std::max<std::int64_t>(1, set.class_counts[order.front()]));
  std::string html = "<h3>" + core::format_count(static_cast<long long>(order.size())) + " classes" + set.counted_in() +
                     "</h3><table>\n";
  for (std::size_t i = 0; i < std::min(order.size(), kMostBars); ++i) {
    const std::int64_t count = set.class_counts[order[i]];
    html += "<tr><td>" + core::escape_html(class_name(report, order[i])) + "</td><td class=n>" +
            core::format_count(count) + "</td><td style=\"width:24rem\"><div class=bar style=\"width:" +
            number(100 * static_cast<double>(count) / most) + "%\"></div></td></tr>\n";
  }
  html += "</table>\n";
  if (order.size() > kMostBars)
    html += "<p>and " + core::format_count(static_cast<long long>(order.size() - kMostBars)) + " smaller ones</p>\n";
  return html;
}

dataset::Image thumbnail(dataset::Image image) {
  if (image.channels == 1) {
    dataset::Image colour;
    colour.resize(image.height, image.width);
    for (std::size_t i = 0; i < colour.bytes.size(); ++i) colour.bytes[i] = image.bytes[i / 3];
    image = std::move(colour);
  }
  const double scale = static_cast<double>(kThumbnailSide) / static_cast<double>(std::max(image.height, image.width));
  if (scale >= 1) return image;
  const auto side = [&](std::int64_t length) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(length) * scale));
  };
  return dataset::resize(image, side(image.height), side(image.width));
}

std::string jpeg_text(const dataset::Image& image) {
  const std::vector<std::byte> bytes = dataset::encode_jpeg(thumbnail(image), 80);
  return core::base64({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::string class_names(const StatReport& report, const std::vector<std::int64_t>& labels) {
  std::vector<std::string> names;
  for (const std::int64_t label : labels) names.push_back(class_name(report, static_cast<std::size_t>(label)));
  return core::list_words(names);
}

std::string thumbnails(const StatReport& report, const dataset::Source& source) {
  if (!source.spec().is_image()) return "";
  const SetReader reader(source);
  const std::int64_t count = std::min(kThumbnails, source.size());
  std::string html = "<h3>Samples</h3><div class=sheet>\n";
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t index = i * source.size() / count;
    try {
      const ReadSample sample = reader.read(index);
      if (sample.image->channels != 1 && sample.image->channels != 3) return "";
      const std::string name = core::escape_html(reader.name(index));
      html += "<figure><img alt=\"" + name + "\" title=\"" + name + "\" src=\"data:image/jpeg;base64," +
              jpeg_text(*sample.image) + "\"><figcaption>" + core::escape_html(class_names(report, sample.labels)) +
              "</figcaption></figure>\n";
    } catch (const core::Error& error) {
      html += "<figure><figcaption>" + core::escape_html(error.what()) + "</figcaption></figure>\n";
    }
  }
  return html + "</div>\n";
}

}  // namespace

std::string contact_sheet(const StatReport& report, const dataset::Source& source) {
  std::string html(kHead);
  html += "<h1>Dataset</h1>\n";
  for (const SetStatistics& set : report.sets) html += figures(set) + balance(report, set);
  return html + thumbnails(report, source) + "</body></html>\n";
}

}  // namespace trainctl::data_tools
