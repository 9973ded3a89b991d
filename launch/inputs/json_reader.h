// Reads typed values out of a JSON object and keeps the first failure, as
// launch/inputs/toml_reader.h does for TOML. A key that is null counts as absent.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"

namespace prism::launch {

class JsonReader {
 public:
  // kBadFile for text that is no object, or nests deeper than any model's description.
  static Result<JsonReader> Parse(std::string_view text, const std::string& where);

  [[nodiscard]] bool Has(const std::string& key);
  int64_t Integer(const std::string& key, int64_t lowest, int64_t highest);
  double PositiveOr(const std::string& key, double fallback);
  bool BoolOr(const std::string& key, bool fallback);
  std::string TextOr(const std::string& key, const std::string& fallback);
  std::vector<std::string> TextsOr(const std::string& key);  // absent: none
  std::vector<int64_t> IntegersOr(const std::string& key);   // absent: none
  JsonReader Object(const std::string& key);  // of the same file; its failures are its own

  void Fail(const std::string& key, const std::string& what);

  // Keys that nothing has asked for and whose value switches something on: neither null nor false,
  // zero or empty.
  [[nodiscard]] std::vector<std::string> Others() const;
  [[nodiscard]] const Status& status() const { return status_; }
  [[nodiscard]] const std::string& where() const { return where_; }

 private:
  struct Document;
  JsonReader(std::shared_ptr<const Document> document, const void* object, std::string where)
      : document_(std::move(document)), object_(object), where_(std::move(where)) {}
  [[nodiscard]] const void* Find(const std::string& key);

  std::shared_ptr<const Document> document_;
  const void* object_;
  std::string where_;
  std::set<std::string> used_;
  Status status_;
};

}  // namespace prism::launch
