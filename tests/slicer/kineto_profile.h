// Profiles for tests, and what becomes of them.
#pragma once

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "replayer/engine/replay_result.h"
#include "replayer/replay.h"
#include "slicer/import/kineto/kineto_import.h"
#include "tests/support/test_parameters.h"

namespace prism::slicer {

// Events of one rank, in microseconds from the step's beginning at 1,000,000.
class Profile {
 public:
  explicit Profile(int rank = 0, int world = 2)
      : text_(fmt::format("{{\"distributedInfo\": {{\"rank\": {}, \"world_size\": {}}}, "
                          "\"deviceProperties\": [{{\"id\": 0, \"name\": \"GPU X\"}}], "
                          "\"traceEvents\": [",
                          rank,
                          world)) {}

  Profile& Step(double begin,
                double duration,
                const std::string& name = "ProfilerStep#3",
                const std::string& category = "user_annotation") {
    return Add(category, name, begin, duration, "");
  }

  Profile& Call(const std::string& name, double begin, double duration) {
    return Add("cuda_runtime", name, begin, duration,
               fmt::format("\"correlation\": {}", ++correlation_));
  }

  // The GPU task of the last call.
  Profile& Task(const std::string& name,
                int stream,
                double begin,
                double duration,
                const std::string& more = "") {
    return Add("kernel", name, begin, duration,
               fmt::format("\"stream\": {}, \"correlation\": {}{}", stream, correlation_, more));
  }

  Profile& Issue(const std::string& name, double begin, double duration, const std::string& dims) {
    return Add("user_annotation", name, begin, duration,
               fmt::format("\"Input Dims\": {}, \"Input type\": [\"float\"]", dims));
  }

  Profile& Op(const std::string& name, double begin, double duration, const std::string& dims) {
    return Add("cpu_op", name, begin, duration,
               fmt::format("\"Input Dims\": {}, \"Input type\": [\"c10::BFloat16\"]", dims));
  }

  // Of a profile without shapes: its number as a recorded function.
  Profile& NumberedOp(const std::string& name, double begin, double duration, int number) {
    return Add("cpu_op", name, begin, duration, fmt::format("\"Record function id\": {}", number));
  }

  // A list of process groups, as PyTorch writes it behind "distributedInfo"'s ranks.
  Profile& Groups(const std::string& list) {
    const size_t end = text_.find('}');
    text_.insert(end, fmt::format(", \"pg_config\": {}", list));
    return *this;
  }

  [[nodiscard]] std::string Json() const { return text_ + "]}"; }

 private:
  Profile& Add(const std::string& category,
               const std::string& name,
               double begin,
               double duration,
               const std::string& args) {
    text_ += fmt::format(
        "{}{{\"ph\": \"X\", \"cat\": \"{}\", \"name\": \"{}\", \"pid\": 0, \"tid\": 1, "
        "\"ts\": {:.3f}, \"dur\": {}, \"args\": {{{}}}}}",
        text_.ends_with('[') ? "" : ",\n", category, name, 1'000'000 + begin, duration, args);
    return *this;
  }

  std::string text_;
  int correlation_ = 0;
};

inline Result<ImportResult> Import(const std::vector<std::string>& profiles,
                                   int32_t target_gpus = 0,
                                   const KinetoChoice& choice = {}) {
  ImportOptions options;
  options.cluster = prism::testing::TestCluster();
  options.target_gpus = target_gpus;
  std::vector<TraceSource> sources;
  for (size_t i = 0; i < profiles.size(); ++i) {
    sources.push_back({"profile" + std::to_string(i), profiles[i]});
  }
  return ImportKinetoBytes(sources, options, choice);
}

inline DurationNs IterationNs(const graph::Graph& graph) {
  const Result<replayer::ReplayResult> result = replayer::Replay(graph, {});
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? result->steady_iteration_ns() : 0;
}

}  // namespace prism::slicer
