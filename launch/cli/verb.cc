#include "launch/cli/verb.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>

#include "graph/base/units.h"
#include "graph/validate/limits.h"
#include "graph/validate/valid_graph.h"

namespace prism::launch {
namespace {

std::vector<Option<CommonOptions>> CommonTable(const VerbSpec& spec) {
  std::vector<Option<CommonOptions>> table;
  if (spec.reads_large_files) {
    table.push_back({"max-memory", &CommonOptions::max_memory, NumberAbove0("GIB"),
                     "memory that may be taken; exit code 5 where more is needed",
                     "what there is"});
  }
  table.push_back(
      {"format", &CommonOptions::format, OneOf(kOutputFormatNames), "format of the output"});
  return table;
}

template <typename V>
Status ReadValue(std::string_view flag, Kind<V> kind, const GivenOptions& given, V* target) {
  struct Holder {
    V value;
  };
  Holder holder = {*target};
  const std::vector<Option<Holder>> table = {
      {std::string(flag).c_str(), &Holder::value, std::move(kind), ""}};
  PRISM_RETURN_IF_ERROR(ReadOptions(table, given, &holder));
  *target = std::move(holder.value);
  return OkStatus();
}

Status WrongOperands(const VerbSpec& spec, size_t count) {
  return InvalidArgument(fmt::format("expected {}, got {}; see prism {} --help",
                                     spec.operands[0] == '\0' ? "no arguments" : spec.operands,
                                     FormatCounted(static_cast<int64_t>(count), "argument"),
                                     spec.name));
}

// Works for files that do not exist yet, too.
bool IsSameFile(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::error_code ignored;
  return std::filesystem::equivalent(a, b, ignored) ||
         std::filesystem::weakly_canonical(a, ignored) ==
             std::filesystem::weakly_canonical(b, ignored);
}

// Whether the path names a file that prism-emulate has written beside the graph that is read.
bool IsOfRun(const std::filesystem::path& path, const std::filesystem::path& graph) {
  constexpr const char* kFiles[] = {"summary.json", "ranks.csv", "communicators.csv",
                                    "config.toml",  "run.json",  "FAILED"};
  std::error_code ignored;
  return std::ranges::any_of(kFiles, [&](const char* name) {
    return std::filesystem::equivalent(path, graph.parent_path() / name, ignored);
  });
}

}  // namespace

Result<VerbArguments> VerbArguments::Parse(const VerbSpec& spec,
                                           const std::vector<std::string>& arguments) {
  VerbArguments parsed;
  parsed.words_ = arguments;
  parsed.rows_ = RowsOf(spec);
  const auto end = std::ranges::find(arguments, "--");  // behind it are operands alone
  PRISM_ASSIGN_OR_RETURN(SplitCommandLine split,
                         SplitArguments(parsed.rows_, {arguments.begin(), end},
                                        fmt::format("see prism {} --help", spec.name)));
  split.operands.insert(split.operands.end(), end == arguments.end() ? end : end + 1,
                        arguments.end());
  for (const OptionRow& row : parsed.rows_) {
    if (row.is_switch() && !split.IsOn(row.key())) {
      split.given.erase(row.key());
    }
  }
  parsed.given_ = std::move(split.given);
  parsed.operands_ = std::move(split.operands);
  if (parsed.help()) {
    return parsed;
  }
  const size_t count = parsed.operands_.size();
  if (count < spec.min_operands || count > spec.max_operands) {
    return WrongOperands(spec, count);
  }
  PRISM_RETURN_IF_ERROR(ReadOptions(CommonTable(spec), parsed.given_, &parsed.common_));
  return parsed;
}

bool VerbArguments::Has(std::string_view flag) const {
  return given_.contains(OptionRow{.flag = std::string(flag)}.key());
}

std::vector<std::string> VerbArguments::Texts(std::string_view flag) const {
  const auto found = given_.find(OptionRow{.flag = std::string(flag)}.key());
  return found == given_.end() ? std::vector<std::string>() : found->second.texts;
}

std::string VerbArguments::Text(std::string_view flag, const std::string& fallback) const {
  const std::vector<std::string> texts = Texts(flag);
  return texts.empty() ? fallback : texts.back();
}

Status VerbArguments::ReadInt(std::string_view flag,
                              int64_t lowest,
                              int64_t highest,
                              int64_t* target) const {
  return ReadValue(flag, WholeNumber(lowest, highest), given_, target);
}

Status VerbArguments::ReadChoice(std::string_view flag,
                                 const std::vector<std::string>& choices,
                                 std::string* target) const {
  return ReadValue(flag, OneOf(choices), given_, target);
}

Status VerbArguments::CheckOutput(std::string_view flag,
                                  const std::vector<std::string>& more) const {
  if (!Has(flag)) {
    return OkStatus();
  }
  const std::filesystem::path path = Text(flag);
  const std::string name = OptionRow{.flag = std::string(flag)}.dashed();
  std::error_code ignored;
  if (path.empty() || std::filesystem::is_directory(path, ignored)) {
    return InvalidArgument(fmt::format("{}: '{}' is not a file name", name, path.string()));
  }
  std::vector<std::string> read = operands_;  // a run's folder is read by its graph
  read.insert(read.end(), more.begin(), more.end());
  bool is_taken = std::ranges::any_of(read, [&](const std::string& other) {
    return std::filesystem::equivalent(graph::GraphFileOf(other), path, ignored);
  });
  for (const OptionRow& row : rows_) {
    is_taken = is_taken || (row.flag != flag && row.names_file() &&
                            std::ranges::any_of(Texts(row.flag), [&](const std::string& value) {
                              return IsSameFile(value, path);
                            }));
  }
  if (std::ranges::any_of(operands_, [&](const std::string& run) {
        return IsOfRun(path, graph::GraphFileOf(run));
      })) {
    return InvalidArgument(
        fmt::format("{}: '{}' belongs to the run; name another file", name, path.string()));
  }
  if (is_taken) {
    return InvalidArgument(
        fmt::format("{}: '{}' is also read, or written by another option; name another file", name,
                    path.string()));
  }
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (access(folder.c_str(), W_OK) != 0) {
    return EnvironmentLacks(
        fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
  }
  return OkStatus();
}

Kind<int64_t> AnyRank() {
  return WholeNumber(0, graph::kMaxRanks - 1, "R");
}

Status CheckRank(int64_t rank, const graph::Graph& graph) {
  const int64_t last = int64_t{graph.ranks.size()} - 1;
  return rank <= last ? OkStatus()
                      : InvalidArgument(fmt::format(
                            "--rank: '{}' is not a whole number from 0 to {}", rank, last));
}

std::vector<Verb> AllVerbs() {
  return {CheckVerb(),         ReplayVerb(),    ReportVerb(), GraphShowVerb(),
          GraphValidateVerb(), DiffVerb(),      MemVerb(),    ImportVerb(),
          ExportVerb(),        FlightVerb(),    SearchVerb(), PresetsVerb(),
          BenchVerb(),         CalibrateVerb(), DoctorVerb(), CompletionVerb()};
}

std::vector<OptionRow> RowsOf(const VerbSpec& spec) {
  std::vector<OptionRow> rows = spec.options;
  Append(RowsOf(CommonTable(spec)), &rows);
  return rows;
}

std::string VerbHelp(const VerbSpec& spec) {
  std::string text =
      fmt::format("prism {}: {}\n\nUsage: prism {} {}{}[options]\n\nOptions:\n", spec.name,
                  spec.summary, spec.name, spec.operands, spec.operands[0] == '\0' ? "" : " ");
  for (const OptionRow& row : RowsOf(spec)) {
    text += OptionHelp(row);
  }
  text += "  --help\n";
  return spec.notes[0] == '\0' ? text : fmt::format("{}\n{}", text, spec.notes);
}

}  // namespace prism::launch
