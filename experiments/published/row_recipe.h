// The performance recipe that a row of Megatron-Bridge's tables ran: what it enables beyond the
// columns (CUDA graphs, dispatcher of experts, overlap), as quoted in the column note.
#pragma once

#include <string>
#include <string_view>

#include "experiments/published/published_row.h"

namespace prism::launch {

// The row's own recipe; otherwise, noted as assumed, that of the release of the same model on the
// same GPU which is nearest in precision, plan and date; otherwise what recipes of its date have in
// common. In lower case; "" if nothing is known.
std::string RecipeOfRow(const PublishedRow& row);

// Whether the row names a release by year (of the century) and month, or one of Megatron-Core by
// number, that is before `year` and `month`: "NeMo 24.03.01" and "0.8.0" are before 24, 9.
bool OfReleaseBefore(const PublishedRow& row, int year, int month);

// The same for the underlying software, which a submission to a benchmark may name in addition to
// its framework; otherwise by the benchmark's round.
bool BuiltBefore(const PublishedRow& row, int year, int month);

}  // namespace prism::launch
