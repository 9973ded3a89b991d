// A published row that a test states field by field.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "graph/base/csv_field.h"
#include "launch/inputs/csv_table.h"

#include "experiments/published/published_row.h"

namespace prism::launch {

// A table of one row with those fields; all columns that the test does not name are empty.
class OneRow {
 public:
  explicit OneRow(const std::vector<std::pair<std::string, std::string>>& fields) {
    std::string header;
    std::string row;
    for (const auto& [column, value] : fields) {
      header += column + ",";
      row += CsvField(value) + ",";
    }
    csv_ = *CsvTable::Parse(header + "end\n" + row + "\n", "t.csv");
  }

  [[nodiscard]] PublishedRow row() const { return {*csv_, 0}; }

 private:
  std::optional<CsvTable> csv_;
};

using Fields = std::vector<std::pair<std::string, std::string>>;

// GPT-3 175B on 128 A100s under Megatron-LM.
inline Fields Gpt175B() {
  return {{"id", "x-1"},
          {"source_key", "x"},
          {"framework", "Megatron-LM"},
          {"layers", "96"},
          {"hidden", "12288"},
          {"heads", "96"},
          {"vocab", "51200"},
          {"seq_len", "2048"},
          {"tp", "8"},
          {"pp", "8"},
          {"dp", "2"},
          {"num_gpus", "128"},
          {"micro_batch", "1"},
          {"global_batch", "64"},
          {"recompute", "full"},
          {"precision", "fp16"},
          {"gpu", "A100-80GB"},
          {"iter_time_s", "10"}};
}

inline void Set(Fields* fields, const std::string& column, const std::string& value) {
  for (auto& field : *fields) {
    if (field.first == column) {
      field.second = value;
      return;
    }
  }
  fields->emplace_back(column, value);
}

}  // namespace prism::launch
