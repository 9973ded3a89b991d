#include "launch/search/framework_style.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launch/accuracy/published_row.h"
#include "launch/accuracy/row_style.h"
#include "launch/prediction/assumptions.h"

namespace prism::launch {
namespace {

constexpr uint32_t kKinds = 2 * 2 * 2 * 4;  // tp, sequence parallelism, vpp, ZeRO

}  // namespace

const std::vector<std::string>& FrameworkNames() {
  static const std::vector<std::string> names = {
      "megatron-lm", "megatron-deepspeed", "megatron-core", "megascale",
      "fsdp",        "torchtitan",         "nanotron"};
  return names;
}

Result<FrameworkStyle> FrameworkStyle::Create(const std::string& framework,
                                              const std::string& gpu,
                                              const std::string& precision) {
  const std::vector<std::string>& names = FrameworkNames();
  if (std::find(names.begin(), names.end(), framework) == names.end()) {
    return InvalidArgument(fmt::format("--framework: '{}' is not available; choose {}", framework,
                                       fmt::join(names, ", ")));
  }
  constexpr std::array kPrecisions = {"",    "bf16",      "fp16",  "fp32",
                                      "fp8", "fp8-block", "mxfp8", "nvfp4"};
  if (std::find(kPrecisions.begin(), kPrecisions.end(), precision) == kPrecisions.end()) {
    return InvalidArgument(
        fmt::format("--precision: '{}' is not available; choose {}", precision,
                    fmt::join(kPrecisions.begin() + 1, kPrecisions.end(), ", ")));
  }
  const std::string text = fmt::format("framework,gpu,precision\n{},{},{}\n", CsvField(framework),
                                       CsvField(gpu), CsvField(precision));
  PRISM_ASSIGN_OR_RETURN(CsvTable row, CsvTable::Parse(text, "the framework of the search"));
  return FrameworkStyle(std::move(row));
}

std::string FrameworkStyle::HostProfile() const {
  return FrameworkName(FamilyOfRow(PublishedRow(row_, 0)));
}

FrameworkStyle::FrameworkStyle(CsvTable row) : row_(std::move(row)) {
  for (uint32_t kind = 0; kind < kKinds; ++kind) {
    graph::JobSpec job;
    job.parallel.tp = (kind & 1U) != 0 ? 2 : 1;
    job.sequence_parallel = (kind & 2U) != 0;
    job.parallel.vpp = (kind & 4U) != 0 ? 2 : 1;
    job.zero_stage = static_cast<int32_t>(kind / 8);
    launch::Assumptions unused;
    styles_.push_back(StyleOfRow(PublishedRow(row_, 0), job, &unused));
  }
}

size_t FrameworkStyle::KindOf(const graph::JobSpec& job) {
  return (job.parallel.tp > 1 ? 1U : 0U) + (job.sequence_parallel ? 2U : 0U) +
         (job.parallel.vpp > 1 ? 4U : 0U) + 8 * static_cast<size_t>(job.zero_stage);
}

const graph::TrainingStyle& FrameworkStyle::Of(const graph::JobSpec& job) const {
  return styles_[KindOf(job)];
}

std::vector<std::string> FrameworkStyle::Assumptions(const graph::JobSpec& job) const {
  launch::Assumptions assumptions;
  StyleOfRow(PublishedRow(row_, 0), job, &assumptions);
  return assumptions.texts();
}

}  // namespace prism::launch
