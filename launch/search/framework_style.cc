#include "launch/search/framework_style.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "launch/accuracy/assumptions.h"
#include "launch/accuracy/published_row.h"
#include "launch/accuracy/row_style.h"

namespace prism::launch {

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
  const std::string text = fmt::format("framework,gpu,precision\n{},{},{}\n", CsvField(framework),
                                       CsvField(gpu), CsvField(precision));
  PRISM_ASSIGN_OR_RETURN(CsvTable row, CsvTable::Parse(text, "the framework of the search"));
  return FrameworkStyle(std::move(row));
}

std::string FrameworkStyle::HostProfile() const {
  return FrameworkName(FamilyOfRow(PublishedRow(row_, 0)));
}

graph::TrainingStyle FrameworkStyle::Of(const graph::JobSpec& job) const {
  launch::Assumptions unused;
  return StyleOfRow(PublishedRow(row_, 0), job, &unused);
}

std::vector<std::string> FrameworkStyle::Assumptions(const graph::JobSpec& job) const {
  launch::Assumptions assumptions;
  StyleOfRow(PublishedRow(row_, 0), job, &assumptions);
  return assumptions.texts();
}

}  // namespace prism::launch
