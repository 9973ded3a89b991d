#include "launch/analyse/profile/profile_file.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "slicer/import/kineto/execution_trace.h"
#include "slicer/import/nsys/nsys_file.h"
#include "slicer/import/nsys/sqlite_rows.h"
#include "slicer/import/source_files.h"

namespace prism::launch {
namespace {

constexpr size_t kLook = 64;  // bytes of a file that tell what it is

// `executed`: the execution trace of the same run; "": none.
Result<std::vector<RankProfile>> ReadProfile(const std::string& file,
                                             const ProfileChoice& choice,
                                             const std::string& executed) {
  constexpr auto kAll = slicer::KinetoParts::kAll;
  std::vector<slicer::KinetoTrace> traces;
  if (slicer::IsSqlite(ReadBeginning(file, kLook))) {
    PRISM_ASSIGN_OR_RETURN(traces, slicer::ReadNsysTraces(file, "", kAll));
  } else {
    PRISM_ASSIGN_OR_RETURN(slicer::KinetoTrace trace, slicer::ReadKinetoFile(file, "", kAll));
    traces.push_back(std::move(trace));
  }
  int64_t joined = 0;
  if (!executed.empty()) {
    PRISM_ASSIGN_OR_RETURN(const slicer::ExecutionTrace execution,
                           slicer::ReadExecutionFile(executed));
    PRISM_ASSIGN_OR_RETURN(joined,
                           slicer::JoinExecutionTrace(execution, executed, file, &traces.front()));
  }
  std::vector<RankProfile> profiles;
  for (const slicer::KinetoTrace& trace : traces) {
    const std::string name = traces.size() == 1
                                 ? file
                                 : fmt::format("{}, GPU {}, process {}", file,
                                               trace.tasks.front().device, profiles.size() + 1);
    PRISM_ASSIGN_OR_RETURN(RankProfile profile, ProfileRank(trace, choice, name));
    profile.joined = std::exchange(joined, 0);
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

}  // namespace

bool IsProfileFile(const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) {
    return false;
  }
  const std::string beginning = slicer::BeginningOf(file, kLook);
  const size_t first = beginning.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  return slicer::IsSqlite(beginning) || first == std::string::npos || beginning[first] == '{' ||
         beginning[first] == '[';
}

Result<std::vector<RankProfile>> ReadProfiles(const std::vector<std::string>& files,
                                              const ProfileChoice& choice) {
  std::vector<std::string> names;
  std::vector<std::string> executed;
  for (const std::string& file : files) {
    (slicer::IsExecutionTrace(slicer::BeginningOf(file, kLook)) ? executed : names).push_back(file);
  }
  if (executed.size() > names.size()) {
    return BadFile(fmt::format(
        "{}: is an execution trace without times; name the profile of the same run with it",
        executed[names.size()]));
  }
  std::vector<RankProfile> profiles;
  for (size_t i = 0; i < names.size(); ++i) {
    PRISM_ASSIGN_OR_RETURN(
        std::vector<RankProfile> read,
        ReadProfile(names[i], choice, i < executed.size() ? executed[i] : std::string()));
    std::ranges::move(read, std::back_inserter(profiles));
  }
  return profiles;
}

Result<RankProfile> ReadOneProfile(const std::string& file, const ProfileChoice& choice) {
  PRISM_ASSIGN_OR_RETURN(std::vector<RankProfile> profiles, ReadProfile(file, choice, ""));
  if (profiles.size() > 1) {
    return InvalidArgument(fmt::format(
        "{}: has {} processes; compare files of one: nsys export --type sqlite of each process",
        file, profiles.size()));
  }
  return std::move(profiles.front());
}

}  // namespace prism::launch
