#include "launch/analyse/profile/profile_file.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "graph/base/compress.h"
#include "graph/base/file.h"
#include "slicer/import/nsys/nsys_file.h"
#include "slicer/import/nsys/sqlite_rows.h"
#include "slicer/import/source_files.h"

namespace prism::launch {
namespace {

constexpr size_t kLook = 64;                         // bytes of a file that tell what it is
constexpr size_t kMaxTraceBytes = size_t{1} << 34U;  // of one that was packed

}  // namespace

bool IsProfileFile(const std::string& file) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(file, ignored)) {
    return false;
  }
  const std::string beginning = ReadBeginning(file, kLook);
  const size_t first = beginning.find_first_not_of(" \t\r\n\xEF\xBB\xBF");
  return IsGzip(beginning) || slicer::IsSqlite(beginning) ||
         (first != std::string::npos && (beginning[first] == '{' || beginning[first] == '['));
}

Result<std::vector<RankProfile>> ReadProfile(const std::string& file, const ProfileChoice& choice) {
  constexpr auto kAll = slicer::KinetoParts::kAll;
  std::vector<slicer::KinetoTrace> traces;
  if (slicer::IsSqlite(ReadBeginning(file, kLook))) {
    PRISM_ASSIGN_OR_RETURN(traces, slicer::ReadNsysTraces(file, "", kAll));
  } else {
    PRISM_ASSIGN_OR_RETURN(const slicer::SourceFiles opened,
                           slicer::SourceFiles::Open({file}, kMaxTraceBytes));
    PRISM_ASSIGN_OR_RETURN(slicer::KinetoTrace trace,
                           slicer::ReadKinetoTrace(opened.sources().front().bytes, file, "", kAll));
    traces.push_back(std::move(trace));
  }
  std::vector<RankProfile> profiles;
  for (const slicer::KinetoTrace& trace : traces) {
    const std::string name = traces.size() == 1
                                 ? file
                                 : fmt::format("{}, GPU {}, process {}", file,
                                               trace.tasks.front().device, profiles.size() + 1);
    PRISM_ASSIGN_OR_RETURN(RankProfile profile, ProfileRank(trace, choice, name));
    profiles.push_back(std::move(profile));
  }
  return profiles;
}

Result<RankProfile> ReadOneProfile(const std::string& file, const ProfileChoice& choice) {
  PRISM_ASSIGN_OR_RETURN(std::vector<RankProfile> profiles, ReadProfile(file, choice));
  if (profiles.size() > 1) {
    return InvalidArgument(fmt::format(
        "{}: has {} processes; compare files of one: nsys export --type sqlite of each process",
        file, profiles.size()));
  }
  return std::move(profiles.front());
}

}  // namespace prism::launch
