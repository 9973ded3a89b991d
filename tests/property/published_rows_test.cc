// Leaving out or changing a field of a published row changes its prediction within reason. Tested
// with rows of the kind to which the model was fitted.
#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "graph/base/csv_field.h"
#include "graph/base/rng.h"
#include "launch/inputs/csv_table.h"

#include "experiments/published/predictor.h"
#include "experiments/published/published_row.h"
#include "experiments/published/row_plan.h"

namespace prism::launch {
namespace {

using Fields = std::map<std::string, std::string>;

Fields Llama70B() {
  return {{"framework", "NeMo / Megatron-Core"},
          {"framework_version", "25.02"},
          {"model", "Llama 3 70B"},
          {"params_b", "70.6"},
          {"layers", "80"},
          {"hidden", "8192"},
          {"heads", "64"},
          {"kv_heads", "8"},
          {"ffn", "28672"},
          {"vocab", "128256"},
          {"seq_len", "8192"},
          {"tp", "4"},
          {"pp", "4"},
          {"vpp", "5"},
          {"cp", "2"},
          {"dp", "2"},
          {"micro_batch", "1"},
          {"global_batch", "64"},
          {"grad_accum", "32"},
          {"recompute", "none"},
          {"precision", "FP8"},
          {"gpu", "H100-80GB-SXM"},
          {"gpu_mem_gb", "80"},
          {"gpus_per_node", "8"},
          {"num_gpus", "64"}};
}

Fields Gpt18B() {
  Fields row = Llama70B();
  for (const auto& [column, value] : Fields{{"framework", "Megatron-DeepSpeed"},
                                            {"framework_version", ""},
                                            {"model", "GPT 18B"},
                                            {"params_b", "18.4"},
                                            {"layers", "40"},
                                            {"hidden", "6144"},
                                            {"heads", "48"},
                                            {"kv_heads", ""},
                                            {"ffn", "24576"},
                                            {"vocab", "51200"},
                                            {"seq_len", "2048"},
                                            {"pp", "2"},
                                            {"vpp", ""},
                                            {"cp", "1"},
                                            {"dp", "8"},
                                            {"grad_accum", "8"},
                                            {"recompute", "full"},
                                            {"precision", "fp16"},
                                            {"gpu", "A100-80GB-SXM"}}) {
    row[column] = value;
  }
  return row;
}

Fields Mixture() {
  Fields row = Llama70B();
  for (const auto& [column, value] : Fields{{"framework", "Megatron-Bridge / Megatron-Core"},
                                            {"framework_version", "26.06"},
                                            {"model", "Mixture 30B"},
                                            {"params_b", "30.5"},
                                            {"arch", "MoE GQA head_dim 128"},
                                            {"layers", "48"},
                                            {"hidden", "2048"},
                                            {"heads", "32"},
                                            {"kv_heads", "4"},
                                            {"ffn", ""},
                                            {"vocab", "151936"},
                                            {"seq_len", "4096"},
                                            {"experts", "128"},
                                            {"moe_topk", "8"},
                                            {"moe_ffn", "768"},
                                            {"tp", "1"},
                                            {"pp", "1"},
                                            {"vpp", ""},
                                            {"cp", "1"},
                                            {"ep", "8"},
                                            {"dp", "64"},
                                            {"global_batch", "512"},
                                            {"grad_accum", "8"},
                                            {"precision", "MXFP8"},
                                            {"gpu", "GB200"},
                                            {"gpu_mem_gb", "186"},
                                            {"gpus_per_node", "4"}}) {
    row[column] = value;
  }
  return row;
}

Fields Mpt() {
  Fields row = Gpt18B();
  for (const auto& [column, value] : Fields{{"framework", "llm-foundry"},
                                            {"zero_stage", "FSDP FULL_SHARD"},
                                            {"tp", "1"},
                                            {"pp", "1"},
                                            {"dp", "64"},
                                            {"grad_accum", "1"},
                                            {"precision", "amp_bf16"}}) {
    row[column] = value;
  }
  return row;
}

// A separate table for each row, so that none learns from another.
class Tables {
 public:
  void Add(const Fields& fields) {
    std::string header = "id,source_key";
    std::string row = "x-1,x";
    for (const auto& [column, value] : fields) {
      header.append(",").append(column);
      row.append(",").append(CsvField(value));
    }
    const Result<CsvTable> table = CsvTable::Parse(header + "\n" + row + "\n", "t.csv");
    ASSERT_TRUE(table.ok()) << table.status().message();
    plans_.push_back(PlanRow({*table, 0}));
  }

  [[nodiscard]] const std::vector<RowPlan>& plans() const { return plans_; }

  [[nodiscard]] std::vector<RowPrediction> Predict() const {
    return *Predictor(plans_).Predict({}, /*with_intervals=*/true);
  }

 private:
  std::vector<RowPlan> plans_;
};

const std::vector<Fields>& Kinds() {
  static const std::vector<Fields> kinds = {Llama70B(), Gpt18B(), Mixture(), Mpt()};
  return kinds;
}

// Columns that follow from others, or have a usual value.
constexpr auto kOptional = std::to_array<std::string_view>(
    {"framework_version", "params_b", "heads", "kv_heads", "ffn", "vocab", "cp", "ep", "vpp", "dp",
     "tp", "pp", "micro_batch", "grad_accum", "recompute", "gpu_mem_gb", "gpus_per_node",
     "num_gpus"});

// Leaves out a randomly drawn column; returns its kind.
std::string LeaveOut(Rng* rng, Fields* row) {
  const auto last = static_cast<int64_t>(kOptional.size()) - 1;
  const std::string column(kOptional.at(static_cast<size_t>(rng->UniformInt(0, last))));
  (*row)[column].clear();
  return column;
}

TEST(PublishedRowsProperty, a_column_left_out_is_derived_or_assumed) {
  constexpr uint64_t kDraws = 300;
  Tables tables;
  std::vector<std::string> columns;
  for (const Fields& kind : Kinds()) {
    tables.Add(kind);
  }
  for (uint64_t seed = 0; seed < kDraws; ++seed) {
    Rng rng(seed, "left-out");
    Fields row = Kinds()[seed % Kinds().size()];
    columns.push_back(LeaveOut(&rng, &row));
    tables.Add(row);
  }
  const std::vector<RowPrediction> predictions = tables.Predict();
  for (uint64_t seed = 0; seed < kDraws; ++seed) {
    const size_t kind = seed % Kinds().size();
    const size_t index = Kinds().size() + seed;
    const RowPrediction& changed = predictions[index];
    SCOPED_TRACE(Kinds()[kind].at("model") + " without " + columns[seed]);
    ASSERT_EQ(changed.failure, "");
    const double ratio = changed.seconds / predictions[kind].seconds;
    EXPECT_GT(ratio, 0.5);
    EXPECT_LT(ratio, 2.0);
    EXPECT_LT(changed.low_s, changed.seconds);
    EXPECT_GT(changed.high_s, changed.seconds);
    const bool moved = ratio < 0.98 || ratio > 1.02;
    const bool by_default = columns[seed] == "vpp";  // no interleaving, unless a recipe specifies
                                                     // it
    EXPECT_TRUE(!moved || by_default ||
                tables.plans()[index].assumptions != tables.plans()[kind].assumptions)
        << "taken for granted without a word, times " << ratio;
  }
}

// A row with an absurd size, such as a typing error, is either skipped for that reason or still
// predictable from its other columns: never a failure of the whole table.
TEST(PublishedRowsProperty, sizes_out_of_all_proportion_leave_a_row_out) {
  constexpr uint64_t kDraws = 200;
  constexpr auto kSizes =
      std::to_array<std::string_view>({"layers",       "hidden",     "heads",
                                       "kv_heads",     "ffn",        "vocab",
                                       "seq_len",      "experts",    "moe_topk",
                                       "moe_ffn",      "tp",         "pp",
                                       "vpp",          "cp",         "ep",
                                       "etp",          "dp",         "micro_batch",
                                       "global_batch", "grad_accum", "gpus_per_node",
                                       "num_gpus"});
  constexpr auto kValues =
      std::to_array<std::string_view>({"0", "1", "7", "1000", "65536", "1000000", "2097152"});
  Tables tables;
  for (uint64_t seed = 0; seed < kDraws; ++seed) {
    Rng rng(seed, "slips");
    const auto draw = [&](const auto& choices) {
      const auto last = static_cast<int64_t>(choices.size()) - 1;
      return std::string(choices.at(static_cast<size_t>(rng.UniformInt(0, last))));
    };
    Fields row = Kinds()[seed % Kinds().size()];
    row["peak_mem_gib"] = "40";
    row["framework"] = seed % 3 == 0 ? "nanotron" : row["framework"];
    for (int64_t slips = rng.UniformInt(1, 3); slips > 0; --slips) {
      row[draw(kSizes)] = draw(kValues);
    }
    tables.Add(row);
  }
  for (const RowPrediction& prediction : tables.Predict()) {
    EXPECT_NE(prediction.seconds > 0, !prediction.failure.empty());
  }
}

TEST(PublishedRowsProperty, the_reason_names_the_column_and_its_limit) {
  const auto reason = [](const Fields& changes) {
    Fields row = Llama70B();
    for (const auto& [column, value] : changes) {
      row[column] = value;
    }
    Tables tables;
    tables.Add(row);
    return tables.plans()[0].cannot_predict;
  };
  EXPECT_EQ(reason({}), "");
  EXPECT_EQ(reason({{"layers", "1000000"}}), "layers is 1000000; at most 1024 can be predicted");
  EXPECT_EQ(reason({{"layers", ""}, {"params_b", "1e12"}}),
            "layers is 1000000000; at most 1024 can be predicted");
  EXPECT_EQ(reason({{"hidden", "2097152"}}), "hidden is 2097152; at most 131072 can be predicted");
  EXPECT_EQ(reason({{"heads", "2048"}, {"hidden", "1000"}}),
            "hidden is 1000; it must be at least the number of heads, 2048");
  EXPECT_EQ(reason({{"micro_batch", "2097152"}, {"global_batch", "2097152"}}),
            "micro_batch × seq_len / cp is 4294967296; at most 4194304 can be predicted");
  EXPECT_EQ(reason({{"global_batch", "2097152"}}),
            "global_batch / (micro_batch × dp) is 1048576; at most 16384 can be predicted");
}

void Multiply(const std::string& column, int64_t factor, Fields* row) {
  std::string& field = row->at(column);
  field = field.empty() ? field : std::to_string(std::stoll(field) * factor);
}

// The time of a job that is larger in one respect, relative to the original.
struct Scaling {
  std::string_view name;
  std::vector<std::string> columns;  // each times the factor
  double least;                      // of the time, for a factor of 2
  double most;
};

TEST(PublishedRowsProperty, larger_jobs_take_as_much_longer_as_they_are_larger) {
  const std::vector<Scaling> scalings = {
      {"batch", {"global_batch", "grad_accum"}, 1.5, 2.1},
      {"layers", {"layers"}, 1.6, 2.3},
      {"GPUs and batch", {"num_gpus", "dp", "global_batch"}, 0.9, 1.4},
      {"sequence", {"seq_len"}, 1.7, 3.2},
  };
  for (const Fields& kind : Kinds()) {
    Tables tables;
    tables.Add(kind);
    for (const Scaling& scaling : scalings) {
      Fields row = kind;
      for (const std::string& column : scaling.columns) {
        Multiply(column, 2, &row);
      }
      tables.Add(row);
    }
    const std::vector<RowPrediction> predictions = tables.Predict();
    for (size_t i = 0; i < scalings.size(); ++i) {
      SCOPED_TRACE(kind.at("model") + ", twice the " + std::string(scalings[i].name));
      ASSERT_EQ(predictions[i + 1].failure, "");
      const double ratio = predictions[i + 1].seconds / predictions[0].seconds;
      EXPECT_GE(ratio, scalings[i].least);
      EXPECT_LE(ratio, scalings[i].most);
    }
  }
}

}  // namespace
}  // namespace prism::launch
