// Reports of profiles: worked numbers of small ones, and of real ones what Holistic Trace Analysis
// 0.5 says of them (its defaults).
#include "launch/analyse/profile/profile_report.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scratch_folder.h"

namespace prism::launch {
namespace {

using Row = std::map<std::string, ReportCell>;

// The rows of a table by column.
std::vector<Row> Rows(const TableReport& report, const std::string& key) {
  std::vector<Row> rows;
  for (const ReportTable& table : report.tables) {
    for (const auto& cells : table.rows) {
      if (table.key == key) {
        Row& row = rows.emplace_back();
        for (size_t i = 0; i < cells.size(); ++i) {
          row[table.columns[i].key] = cells[i];
        }
      }
    }
  }
  return rows;
}

Row RowOf(const TableReport& report, const std::string& key, const std::string& name) {
  for (const Row& row : Rows(report, key)) {
    for (const auto& [column, cell] : row) {
      if (cell == ReportCell(name)) {
        return row;
      }
    }
  }
  ADD_FAILURE() << key << " has no row " << name;
  return {};
}

int64_t Number(const Row& row, const std::string& column) {
  const auto* const number = row.contains(column) ? std::get_if<int64_t>(&row.at(column)) : nullptr;
  EXPECT_NE(number, nullptr) << column;
  return number == nullptr ? -1 : *number;
}

double Real(const Row& row, const std::string& column) {
  const auto* const number = row.contains(column) ? std::get_if<double>(&row.at(column)) : nullptr;
  EXPECT_NE(number, nullptr) << column;
  return number == nullptr ? -1 : *number;
}

// Events in microseconds.
class Events {
 public:
  Events& Add(const std::string& category,
              const std::string& name,
              double begin,
              double duration,
              const std::string& args = "") {
    text_ += fmt::format(
        "{}{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", \"pid\": 0, \"tid\": 1, \"ts\": {}, "
        "\"dur\": {}, \"args\": {{{}}}}}",
        text_.empty() ? "" : ",\n", category, name, begin, duration, args);
    return *this;
  }
  // A launch of 4 us and what it makes the GPU do.
  Events& Launch(double at, const std::string& name, int stream, double begin, double duration) {
    ++correlation_;
    Add("cuda_runtime", "cudaLaunchKernel", at, 4,
        fmt::format("\"correlation\": {}", correlation_));
    const bool copies = name.starts_with("Memcpy");
    return Add(copies ? "gpu_memcpy" : "kernel", name, begin, duration,
               fmt::format("\"stream\": {}, \"correlation\": {}, \"device\": 0, \"bytes\": {}",
                           stream, correlation_, copies ? 1000 : 0));
  }
  Events& Memory(double at, int64_t address, int64_t bytes, int64_t allocated) {
    text_ += fmt::format(
        ",\n{{\"ph\": \"i\", \"cat\": \"cpu_instant_event\", \"name\": \"[memory]\", \"tid\": 1, "
        "\"ts\": {}, \"args\": {{\"Device Type\": 1, \"Device Id\": 0, \"Addr\": {}, \"Bytes\": "
        "{}, "
        "\"Total Allocated\": {}, \"Total Reserved\": 4096}}}}",
        at, address, bytes, allocated);
    return *this;
  }
  [[nodiscard]] std::string Json(int rank) const {
    return fmt::format(
        "{{\"distributedInfo\": {{\"rank\": {}, \"world_size\": 2}}, \"traceEvents\": [{}]}}", rank,
        text_);
  }

 private:
  std::string text_;
  int correlation_ = 0;
};

class Profiles : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    folder_.Write(name, text);
    return folder_ / name;
  }
  TableReport Report(const std::vector<std::string>& files, const ProfileChoice& choice = {}) {
    Result<TableReport> report = ReportOfProfiles(files, choice);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? *report : TableReport();
  }

 private:
  ScratchFolder folder_;
};

// Stream 7: mm 100 to 200, after 10 us mm 210 to 260, which was launched before; relu 400 to 450,
// launched at 390. Stream 8: an all_reduce 180 to 300 and a copy.
Events SmallStep() {
  Events events;
  events.Add("user_annotation", "ProfilerStep#3", 0, 500)
      .Add("cpu_op", "aten::linear", 5, 60)
      .Add("cpu_op", "aten::mm", 8, 50)
      .Launch(10, "gemm", 7, 100, 100)
      .Launch(20, "gemm", 7, 210, 50)
      .Launch(30, "ncclKernel_AllReduce_RING_LL_Sum_float(ncclWorkElem)", 8, 180, 120)
      .Launch(70, "Memcpy HtoD (Pinned -> Device)", 8, 310, 2)
      .Launch(390, "relu", 7, 400, 50);
  return events;
}

// Two products of 1,000 x 1,000 x 1,000 in 100 and 50 us; at 40 TFLOP/s each takes 50.
TEST_F(Profiles, products_are_compared_with_the_rates_of_the_gpu) {
  Events events;
  events
      .Add("cpu_op", "aten::mm", 8, 50,
           R"("Input Dims": [[1000, 1000], [1000, 1000]], "Input type": ["c10::Half"])")
      .Launch(10, "volta_h884gemm", 7, 100, 100)
      .Launch(20, "volta_h884gemm", 7, 210, 50)
      .Launch(70, "relu", 7, 300, 50);
  ProfileChoice choice;
  choice.rates = [](const std::string& /*gpu*/, int64_t /*memory_bytes*/, DataType type) {
    return type == DataType::kFloat16 ? GpuRates{40e12, 1e12} : GpuRates{};
  };
  const std::string file = Write("a.json", events.Json(0));
  const TableReport report = Report({file}, choice);
  EXPECT_NEAR(Real(RowOf(report, "kernels", "volta_h884gemm"), "roofline_pct"), 66.667, 0.01);
  EXPECT_EQ(RowOf(report, "kernels", "relu").at("roofline_pct"), ReportCell());
  EXPECT_EQ(RowOf(Report({file}), "kernels", "volta_h884gemm").at("roofline_pct"), ReportCell());
}

TEST_F(Profiles, times_gaps_and_queues_are_worked_out) {
  const TableReport report = Report({Write("a.json", SmallStep().Json(1))});
  const Row times = Rows(report, "breakdown").front();
  EXPECT_EQ(Number(times, "span_ns"), 350'000);
  EXPECT_EQ(Number(times, "compute_ns"), 200'000);
  EXPECT_EQ(Number(times, "non_compute_ns"), 10'000 + 40'000 + 2'000);
  EXPECT_EQ(Number(times, "idle_ns"), 98'000);
  EXPECT_EQ(Number(times, "communication_ns"), 120'000);
  EXPECT_EQ(Number(times, "overlapped_ns"), 70'000);
  const std::vector<Row> streams = Rows(report, "streams");
  ASSERT_EQ(streams.size(), 2U);
  EXPECT_EQ(Number(streams[0], "kernel_wait_ns"), 10'000);
  EXPECT_EQ(Number(streams[0], "host_wait_ns"), 140'000);
  EXPECT_EQ(Number(streams[0], "other_wait_ns"), 0);
  EXPECT_EQ(Number(streams[0], "longest_queue"), 2);
  EXPECT_EQ(Number(streams[1], "kernel_wait_ns"), 10'000);
  const Row launches = Rows(report, "launches").front();
  EXPECT_EQ(Number(launches, "launches"), 5);
  EXPECT_EQ(Number(launches, "short_tasks"), 1);
  EXPECT_EQ(Number(launches, "delayed_tasks"), 3);
  const Row copy = RowOf(report, "copies", "Memcpy HtoD");
  EXPECT_EQ(Number(copy, "bytes"), 1000);
  EXPECT_DOUBLE_EQ(Real(copy, "gb_per_s"), 0.5);
}

TEST_F(Profiles, ops_have_the_tasks_that_they_launched_themselves) {
  const TableReport report = Report({Write("a.json", SmallStep().Json(1))});
  const Row product = RowOf(report, "ops", "aten::mm");
  EXPECT_EQ(Number(product, "tasks"), 3);
  EXPECT_EQ(Number(product, "gpu_ns"), 270'000);
  EXPECT_EQ(Number(product, "host_self_ns"), 50'000);
  const Row linear = RowOf(report, "ops", "aten::linear");
  EXPECT_EQ(Number(linear, "tasks"), 0);
  EXPECT_EQ(Number(linear, "host_ns"), 60'000);
  EXPECT_EQ(Number(linear, "host_self_ns"), 10'000);
  EXPECT_EQ(Number(RowOf(report, "ops", "(no op)"), "tasks"), 2);
}

TEST_F(Profiles, of_the_gpu_alone_have_its_times) {
  Events events;
  events.Add("user_annotation", "ProfilerStep#3", 0, 200)
      .Add("user_annotation", "ProfilerStep#4", 200, 200)
      .Add("kernel", "gemm", 50, 100, R"("stream": 7, "device": 0)")
      .Add("kernel", "gemm", 250, 100, R"("stream": 7, "device": 0)");
  const TableReport report = Report({Write("a.json", events.Json(1))});
  EXPECT_EQ(Number(RowOf(report, "kernels", "gemm"), "total_ns"), 100'000);
  EXPECT_THAT(report.notes, ::testing::Contains(::testing::HasSubstr("no calls of CUDA")));
}

TEST_F(Profiles, functions_of_python_are_the_stack_of_a_launch) {
  Events events = SmallStep();
  events.Add("python_function", "train.py(3): main", 0, 480)
      .Add("python_function", "model.py(7): forward", 6, 40);
  const TableReport report = Report({Write("a.json", events.Json(1))});
  EXPECT_EQ(Number(RowOf(report, "stacks", "model.py(7): forward < train.py(3): main"), "total_ns"),
            270'000);
  EXPECT_EQ(Number(RowOf(report, "stacks", "train.py(3): main"), "count"), 2);
}

TEST_F(Profiles, memory_has_its_peak_and_who_allocated_it) {
  Events events = SmallStep();
  events.Memory(9, 1, 512, 1512).Memory(40, 2, 1024, 2536).Memory(66, 1, -512, 2024);
  const TableReport report = Report({Write("a.json", events.Json(1))});
  const Row memory = RowOf(report, "memory", "cuda:0");
  EXPECT_EQ(Number(memory, "peak_allocated_bytes"), 2536);
  EXPECT_EQ(Number(memory, "last_allocated_bytes"), 2024);
  EXPECT_EQ(Number(memory, "peak_reserved_bytes"), 4096);
  EXPECT_EQ(Number(RowOf(report, "memory_ops", "aten::mm"), "at_peak_bytes"), 1536);
  EXPECT_EQ(Rows(report, "memory_over_time").size(), 3U);
}

TEST_F(Profiles, kernels_of_several_ranks_are_added_up) {
  const std::string a = Write("a.json", SmallStep().Json(1));
  const std::string b = Write("b.json", SmallStep().Launch(460, "relu", 7, 470, 10).Json(0));
  const TableReport report = Report({a, b});
  EXPECT_EQ(Rows(report, "breakdown").front().at("rank"), ReportCell(int64_t{0}));
  const Row relu = RowOf(report, "kernels", "relu");
  EXPECT_EQ(Number(relu, "ranks"), 2);
  EXPECT_EQ(Number(relu, "count"), 3);
  EXPECT_EQ(Number(relu, "total_ns"), 110'000);
  EXPECT_EQ(Number(relu, "shortest_ns"), 10'000);
}

TEST_F(Profiles, the_last_of_several_steps_counts_on_request) {
  Events events = SmallStep();
  events.Add("user_annotation", "ProfilerStep#4", 500, 100).Launch(510, "late", 7, 520, 10);
  const std::string file = Write("a.json", events.Json(1));
  EXPECT_EQ(Number(Rows(Report({file}), "breakdown").front(), "span_ns"), 350'000);
  EXPECT_EQ(Number(Rows(Report({file}, {.last_step = true}), "breakdown").front(), "span_ns"),
            430'000);
  EXPECT_EQ(Number(Rows(Report({file}, {.step = 4}), "breakdown").front(), "span_ns"), 10'000);
  const Result<TableReport> absent = ReportOfProfiles({file}, {.step = 9});
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.status().code(), StatusCode::kBadFile);
}

TEST_F(Profiles, two_profiles_differ_by_kernel_and_op) {
  const std::string a = Write("a.json", SmallStep().Json(1));
  const std::string b = Write("b.json", SmallStep().Launch(460, "relu", 7, 470, 10).Json(0));
  const Result<TableReport> report = CompareProfiles(a, b, {});
  ASSERT_TRUE(report.ok());
  const Row relu = Rows(*report, "kernels").front();
  EXPECT_EQ(relu.at("name"), ReportCell(std::string("relu")));
  EXPECT_EQ(Number(relu, "change_ns"), 10'000);
  EXPECT_DOUBLE_EQ(Real(relu, "change_pct"), 20);
  EXPECT_EQ(Number(RowOf(*report, "breakdown", "span"), "change_ns"), 30'000);
}

TEST_F(Profiles, ranges_too_long_to_add_up_are_refused) {
  const Result<TableReport> report = ReportOfProfiles(
      {Write("a.json", SmallStep().Launch(460, "slow", 7, 470, 1e15).Json(0))}, {});
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.status().code(), StatusCode::kBadFile);
}

// What HTA says of a file, in microseconds, and the sums over its streams.
struct Reference {
  const char* file;
  int64_t idle_us, compute_us, non_compute_us, span_us;
  double overlap_pct;
  int64_t host_wait_us, kernel_wait_us, other_us;
};

TEST_F(Profiles, real_ones_have_the_numbers_of_holistic_trace_analysis) {
  const std::string folder = PRISM_TRACES "/hta-single";
  if (!std::filesystem::exists(folder)) {
    GTEST_SKIP() << "the profiles are not beside the sources";
  }
  const Reference references[] = {
      {"a100_8rank_rank3_dlrm", 42175, 140493, 45513, 228181, 47.0, 546235, 9587, 15988},
      {"v100_ddp2_rank1_memevents", 329418, 248331, 128325, 706074, 0.0, 768550, 11104, 38965},
  };
  for (const Reference& one : references) {
    SCOPED_TRACE(one.file);
    const TableReport report = Report({fmt::format("{}/{}.json.gz", folder, one.file)});
    const Row times = Rows(report, "breakdown").front();
    EXPECT_EQ(Number(times, "idle_ns"), one.idle_us * 1000);
    EXPECT_EQ(Number(times, "compute_ns"), one.compute_us * 1000);
    EXPECT_EQ(Number(times, "non_compute_ns"), one.non_compute_us * 1000);
    EXPECT_EQ(Number(times, "span_ns"), one.span_us * 1000);
    EXPECT_NEAR(Real(times, "overlap_pct"), one.overlap_pct, 0.005);
    int64_t host = 0;
    int64_t kernel = 0;
    int64_t other = 0;
    for (const Row& stream : Rows(report, "streams")) {
      host += Number(stream, "host_wait_ns");
      kernel += Number(stream, "kernel_wait_ns");
      other += Number(stream, "other_wait_ns");
    }
    EXPECT_EQ(host, one.host_wait_us * 1000);
    EXPECT_EQ(kernel, one.kernel_wait_us * 1000);
    EXPECT_EQ(other, one.other_us * 1000);
  }
}

}  // namespace
}  // namespace prism::launch
