#include "launch/analyse/flight/pickle_fields.h"

namespace prism::launch {

using replayer::PickleValue;
using Kind = PickleValue::Kind;

int64_t PickleFields::Int(const PickleValue& dict,
                          const char* key,
                          std::optional<int64_t> otherwise) {
  const PickleValue* const value = tree_.Find(dict, key);
  if (value != nullptr && value->kind == Kind::kInt) {
    return value->number;
  }
  failed_ = failed_ || value != nullptr || !otherwise;
  return otherwise.value_or(0);
}

std::string PickleFields::Text(const PickleValue& dict, const char* key) {
  const PickleValue* const value = tree_.Find(dict, key);
  failed_ = failed_ || value == nullptr || value->kind != Kind::kString;
  return std::string(failed_ ? std::string_view() : tree_.Text(*value));
}

bool PickleFields::Flag(const PickleValue& dict, const char* key) const {
  const PickleValue* const value = tree_.Find(dict, key);
  return value != nullptr && value->kind == Kind::kBool && value->number != 0;
}

std::vector<const PickleValue*> PickleFields::Elements(const PickleValue* list) {
  std::vector<const PickleValue*> elements;
  if (list == nullptr || list->kind != Kind::kSequence || list->count > elements_left_) {
    failed_ = true;
    return elements;
  }
  elements_left_ -= list->count;
  for (const uint32_t element : tree_.Elements(*list)) {
    elements.push_back(&tree_.at(element));
  }
  return elements;
}

std::vector<const PickleValue*> PickleFields::Dicts(const PickleValue* list) {
  std::vector<const PickleValue*> dicts = Elements(list);
  for (const PickleValue* const dict : dicts) {
    failed_ = failed_ || dict->kind != Kind::kDict;
  }
  return dicts;
}

}  // namespace prism::launch
