#include "launch/inputs/toml_reader.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <toml++/toml.h>

#include "launch/inputs/options.h"

namespace prism::launch {

struct TomlDocument::State {
  toml::table table;
  std::string where;
  Status status;
  bool lacks_key = false;  // the status says no more than that
};

namespace {

const toml::table* AsTable(const void* table) {
  return static_cast<const toml::table*>(table);
}

const toml::node* FindNode(const void* table, const std::string& key) {
  return table == nullptr ? nullptr : AsTable(table)->get(key);
}

}  // namespace

TomlDocument::TomlDocument(std::unique_ptr<State> state) : state_(std::move(state)) {
}
TomlDocument::~TomlDocument() = default;
TomlDocument::TomlDocument(TomlDocument&&) noexcept = default;
TomlDocument& TomlDocument::operator=(TomlDocument&&) noexcept = default;

Result<TomlDocument> TomlDocument::Parse(std::string_view text, const std::string& where) {
  auto state = std::make_unique<State>();
  state->where = where;
  try {
    state->table = toml::parse(text);
  } catch (const toml::parse_error& error) {
    return BadFile(fmt::format("{}:{}: {}", where, error.source().begin.line, error.description()));
  }
  return TomlDocument(std::move(state));
}

TomlReader TomlDocument::root() {
  return {state_.get(), &state_->table, ""};
}

const Status& TomlDocument::status() const {
  return state_->status;
}

void TomlReader::Fail(const std::string& key, const std::string& what) {
  const toml::node* node = key.empty() ? AsTable(table_) : FindNode(table_, key);
  const bool says_more = state_->lacks_key && node != nullptr;  // perhaps its misspelt name
  if (!state_->status.ok() && !says_more) {
    return;
  }
  state_->lacks_key = node == nullptr;
  const std::string line = node == nullptr ? "" : fmt::format(":{}", node->source().begin.line);
  const std::string name = key.empty() ? path_.substr(0, path_.size() - 1) : path_ + key;
  const std::string fault = node == nullptr ? fmt::format("the key '{}' is missing", name)
                                            : fmt::format("{}: {}", name, what);
  state_->status = BadFile(fmt::format("{}{}: {}", state_->where, line, fault));
}

bool TomlReader::Has(const std::string& key) {
  known_.insert(key);
  return FindNode(table_, key) != nullptr;
}

std::vector<std::string> TomlReader::Keys() const {
  std::vector<std::string> keys;
  if (table_ != nullptr) {
    for (const auto& entry : *AsTable(table_)) {
      keys.emplace_back(entry.first.str());
    }
  }
  return keys;
}

std::string TomlReader::Text(const std::string& key) {
  used_.insert(key);
  const toml::node* node = FindNode(table_, key);
  if (node == nullptr || !node->is_string() || node->as_string()->get().empty()) {
    Fail(key, "a string is needed here");
    return {};
  }
  return node->as_string()->get();
}

std::vector<std::string> TomlReader::TextsOr(const std::string& key) {
  used_.insert(key);
  const toml::node* node = FindNode(table_, key);
  std::vector<std::string> texts;
  if (node == nullptr) {
    return texts;
  }
  if (!node->is_array() || !node->as_array()->is_homogeneous<std::string>()) {
    Fail(key, "a list of strings is needed here");
    return texts;
  }
  for (const toml::node& entry : *node->as_array()) {
    texts.push_back(entry.as_string()->get());
  }
  return texts;
}

int64_t TomlReader::Integer(const std::string& key, int64_t lowest, int64_t highest) {
  used_.insert(key);
  const toml::node* node = FindNode(table_, key);
  const int64_t value = node != nullptr && node->is_integer() ? node->as_integer()->get() : lowest;
  if (node == nullptr || !node->is_integer() || value < lowest || value > highest) {
    Fail(key, fmt::format("a whole number from {} to {} is needed here", lowest, highest));
    return lowest;
  }
  return value;
}

int64_t TomlReader::IntegerOr(const std::string& key,
                              int64_t lowest,
                              int64_t highest,
                              int64_t fallback) {
  return Has(key) ? Integer(key, lowest, highest) : fallback;
}

double TomlReader::Number(const std::string& key) {
  used_.insert(key);
  const toml::node* node = FindNode(table_, key);
  double value = std::nan("");
  if (node != nullptr && node->is_integer()) {
    value = static_cast<double>(node->as_integer()->get());
  } else if (node != nullptr && node->is_floating_point()) {
    value = node->as_floating_point()->get();
  }
  if (!std::isfinite(value)) {
    Fail(key, "a number is needed here");
    return 0;
  }
  return value;
}

bool TomlReader::BoolOr(const std::string& key, bool fallback) {
  used_.insert(key);
  const toml::node* node = FindNode(table_, key);
  if (node == nullptr) {
    return fallback;
  }
  if (!node->is_boolean()) {
    Fail(key, "true or false is needed here");
    return fallback;
  }
  return node->as_boolean()->get();
}

size_t TomlReader::Choice(const std::string& key, const std::vector<std::string>& choices) {
  used_.insert(key);
  const toml::node* node = FindNode(table_, key);
  for (size_t i = 0; node != nullptr && node->is_string() && i < choices.size(); ++i) {
    if (node->as_string()->get() == choices[i]) {
      return i;
    }
  }
  Fail(key, fmt::format("must be one of {}", fmt::join(choices, ", ")));
  return 0;
}

TomlReader TomlReader::Table(const std::string& key) {
  used_.insert(key);
  const toml::node* node = FindNode(table_, key);
  const toml::table* table = node == nullptr ? nullptr : node->as_table();
  if (table == nullptr) {
    Fail(key, "a table is needed here");
  }
  return {state_, table, path_ + key + "."};
}

std::vector<TomlReader> TomlReader::TablesOr(const std::string& key) {
  used_.insert(key);
  const toml::node* node = FindNode(table_, key);
  std::vector<TomlReader> tables;
  if (node == nullptr) {
    return tables;
  }
  if (!node->is_array_of_tables()) {
    Fail(key, fmt::format("tables are needed here, each under [[{}]]", key));
    return tables;
  }
  for (const toml::node& entry : *node->as_array()) {
    tables.push_back(
        {state_, entry.as_table(), fmt::format("{}{}.{}.", path_, key, tables.size() + 1)});
  }
  return tables;
}

void TomlReader::Refuse(const std::string& what) {
  const std::vector<std::string> keys = Keys();
  Fail(keys.empty() ? "" : keys.front(), what);
}

void TomlReader::RefuseOthers() {
  const std::vector<std::string> keys = Keys();
  known_.insert(used_.begin(), used_.end());
  std::vector<std::string> absent;
  std::ranges::set_difference(known_, keys, std::back_inserter(absent));
  for (const std::string& key : keys) {
    if (used_.count(key) == 0) {
      const std::string near = NearestName(key, absent);
      Fail(key,
           near.empty() ? "unknown key" : fmt::format("unknown key; did you mean '{}'?", near));
    }
  }
}

}  // namespace prism::launch
