#include "launch/verbs/json_leaves.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace prism::launch {
namespace {

using Json = nlohmann::ordered_json;

void Flatten(const Json& value, const std::string& path, std::vector<JsonLeaf>* leaves) {
  if (value.is_object()) {
    for (const auto& [key, child] : value.items()) {
      Flatten(child, path.empty() ? key : fmt::format("{}.{}", path, key), leaves);
    }
    return;
  }
  if (value.is_array()) {
    size_t index = 0;
    for (const Json& child : value) {
      Flatten(child, fmt::format("{}[{}]", path, index++), leaves);
    }
    return;
  }
  JsonLeaf leaf = {path, value.dump(), value.is_number(), 0};
  if (leaf.is_number) {
    leaf.number = value.get<double>();
  }
  leaves->push_back(std::move(leaf));
}

}  // namespace

Result<std::vector<JsonLeaf>> FlattenJson(const std::string& text, const std::string& where) {
  const Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) {
    return BadFile(fmt::format("{}: is no JSON; run the job again", where));
  }
  std::vector<JsonLeaf> leaves;
  Flatten(document, "", &leaves);
  return leaves;
}

Result<std::vector<graph::Warning>> WarningsOfSummary(const std::string& text,
                                                      const std::string& where) {
  std::vector<graph::Warning> warnings;
  try {
    const Json summary = Json::parse(text);
    for (const Json& warning : summary.at("warnings")) {
      warnings.push_back(
          {warning.at("code"), warning.at("count").get<int64_t>(), warning.at("example")});
    }
  } catch (const Json::exception&) {
    return BadFile(fmt::format("{}: is no summary of a run; run the job again", where));
  }
  return warnings;
}

}  // namespace prism::launch
