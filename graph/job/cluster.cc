#include "graph/job/cluster.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "graph/base/check.h"

namespace prism::graph {
namespace {

bool KeyLess(const Parameter& parameter, std::string_view key) {
  return parameter.key < key;
}

}  // namespace

ParameterTable::ParameterTable(std::vector<Parameter> parameters)
    : parameters_(std::move(parameters)) {
  std::sort(parameters_.begin(), parameters_.end(),
            [](const Parameter& a, const Parameter& b) { return a.key < b.key; });
  for (size_t i = 1; i < parameters_.size(); ++i) {
    PRISM_CHECK_NE(parameters_[i - 1].key, parameters_[i].key);
  }
}

const Parameter* ParameterTable::Find(std::string_view key) const {
  const auto found = std::lower_bound(parameters_.begin(), parameters_.end(), key, KeyLess);
  return found != parameters_.end() && found->key == key ? &*found : nullptr;
}

double ParameterTable::Value(std::string_view key) const {
  const Parameter* parameter = Find(key);
  PRISM_CHECK_MSG(parameter != nullptr, key);
  return parameter->value;
}

double ParameterTable::ValueOr(std::string_view key, double fallback) const {
  const Parameter* parameter = Find(key);
  return parameter == nullptr ? fallback : parameter->value;
}

void ParameterTable::SetValue(std::string_view key, double value) {
  const auto found = std::lower_bound(parameters_.begin(), parameters_.end(), key, KeyLess);
  PRISM_CHECK_MSG(found != parameters_.end() && found->key == key, key);
  found->value = value;
}

void ParameterTable::Put(const std::vector<Parameter>& parameters) {
  std::vector<Parameter> all = parameters;
  const ParameterTable added(parameters);
  std::copy_if(parameters_.begin(), parameters_.end(), std::back_inserter(all),
               [&](const Parameter& old) { return added.Find(old.key) == nullptr; });
  *this = ParameterTable(std::move(all));
}

}  // namespace prism::graph
