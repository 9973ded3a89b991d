// The one reader of words.csv, which says what texts in the cells of published tables mean. Sources
// write freely ("Megatron-LM / Megatron-Core CI", "selective modules [moe_act]"), so a line of the
// table is a pattern, and the first line about a field whose pattern fits a row decides it.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace prism::launch {

struct Word {
  std::string source;  // pattern of the table's name
  // Whose text is meant: a column; "column.words": its words, with a dot before, between and after;
  // "extra:key": a value in the column extra; "argument": each entry and each key of that column;
  // "flag": the words of a column that says yes or no; "recipe" (row_style.h); "source"; two
  // columns, "a+b", with a plus between their texts.
  std::string column;
  std::string text;   // pattern of the shell, lower case
  std::string value;  // "yes" or "no", a number, or the name of an enumerator; "-": nothing
};

// The lines about a field, in order. A line with alternatives ("a|b") is one for each.
std::span<const Word> WordsAbout(std::string_view field);

// All lines, by field.
const std::map<std::string, std::vector<Word>, std::less<>>& AllWords();

// What "a|b" stands for; an empty text for itself.
std::vector<std::string> Alternatives(const std::string& text);

bool Matches(const std::string& pattern, const std::string& text);

}  // namespace prism::launch
