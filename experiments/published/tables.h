// The tables beside this file as text, embedded when Prism is built, so that no path is needed.
#pragma once

namespace prism::launch {

extern const char* const kColumnsCsv;  // columns of published tables
extern const char* const kEffectsCsv;  // effects that can be left out
extern const char* const kErrorsCsv;   // errors that other tools have published for these runs
extern const char* const kLogsCsv;     // what frameworks print about a run
extern const char* const kWordsCsv;    // what texts in the cells mean

}  // namespace prism::launch
