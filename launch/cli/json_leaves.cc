#include "launch/cli/json_leaves.h"

#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace prism::launch {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int kMaxDepth = 64;

// The name of a list element: the code of a warning, the subject of an assumption ("a = 3": "a") or
// its whole text, the index of others. So an added element does not rename the others.
std::string ElementName(const OrderedJson& element, size_t index) {
  if (element.is_object() && element.contains("code") && element["code"].is_string()) {
    return element["code"].get<std::string>();
  }
  if (element.is_string()) {
    const auto text = element.get<std::string>();
    return text.substr(0, text.find(" = "));
  }
  return std::to_string(index);
}

// False if the value nests deeper than `depth`.
bool Flatten(const OrderedJson& value,
             const std::string& path,
             int depth,
             std::vector<JsonLeaf>* leaves) {
  if (depth == 0) {
    return false;
  }
  bool whole = true;
  if (value.is_object()) {
    for (const auto& [key, child] : value.items()) {
      const std::string inner = path.empty() ? key : fmt::format("{}.{}", path, key);
      whole = whole && Flatten(child, inner, depth - 1, leaves);
    }
    return whole;
  }
  if (value.is_array()) {
    size_t index = 0;
    std::map<std::string, int> named;
    for (const OrderedJson& child : value) {
      std::string name = ElementName(child, index++);
      if (const int before = named[name]++; before > 0) {
        name += fmt::format(" #{}", before + 1);
      }
      whole = whole && Flatten(child, fmt::format("{}[{}]", path, name), depth - 1, leaves);
    }
    return whole;
  }
  JsonLeaf leaf = {path, value.dump(), value.is_number(), 0};
  if (leaf.is_number) {
    leaf.number = value.get<double>();
  }
  leaves->push_back(std::move(leaf));
  return true;
}

}  // namespace

Result<std::vector<JsonLeaf>> FlattenJson(const std::string& text, const std::string& where) {
  const OrderedJson document = OrderedJson::parse(text, nullptr, false);
  if (document.is_discarded()) {
    return BadFile(fmt::format("{}: not a JSON file; run the job again", where));
  }
  std::vector<JsonLeaf> leaves;
  if (!Flatten(document, "", kMaxDepth, &leaves)) {
    return BadFile(fmt::format("{}: nested too deeply for a summary; run the job again", where));
  }
  return leaves;
}

Result<std::vector<graph::Warning>> WarningsOfSummary(const std::string& text,
                                                      const std::string& where) {
  std::vector<graph::Warning> warnings;
  try {
    const OrderedJson summary = OrderedJson::parse(text);
    for (const OrderedJson& warning : summary.at("warnings")) {
      warnings.push_back(
          {warning.at("code"), warning.at("count").get<int64_t>(), warning.at("example")});
    }
  } catch (const OrderedJson::exception&) {
    return BadFile(fmt::format("{}: not the summary of a run; run the job again", where));
  }
  return warnings;
}

}  // namespace prism::launch
