#include "launch/inputs/host_file.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "graph/base/file.h"
#include "graph/base/parse_number.h"

namespace prism::launch {
namespace {

struct Host {
  std::string name;
  int64_t slots = 0;
};

// "NAME slots=8", a line each.
Result<std::vector<Host>> ReadHostFile(const std::string& path) {
  PRISM_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  std::istringstream lines(text);
  std::vector<Host> hosts;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line.substr(0, line.find('#')));
    Host host;
    std::string slots;
    constexpr std::string_view kSlots = "slots=";
    if (!(words >> host.name)) {
      continue;
    }
    if (!(words >> slots) || !slots.starts_with(kSlots) ||
        !ParseNumber(std::string_view(slots).substr(kSlots.size()), &host.slots) ||
        host.slots < 1) {
      return BadFile(fmt::format("{}: expected 'HOST slots=N', not '{}'", path, line));
    }
    hosts.push_back(std::move(host));
  }
  return hosts.empty() ? Result<std::vector<Host>>(BadFile(path + ": names no host")) : hosts;
}

// "a@b:0,2": hosts, and of some only these GPUs.
Status Filter(const LauncherLine& line, std::vector<Host>* hosts) {
  const bool includes = line.Has("i");
  const char* const flag = includes ? "--include" : "--exclude";
  std::istringstream entries(line.Text(includes ? "i" : "e"));
  std::vector<Host> chosen = includes ? std::vector<Host>() : *hosts;
  for (std::string entry; std::getline(entries, entry, '@');) {
    const size_t colon = entry.find(':');
    const std::string name = entry.substr(0, colon);
    const auto host = std::ranges::find(*hosts, name, &Host::name);
    if (host == hosts->end()) {
      return line.Wrong(fmt::format("{}: host '{}' is not in the host file", flag, name));
    }
    const int64_t slots =
        colon == entry.npos ? host->slots : std::ranges::count(entry.substr(colon), ',') + 1;
    if (includes) {
      chosen.push_back({name, slots});
    } else {
      std::ranges::find(chosen, name, &Host::name)->slots -= slots;
    }
  }
  std::erase_if(chosen, [](const Host& host) { return host.slots < 1; });
  *hosts = std::move(chosen);
  return OkStatus();
}

}  // namespace

Status ReadHosts(const LauncherLine& line,
                 std::optional<int32_t>* nodes,
                 std::optional<int32_t>* ranks_per_node) {
  std::vector<Host> hosts;
  if (line.Has("H")) {
    Result<std::vector<Host>> read = ReadHostFile(line.Text("H"));
    PRISM_RETURN_IF_ERROR(read.status());
    hosts = *std::move(read);
  }
  if (line.Has("i") || line.Has("e")) {
    if (hosts.empty()) {  // --include localhost:0,1
      const std::string only = line.Text("i", line.Text("e"));
      hosts = {{only.substr(0, only.find(':')), 0}};
    }
    PRISM_RETURN_IF_ERROR(Filter(line, &hosts));
    if (hosts.empty()) {
      return line.Wrong("--include and --exclude leave no GPU; change them, or give --gpus");
    }
  }
  if (hosts.empty()) {
    return OkStatus();
  }
  const auto differs = std::ranges::find_if(
      hosts, [&](const Host& host) { return host.slots != hosts.front().slots; });
  if (differs != hosts.end()) {
    return line.Wrong(
        fmt::format("{} has {} slots and {} {}: nodes with different numbers of ranks "
                    "cannot be emulated; use equal ones",
                    hosts.front().name, hosts.front().slots, differs->name, differs->slots));
  }
  *nodes = std::min<int32_t>(nodes->value_or(INT32_MAX), static_cast<int32_t>(hosts.size()));
  if (!*ranks_per_node && hosts.front().slots > 0) {
    *ranks_per_node = static_cast<int32_t>(hosts.front().slots);
  }
  return OkStatus();
}

}  // namespace prism::launch
