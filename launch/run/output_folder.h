// The output folder of a run: filled under a temporary name and renamed at the end, so that a
// reader sees a whole result or none. A failed run leaves a folder with nothing but FAILED. Of
// several runs at once that have one folder by default, or by force, the last result stays; else
// the first, and the others' lie beside it.
#pragma once

#include <cstdint>
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
  // Looks only: kInvalidArgument for an existing folder that must not be replaced (one that holds
  // an input: all but graph and configuration of an earlier run, which a run writes anew),
  // kEnvironment where nothing can be written.
  static Status Check(const OutputChoice& choice);

  // Takes away what killed runs of this machine have left under their temporary names, and tries
  // whether a folder can be made there. It is made with the first file, so that a run that is
  // killed before its report leaves nothing. The same failures as Check.
  static Result<OutputFolder> Create(const OutputChoice& choice);

  OutputFolder(OutputFolder&& other) noexcept;
  OutputFolder& operator=(OutputFolder&&) = delete;
  ~OutputFolder();  // takes the temporary folder away

  [[nodiscard]] const std::string& path() const { return choice_.path; }

  // Where a file lies until Commit().
  [[nodiscard]] std::string TemporaryPath(std::string_view name) const;

  // Writes a file, its folder included. kRunFailed when the disk is full.
  Status Write(std::string_view name, std::string_view content);

  // Puts the folder in place. kRunFailed where another run has a result there since Create and
  // neither force nor the default allows to replace it: this one's is then beside it, under the
  // name in the message.
  Status Commit();

  // Replaces everything by the file FAILED with this text, and puts that in place, unless another
  // run has put something there since Create. What goes wrong here is not reported: the failure
  // that led here is.
  void CommitFailure(std::string_view text);

 private:
  explicit OutputFolder(OutputChoice choice);

  Status CommitBeside();

  OutputChoice choice_;
  std::string temporary_;
  uint64_t found_;  // number of the folder that was at this path, in its file system; 0 none
};

}  // namespace prism::launch
