#include "launch/emulate/sandbox/processes.h"

#include <filesystem>
#include <system_error>

#include "graph/base/parse_number.h"

namespace prism::launch {

namespace fs = std::filesystem;

pid_t ProcessNumber(std::string_view text) {
  pid_t number = 0;
  return ParseNumber(text, &number) ? number : 0;
}

std::set<pid_t> ProcessesWhere(const std::function<bool(pid_t)>& holds) {
  std::set<pid_t> processes;
  std::error_code error;
  for (fs::directory_iterator entry("/proc", error), end; !error && entry != end;
       entry.increment(error)) {
    const pid_t process = ProcessNumber(entry->path().filename().string());
    if (process > 0 && holds(process)) {
      processes.insert(process);
    }
  }
  return processes;
}

}  // namespace prism::launch
