// Reads typed values out of a TOML document and keeps the first failure (one of a key that is there
// before that of a missing one), so that readers of presets are plain lists of fields. The only
// place besides config_file.cc that knows toml++.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/enum_names.h"
#include "graph/base/status.h"

namespace prism::launch {

class TomlReader;

// A parsed document with the first failure met while reading it. Readers hold pointers into it.
class TomlDocument {
 public:
  static Result<TomlDocument> Parse(std::string_view text, const std::string& where);
  ~TomlDocument();
  TomlDocument(TomlDocument&&) noexcept;
  TomlDocument& operator=(TomlDocument&&) noexcept;

  TomlReader root();
  [[nodiscard]] const Status& status() const;

 private:
  friend class TomlReader;
  struct State;
  explicit TomlDocument(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// One table. A missing or ill-typed value becomes the document's failure and reads as empty or the
// lowest value allowed.
class TomlReader {
 public:
  std::string Text(const std::string& key);
  std::vector<std::string> TextsOr(const std::string& key);  // absent: none
  int64_t Integer(const std::string& key, int64_t lowest, int64_t highest);
  int64_t IntegerOr(const std::string& key, int64_t lowest, int64_t highest, int64_t fallback);
  double Number(const std::string& key);
  bool BoolOr(const std::string& key, bool fallback);
  size_t Choice(const std::string& key, const std::vector<std::string>& choices);
  template <typename Enum, size_t N>
  Enum Choice(const std::string& key, const std::array<EnumName<Enum>, N>& names) {
    return names[Choice(key, AllNames(names))].value;
  }
  TomlReader Table(const std::string& key);
  std::vector<TomlReader> TablesOr(const std::string& key);  // [[key]] in their order; absent: none

  [[nodiscard]] bool Has(const std::string& key);
  [[nodiscard]] std::vector<std::string> Keys() const;  // in alphabetical order

  // Fails because of the key's value, or, whatever is wrong, because it is missing.
  void Fail(const std::string& key, const std::string& what);

  // Fails because the table as a whole lacks something.
  void Refuse(const std::string& what);

  // Fails on a key that nothing has read, with a near one that may be there: a misspelt key must
  // not be ignored.
  void RefuseOthers();

 private:
  friend class TomlDocument;
  TomlReader(TomlDocument::State* state, const void* table, std::string path)
      : state_(state), table_(table), path_(std::move(path)) {}

  TomlDocument::State* state_;
  const void* table_;  // toml::table, nullptr after a failure
  std::string path_;   // "gpu." for messages
  std::set<std::string> used_;
  std::set<std::string> known_;  // and those that may be left out
};

}  // namespace prism::launch
