#include "launch/inputs/measured_kernels.h"

#include <array>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "graph/base/data_type.h"
#include "graph/base/file.h"
#include "graph/base/parse_number.h"
#include "graph/base/units.h"
#include "launch/inputs/csv_table.h"
#include "launch/inputs/option_table.h"
#include "replayer/cost/measured_kernels.h"

namespace prism::launch {
namespace {

constexpr const char* kTf32 = "tf32";

template <typename Number>
bool ReadNumber(const std::string& text, Number lowest, Number highest, Number* target) {
  return ParseNumber(text, target) && *target >= lowest && *target <= highest;
}

// A kind becomes part of a key.
bool IsWord(const std::string& text) {
  return !text.empty() && text.find_first_not_of(
                              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVW"
                              "XYZ0123456789_") == std::string::npos;
}

// "" or what is wrong with the row.
std::string ReadRow(const CsvTable& table, size_t row, graph::Parameter* parameter) {
  constexpr int64_t kMaxElements = int64_t{1} << 40;
  constexpr double kMaxSeconds = 1000;
  constexpr std::array<std::string_view, 4> kSizes = {"m", "n", "k", "batch"};
  const std::string& kind = table.Field(row, "kind");
  const std::string& type = table.Field(row, "type");
  if (!IsWord(kind)) {
    return fmt::format("kind '{}' must be one word", kind);
  }
  const std::optional<DataType> named = DataTypeNamed(type);
  if (!named && type != kTf32) {
    return fmt::format("unknown type '{}'; use float16, bfloat16, float32, tf32, float8, ...",
                       type);
  }
  replayer::KernelSizes sizes = {};
  for (size_t i = 0; i < sizes.size(); ++i) {
    const std::string& text = table.Field(row, kSizes[i]);
    if (!ReadNumber<int64_t>(text, 1, kMaxElements, &sizes[i])) {
      return fmt::format("{} is '{}'", kSizes[i], text);
    }
  }
  double seconds = 0;
  const std::string& text = table.Field(row, "seconds");
  if (!ReadNumber<double>(text, 0, kMaxSeconds, &seconds)) {
    return fmt::format("seconds is '{}'; a number above 0 is needed", text);
  }
  *parameter = {replayer::MeasuredKernelKey(kind, named ? DataTypeName(*named) : kTf32, sizes),
                seconds * 1e9, "ns", table.Field(row, "source"), graph::Mark::kMeasured};
  return {};
}

struct KernelRow {
  int64_t line = 0;
  std::string kind;
  graph::Parameter parameter;
};

Result<std::vector<KernelRow>> ParseMeasuredKernels(std::string_view text,
                                                    const std::string& where) {
  PRISM_ASSIGN_OR_RETURN(const CsvTable table, CsvTable::Parse(text, where));
  for (const char* column : {"kind", "type", "m", "n", "k", "batch", "seconds", "source"}) {
    if (!table.HasColumn(column)) {
      return BadFile(fmt::format("{}: no column '{}'", where, column));
    }
  }
  std::map<std::string, int64_t> line_of;  // by key
  std::vector<KernelRow> kernels(table.row_count());
  for (size_t row = 0; row < kernels.size(); ++row) {
    const int64_t line = table.LineOf(row);
    kernels[row] = {line, table.Field(row, "kind"), {}};
    if (const std::string fault = ReadRow(table, row, &kernels[row].parameter); !fault.empty()) {
      return BadFile(fmt::format("{}:{}: {}", where, line, fault));
    }
    const auto [other, is_new] = line_of.emplace(kernels[row].parameter.key, line);
    if (!is_new) {
      return BadFile(
          fmt::format("{}:{}: the same kernel as in line {}", where, line, other->second));
    }
  }
  return kernels;
}

Result<std::vector<KernelRow>> ReadKernelTable(const std::string& path, InputHashes* read) {
  PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  NoteInput(path, text, read);
  return ParseMeasuredKernels(text, path);
}

Status UnknownKind(const std::string& path, const KernelRow& row) {
  const std::string near =
      NearestName(row.kind, {"matmul", "attention", "attention_backward", "gelu", "add"});
  return BadFile(fmt::format(
      "{}:{}: unknown kind '{}'{}; a kind is matmul, attention, attention_backward, or an op as "
      "PyTorch names it",
      path, row.line, row.kind, near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
}

}  // namespace

Status UseMeasuredKernels(const std::string& path, graph::ClusterSpec* cluster, InputHashes* read) {
  PRISM_ASSIGN_OR_RETURN(const std::vector<KernelRow> rows, ReadKernelTable(path, read));
  std::vector<graph::Parameter> kernels;
  for (const KernelRow& row : rows) {
    kernels.push_back(row.parameter);
  }
  cluster->parameters.Put(kernels);
  return OkStatus();
}

Status UseMeasuredKernels(const std::string& path, graph::Graph* graph) {
  PRISM_ASSIGN_OR_RETURN(const std::vector<KernelRow> rows, ReadKernelTable(path, nullptr));
  const std::set<std::string> wanted = replayer::MeasuredKernelKeys(*graph);
  std::vector<graph::Parameter> kernels;
  std::string unused;  // lines
  int64_t unused_rows = 0;
  for (const KernelRow& row : rows) {
    if (!replayer::IsKernelKind(row.kind, *graph)) {
      return UnknownKind(path, row);
    }
    kernels.push_back(row.parameter);
    if (!wanted.contains(row.parameter.key)) {
      constexpr int64_t kShown = 5;
      if (unused_rows++ < kShown) {
        unused += fmt::format(
            "{}line {} ({})", unused.empty() ? "" : ", ", row.line,
            std::string_view(row.parameter.key).substr(row.parameter.key.find('.') + 1));
      }
    }
  }
  graph->cluster.parameters.Put(kernels);
  const std::string use =
      fmt::format("{} of {} used", static_cast<int64_t>(rows.size()) - unused_rows,
                  FormatCounted(static_cast<int64_t>(rows.size()), "row"));
  graph->assumptions.push_back(fmt::format("measured kernels of {}: {}", path, use));
  if (unused_rows > 0) {
    graph->warnings.push_back({"measured_kernel_unused", unused_rows,
                               fmt::format("{}, {}; unused: {}", path, use, unused)});
  }
  return OkStatus();
}

}  // namespace prism::launch
