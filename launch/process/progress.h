// What a program is doing, on stderr: on a terminal one line that is drawn again, with ETA;
// elsewhere a plain line at the start of a stage and every ten seconds.
#pragma once

#include <chrono>
#include <string>

namespace prism::launch {

class Progress {
 public:
  // Of a program of that name. `silent`: nothing is shown of a stage before it has taken so long.
  Progress(std::string program, bool quiet, std::chrono::seconds silent = {});
  ~Progress();  // takes the drawn line away

  void BeginStage(const std::string& name, const std::string& detail);

  // Share of the stage that is done, 0 to 1, and in words ("3 of 18 ranks recorded").
  void Update(double share, const std::string& done = {});

  // Until the next stage, says this instead of an estimate of what is left.
  void StopEstimating(const std::string& why) { endless_ = why; }

  // Takes the drawn line away, so that something else can be printed.
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;

  std::string program_;
  bool quiet_;
  std::chrono::seconds silent_;
  bool terminal_;
  bool drawn_ = false;
  std::string stage_;
  std::string detail_;
  std::string endless_;  // why nothing is estimated; "": it is
  Clock::time_point begin_;
  Clock::time_point last_;
};

}  // namespace prism::launch
