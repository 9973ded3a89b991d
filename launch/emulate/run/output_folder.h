// The output folder of a run: filled under a temporary name and renamed at the end, so that a
// reader sees a whole result or none. A failed run leaves a folder with nothing but FAILED. Of
// several concurrent runs with the same folder, the last result stays if they have it by default or
// by force; else the first, and the others' are put beside it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/base/status.h"

namespace prism::launch {

struct OutputChoice {
  std::string path;
  bool by_default = false;  // not named by the user
  bool force = false;
  std::vector<std::string> inputs = {};  // files that the run reads
};

class OutputFolder {
 public:
  // Only checks: kInvalidArgument for an existing folder that must not be replaced (one that holds
  // an input, except the graph and the configuration of an earlier run, which a run writes again),
  // kEnvironment if nothing can be written.
  static Status Check(const OutputChoice& given);

  // Removes what killed runs of this machine have left under their temporary names, and tests
  // whether a folder can be created there. It is created with the first file, so that a run that is
  // killed before its report leaves nothing. Fails as Check does.
  static Result<OutputFolder> Create(const OutputChoice& given);

  OutputFolder(OutputFolder&& other) noexcept;
  OutputFolder& operator=(OutputFolder&&) = delete;
  ~OutputFolder();  // removes the temporary folder

  [[nodiscard]] const std::string& path() const { return choice_.path; }

  // Where a file is until Commit().
  [[nodiscard]] std::string TemporaryPath(std::string_view name) const;

  // Writes a file, creating its folder. kRunFailed when the disk is full; the message has the path
  // that the file would have after Commit().
  Status Write(std::string_view name, std::string_view content);

  // The same with a function that writes to a path.
  Status WriteBy(std::string_view name, const std::function<Status(const std::string&)>& write);

  // Puts the folder in place. kRunFailed if another run has put a result there since Create and
  // neither force nor the default allows replacing it: this one's is then beside it, under the name
  // in the message.
  Status Commit();

  // Replaces everything by the file FAILED with this text, and puts that in place, unless another
  // run has put something there since Create. Errors here are not reported, since the failure that
  // led here is.
  void CommitFailure(std::string_view text);

 private:
  explicit OutputFolder(OutputChoice choice);

  Status CommitBeside();

  OutputChoice choice_;
  std::string temporary_;
  uint64_t found_;  // number of the folder that was at this path, in its file system; 0: none
};

}  // namespace prism::launch
