// A search as text, JSON and CSV.
#pragma once

#include <string>
#include <vector>

#include "launch/search/search.h"

namespace prism::launch {

std::string SearchText(const PlanEvaluator& evaluator,
                       const SearchOptions& options,
                       const SearchResult& result);

std::string SearchJson(const PlanEvaluator& evaluator,
                       const SearchOptions& options,
                       const SearchResult& result);

// A plan a line, given ones first.
std::string SearchCsv(const PlanEvaluator& evaluator, const SearchResult& result);

}  // namespace prism::launch
