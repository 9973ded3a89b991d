#include "experiments/published/published_row.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "graph/base/lower_case.h"
#include "graph/base/parse_number.h"

namespace prism::launch {
namespace {

constexpr auto kTextColumns = std::to_array<std::string_view>({
    "id",
    "source_key",
    "source_ref",
    "framework",
    "framework_version",
    "run_kind",
    "model",
    "arch",
    "sp",
    "zero_stage",
    "recompute",
    "precision",
    "dist_optimizer",
    "interconnect",
    "tp_comm_overlap",
    "dp_overlap",
    "compile",
    "gpu",
    "tflops_kind",
    "mem_kind",
    "mem_rank",
    "extra",
    "verified",
    "note",
});

// Whole numbers.
constexpr auto kCountColumns = std::to_array<std::string_view>({
    "layers",   "hidden",   "heads",   "kv_heads",    "ffn",          "vocab",      "seq_len",
    "experts",  "moe_topk", "moe_ffn", "tp",          "pp",           "vpp",        "cp",
    "ep",       "etp",      "dp",      "micro_batch", "global_batch", "grad_accum", "gpus_per_node",
    "num_gpus",
});
constexpr double kMaxCount = 1 << 21;  // a product of three fits into 64 bits

constexpr auto kMeasureColumns = std::to_array<std::string_view>({
    "params_b",
    "gpu_mem_gb",
    "iter_time_s",
    "iter_time_derived_s",
    "tokens_per_s",
    "tokens_per_s_per_gpu",
    "samples_per_s",
    "tflops_per_gpu",
    "mfu_pct",
    "hfu_pct",
    "peak_mem_gib",
});

// At least one of each line is needed to know a row's job; any other column may be absent.
constexpr auto kNeededColumns = std::to_array<std::array<std::string_view, 4>>({
    {"id"},
    {"model", "hidden"},
    {"global_batch", "micro_batch", "grad_accum"},
    {"num_gpus", "dp", "tp", "pp"},
});

constexpr double kBytesPerGib = 1024.0 * 1024.0 * 1024.0;

constexpr double kMaxMeasure = 1e18;

bool IsCount(std::string_view column) {
  return std::find(kCountColumns.begin(), kCountColumns.end(), column) != kCountColumns.end();
}

// The number in the text, if it is plausible for the column.
std::optional<double> PlausibleNumber(std::string_view column, const std::string& text) {
  double value = 0;
  const bool counted = IsCount(column);
  const bool plausible = ParseNumber(text, &value) && std::isfinite(value) && value >= 0 &&
                         value <= (counted ? kMaxCount : kMaxMeasure) &&
                         (!counted || value == std::floor(value));
  return plausible ? std::optional(value) : std::nullopt;
}

bool IsOfWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

Status CheckColumns(const CsvTable& csv, const std::string& path) {
  for (const auto& choices : kNeededColumns) {
    const bool found = std::any_of(choices.begin(), choices.end(), [&](std::string_view column) {
      return !column.empty() && csv.HasColumn(column);
    });
    if (!found) {
      return BadFile(
          fmt::format("{}: has no column '{}'; a table of published training runs is needed", path,
                      choices.front()));
    }
  }
  return OkStatus();
}

// In the order in which the tables' README names them by kind.
std::vector<std::string> AbsentColumns(const CsvTable& csv) {
  std::vector<std::string> absent;
  const auto look_for = [&](const auto& columns) {
    for (const std::string_view column : columns) {
      if (!csv.HasColumn(column)) {
        absent.emplace_back(column);
      }
    }
  };
  look_for(kTextColumns);
  look_for(kCountColumns);
  look_for(kMeasureColumns);
  return absent;
}

Status CheckIds(const CsvTable& csv, const std::string& path) {
  std::set<std::string> ids;
  for (size_t row = 0; row < csv.row_count(); ++row) {
    const std::string& id = csv.Field(row, "id");
    if (id.empty() || !ids.insert(id).second) {
      return BadFile(fmt::format(
          "{}:{}: {}", path, csv.LineOf(row),
          id.empty() ? "this row has no id" : fmt::format("two rows have the id {}", id)));
    }
  }
  return OkStatus();
}

}  // namespace

std::string PublishedRow::Lower(std::string_view column) const {
  return LowerCase(Text(column));
}

bool PublishedRow::Says(std::string_view column, std::string_view lower_case_word) const {
  return Lower(column).find(lower_case_word) != std::string::npos;
}

std::optional<double> PublishedRow::Number(std::string_view column) const {
  const std::string& field = Text(column);
  return field.empty() ? std::nullopt : PlausibleNumber(column, field);
}

std::string PublishedRow::Fault() const {
  const auto fault = [&](std::string_view column) {
    const std::string& field = Text(column);
    return field.empty() || PlausibleNumber(column, field).has_value()
               ? std::string()
               : fmt::format("{}: '{}' is not a possible number", column, field);
  };
  for (const std::string_view column : kCountColumns) {
    if (std::string found = fault(column); !found.empty()) {
      return found;
    }
  }
  for (const std::string_view column : kMeasureColumns) {
    if (std::string found = fault(column); !found.empty()) {
      return found;
    }
  }
  return {};
}

std::optional<int64_t> PublishedRow::Integer(std::string_view column) const {
  const std::optional<double> number = Number(column);
  const int64_t count = number.has_value() ? static_cast<int64_t>(*number) : 0;
  return count == 0 ? std::nullopt : std::optional(count);
}

bool PublishedRow::IsSilent(std::string_view column) const {
  const std::string text = Lower(column);
  return text == "n/a" || text.find_first_of("abcdefghijklmnopqrstuvwxyz0123456789") == text.npos ||
         text.starts_with("not ") || text.starts_with("unknown") || text.starts_with("unstated");
}

std::vector<std::string> PublishedRow::Words(std::string_view column) const {
  std::vector<std::string> words;
  bool inside = false;
  for (const char c : Lower(column)) {
    if (IsOfWord(c)) {
      if (!inside) {
        words.emplace_back();
      }
      words.back() += c;
    }
    inside = IsOfWord(c);
  }
  return words;
}

std::optional<bool> PublishedRow::Flag(std::string_view column) const {
  const std::vector<std::string> words = Words(column);
  if (words.size() != 1) {
    return std::nullopt;
  }
  const std::string& word = words.front();
  if (word == "yes" || word == "true" || word == "1" || word == "on") {
    return true;
  }
  if (word == "no" || word == "false" || word == "0" || word == "off") {
    return false;
  }
  return std::nullopt;
}

std::string PublishedRow::Extra(std::string_view key) const {
  const std::string& extra = Text("extra");
  size_t begin = 0;
  while (begin < extra.size()) {
    const size_t end = std::min(extra.find(';', begin), extra.size());
    const std::string_view entry = std::string_view(extra).substr(begin, end - begin);
    const size_t equals = entry.find('=');
    if (equals != std::string_view::npos && entry.substr(0, equals) == key) {
      return std::string(entry.substr(equals + 1));
    }
    begin = end + 1;
  }
  return {};
}

std::string PublishedRow::Source() const {
  const std::string& stated = Text("source_key");
  const std::string& id = Text("id");
  return stated.empty() ? id.substr(0, id.rfind('-')) : stated;
}

bool PublishedRow::IsFrom(std::string_view lower_case_word) const {
  return LowerCase(Source()).find(lower_case_word) != std::string::npos;
}

std::optional<double> PublishedRow::MeasuredSeconds() const {
  for (const char* column : {"iter_time_s", "iter_time_derived_s"}) {
    const std::optional<double> seconds = Number(column);
    if (seconds.has_value() && *seconds > 0) {
      return seconds;
    }
  }
  return std::nullopt;
}

std::optional<double> PublishedRow::PeakMemoryBytes() const {
  const std::optional<double> gib = Number("peak_mem_gib");
  return gib.has_value() && *gib > 0 ? std::optional(*gib * kBytesPerGib) : std::nullopt;
}

std::vector<PublishedRow> PublishedRow::RowsOfTable() const {
  std::vector<PublishedRow> rows;
  for (size_t row = 0; row < table_->row_count(); ++row) {
    rows.emplace_back(*table_, row);
  }
  return rows;
}

std::vector<PublishedRow> PublishedTable::Rows() const {
  return PublishedRow(csv, 0).RowsOfTable();
}

Result<PublishedTable> ReadPublishedTable(const std::string& path) {
  PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  PRISM_ASSIGN_OR_RETURN(CsvTable csv, CsvTable::Parse(text, path));
  PRISM_RETURN_IF_ERROR(CheckColumns(csv, path));
  PRISM_RETURN_IF_ERROR(CheckIds(csv, path));
  std::vector<std::string> absent = AbsentColumns(csv);
  return PublishedTable{path, std::move(csv), std::move(absent)};
}

}  // namespace prism::launch
