#include "graph/job/cluster.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "graph/base/check.h"

namespace prism::graph {
ParameterTable::ParameterTable(std::vector<Parameter> parameters)
    : parameters_(std::move(parameters)) {
  std::ranges::sort(parameters_, {}, &Parameter::key);
  for (size_t i = 1; i < parameters_.size(); ++i) {
    PRISM_CHECK_NE(parameters_[i - 1].key, parameters_[i].key);
  }
}

const Parameter* ParameterTable::Find(std::string_view key) const {
  const auto found = std::ranges::lower_bound(parameters_, key, {}, &Parameter::key);
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
  const auto found = std::ranges::lower_bound(parameters_, key, {}, &Parameter::key);
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
