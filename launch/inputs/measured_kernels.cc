#include "launch/inputs/measured_kernels.h"

#include <array>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "graph/base/parse_number.h"
#include "launch/inputs/csv_table.h"
#include "replayer/cost/measured_kernels.h"

namespace prism::launch {
namespace {

template <typename Number>
bool ReadNumber(const std::string& text, Number lowest, Number highest, Number* target) {
  return ParseNumber(text, target) && *target >= lowest && *target <= highest;
}

// A kind or type becomes part of a key.
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
  if (!IsWord(kind) || !IsWord(type)) {
    return fmt::format("kind '{}' and type '{}' must each be one word", kind, type);
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
  *parameter = {replayer::MeasuredKernelKey(kind, type, sizes), seconds * 1e9, "ns",
                table.Field(row, "source"), graph::Mark::kMeasured};
  return {};
}

Result<std::vector<graph::Parameter>> ParseMeasuredKernels(std::string_view text,
                                                           const std::string& where) {
  PRISM_ASSIGN_OR_RETURN(const CsvTable table, CsvTable::Parse(text, where));
  for (const char* column : {"kind", "type", "m", "n", "k", "batch", "seconds", "source"}) {
    if (!table.HasColumn(column)) {
      return BadFile(fmt::format("{}: no column '{}'", where, column));
    }
  }
  std::map<std::string, int64_t> line_of;  // by key
  std::vector<graph::Parameter> kernels(table.row_count());
  for (size_t row = 0; row < kernels.size(); ++row) {
    const int64_t line = table.LineOf(row);
    if (const std::string fault = ReadRow(table, row, &kernels[row]); !fault.empty()) {
      return BadFile(fmt::format("{}:{}: {}", where, line, fault));
    }
    const auto [other, is_new] = line_of.emplace(kernels[row].key, line);
    if (!is_new) {
      return BadFile(
          fmt::format("{}:{}: the same kernel as in line {}", where, line, other->second));
    }
  }
  return kernels;
}

}  // namespace

Status UseMeasuredKernels(const std::string& path, graph::ClusterSpec* cluster, InputHashes* read) {
  PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  NoteInput(path, text, read);
  PRISM_ASSIGN_OR_RETURN(const std::vector<graph::Parameter> kernels,
                         ParseMeasuredKernels(text, path));
  cluster->parameters.Put(kernels);
  return OkStatus();
}

}  // namespace prism::launch
