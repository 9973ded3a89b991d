// Megatron-LM's arguments, where a row states all of them that are not the program's defaults (its
// own tests do, in the column extra: "name=value;name;..."): what is absent there is a default.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "graph/job.h"
#include "graph/training_style.h"
#include "launch/accuracy/published_row.h"
#include "launch/prediction/assumptions.h"

namespace prism::launch {

bool StatesArguments(const PublishedRow& row);

// "flag" or "flag=value".
bool HasArgument(const PublishedRow& row, std::string_view name);

// The number behind "name=", where there is one from 1 to 2^20, else `otherwise`.
int64_t IntegerArgument(const PublishedRow& row, std::string_view name, int64_t otherwise);

// A column of such a row that is empty, where an argument says the same; nothing where none does.
std::optional<int64_t> ArgumentFor(const PublishedRow& row, std::string_view column);
std::optional<bool> FlagFor(const PublishedRow& row, std::string_view column);

// Of a row that states its arguments: what megatron/training/arguments.py makes of them.
void ReadArguments(const PublishedRow& row, graph::TrainingStyle* style);

// Of such a row: those of its arguments that change time or memory and are not modelled.
void NoteArguments(const PublishedRow& row, Assumptions* assumptions);

// Words of the tokenizer that such a row names; nothing where it is a file of the test's own.
std::optional<int64_t> WordsOfTokenizer(const PublishedRow& row);

}  // namespace prism::launch
