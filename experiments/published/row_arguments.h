// Megatron-LM's arguments, for rows that state all of them that differ from the program's defaults
// (its own tests do, in the column extra: "name=value;name;..."): what is absent there has its
// default.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/job/job.h"
#include "graph/job/training_style.h"

#include "experiments/published/published_row.h"

namespace prism::launch {

bool StatesArguments(const PublishedRow& row);

// "flag" or "flag=value".
bool HasArgument(const PublishedRow& row, std::string_view name);

// The number after "name=", if there is one from 1 to 2^20, else `otherwise`.
int64_t IntegerArgument(const PublishedRow& row, std::string_view name, int64_t otherwise);

// The value of an empty column of such a row that an argument gives; null if it does not.
std::optional<int64_t> ArgumentFor(const PublishedRow& row, std::string_view column);
std::optional<bool> FlagFor(const PublishedRow& row, std::string_view column);

// For a row that states its arguments: what megatron/training/arguments.py derives from them; notes
// those that change time or memory and are not modelled.
void ReadArguments(const PublishedRow& row, graph::TrainingStyle* style);

// Vocabulary size of the tokenizer that such a row names; null if it is a file of the test's own.
std::optional<int64_t> WordsOfTokenizer(const PublishedRow& row);

}  // namespace prism::launch
