// Errors that other tools have published for runs in these tables.
#pragma once

#include <span>
#include <string_view>

namespace prism::launch {

struct PublishedError {
  std::string_view source;  // source_key of the table
  std::string_view system;
  std::string_view statistic;  // "MAPE", "average" or "max"
  double error_pct = 0;
  std::string_view scope;
};

// All known ones, by table.
std::span<const PublishedError> PublishedErrors();

}  // namespace prism::launch
