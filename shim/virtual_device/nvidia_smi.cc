// nvidia-smi on the virtual device, for programs that run it to log what they run on or to count
// GPUs: what virtual_device/nvml.cc knows. Sensors read "[N/A]", as on devices that lack them. The
// memory in use is that of this process, which holds only a context.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shim/session.h"
#include "shim/virtual_device/nvml.h"

namespace {

constexpr int kRefused = 2;  // exit code
constexpr unsigned long long kMebibyte = 1U << 20U;

struct Gpu {
  unsigned int index = 0;
  nvmlDevice_t device = nullptr;
};

std::string Text(nvmlReturn_t (*get)(nvmlDevice_t, char*, unsigned int), const Gpu& gpu) {
  char text[96] = "";
  return get(gpu.device, text, sizeof(text)) == NVML_SUCCESS ? text : "[N/A]";
}

std::string DriverVersion() {
  char text[96] = "";
  nvmlSystemGetDriverVersion(text, sizeof(text));
  return text;
}

unsigned int CountGpus() {
  unsigned int count = 0;
  nvmlDeviceGetCount_v2(&count);
  return count;
}

std::string Mebibytes(const Gpu& gpu, unsigned long long nvmlMemory_t::* part) {
  nvmlMemory_t memory = {};
  nvmlDeviceGetMemoryInfo(gpu.device, &memory);
  return std::to_string(memory.*part / kMebibyte);
}

std::string ComputeCapability(const Gpu& gpu) {
  int major = 0;
  int minor = 0;
  nvmlDeviceGetCudaComputeCapability(gpu.device, &major, &minor);
  return std::to_string(major) + "." + std::to_string(minor);
}

std::string BusId(const Gpu& gpu) {
  nvmlPciInfo_t place = {};
  nvmlDeviceGetPciInfo_v3(gpu.device, &place);
  return place.busId;
}

std::string Utilization(const Gpu& gpu) {
  nvmlUtilization_t rates = {};
  nvmlDeviceGetUtilizationRates(gpu.device, &rates);
  return std::to_string(rates.gpu);
}

// A field of --query-gpu.
struct Field {
  std::string_view name;
  std::string_view unit;
  std::function<std::string(const Gpu&)> value;
};

const std::vector<Field>& Fields() {
  static const std::vector<Field> fields = {
      {"index", "", [](const Gpu& gpu) { return std::to_string(gpu.index); }},
      {"count", "", [](const Gpu&) { return std::to_string(CountGpus()); }},
      {"name", "", [](const Gpu& gpu) { return Text(nvmlDeviceGetName, gpu); }},
      {"gpu_name", "", [](const Gpu& gpu) { return Text(nvmlDeviceGetName, gpu); }},
      {"uuid", "", [](const Gpu& gpu) { return Text(nvmlDeviceGetUUID, gpu); }},
      {"gpu_uuid", "", [](const Gpu& gpu) { return Text(nvmlDeviceGetUUID, gpu); }},
      {"driver_version", "", [](const Gpu&) { return DriverVersion(); }},
      {"compute_cap", "", ComputeCapability},
      {"pci.bus_id", "", BusId},
      {"gpu_bus_id", "", BusId},
      {"memory.total", "MiB", [](const Gpu& gpu) { return Mebibytes(gpu, &nvmlMemory_t::total); }},
      {"memory.used", "MiB", [](const Gpu& gpu) { return Mebibytes(gpu, &nvmlMemory_t::used); }},
      {"memory.free", "MiB", [](const Gpu& gpu) { return Mebibytes(gpu, &nvmlMemory_t::free); }},
      {"utilization.gpu", "%", Utilization}};
  return fields;
}

std::vector<std::string> Split(const std::string& list) {
  std::vector<std::string> parts;
  std::string part;
  for (const char c : list + ",") {
    if (c == ',') {
      parts.push_back(std::exchange(part, {}));
    } else if (c != ' ') {
      part += c;
    }
  }
  return parts;
}

std::vector<Gpu> AllGpus() {
  std::vector<Gpu> gpus(CountGpus());
  for (unsigned int index = 0; index < gpus.size(); ++index) {
    gpus[index].index = index;
    nvmlDeviceGetHandleByIndex_v2(index, &gpus[index].device);
  }
  return gpus;
}

void PrintRow(const std::vector<std::string>& cells) {
  std::string row;
  for (const std::string& cell : cells) {
    row += row.empty() ? "" : ", ";
    row += cell;
  }
  std::puts(row.c_str());
}

struct Format {
  bool header = true;
  bool units = true;
};

// What has a unit is a number; everything that is not listed is a sensor, or a setting.
void Query(const std::vector<std::string>& names,
           const Format& format,
           const std::vector<Gpu>& gpus) {
  std::vector<const Field*> fields;
  std::vector<std::string> titles;
  for (const std::string& name : names) {
    const Field* known = nullptr;
    for (const Field& field : Fields()) {
      known = field.name == name ? &field : known;
    }
    fields.push_back(known);
    titles.push_back(name);
    if (known != nullptr && !known->unit.empty()) {
      titles.back().append(" [").append(known->unit).append("]");
    }
  }
  if (format.header) {
    PrintRow(titles);
  }
  for (const Gpu& gpu : gpus) {
    std::vector<std::string> cells;
    for (const Field* field : fields) {
      std::string cell = field == nullptr ? "[N/A]" : field->value(gpu);
      if (field != nullptr && format.units && !field->unit.empty()) {
        cell.append(" ").append(field->unit);
      }
      cells.push_back(std::move(cell));
    }
    PrintRow(cells);
  }
}

void List(const std::vector<Gpu>& gpus) {
  for (const Gpu& gpu : gpus) {
    std::printf("GPU %u: %s (UUID: %s)\n", gpu.index, Text(nvmlDeviceGetName, gpu).c_str(),
                Text(nvmlDeviceGetUUID, gpu).c_str());
  }
}

void PrintTable(const std::vector<Gpu>& gpus) {
  int cuda = 0;
  nvmlSystemGetCudaDriverVersion_v2(&cuda);
  const std::string driver = DriverVersion();
  std::printf("NVIDIA-SMI %s, Driver Version: %s, CUDA Version: %d.%d (virtual device of Prism)\n",
              driver.c_str(), driver.c_str(), cuda / 1000, cuda % 1000 / 10);
  for (const Gpu& gpu : gpus) {
    std::printf("| %3u  %-32s | %s | %6sMiB / %6sMiB | %3s%% |\n", gpu.index,
                Text(nvmlDeviceGetName, gpu).c_str(), BusId(gpu).c_str(),
                Mebibytes(gpu, &nvmlMemory_t::used).c_str(),
                Mebibytes(gpu, &nvmlMemory_t::total).c_str(), Utilization(gpu).c_str());
  }
}

// What the command line asks for.
struct Request {
  bool lists = false;
  std::vector<std::string> of_gpus;       // fields
  std::vector<std::string> of_processes;  // fields
  std::vector<std::string> ids;           // empty: all
  Format format;
};

// Whether the argument is one of those options, with its value in it or behind it.
bool TakeValue(int count,
               char** arguments,
               int* at,
               const std::vector<std::string>& names,
               std::string* value) {
  const std::string argument = arguments[*at];
  for (const std::string& name : names) {
    if (argument.rfind(name + "=", 0) == 0) {
      *value = argument.substr(name.size() + 1);
      return true;
    }
    if (argument == name && *at + 1 < count) {
      *value = arguments[++*at];
      return true;
    }
  }
  return false;
}

Request ReadRequest(int count, char** arguments) {
  Request request;
  for (int at = 1; at < count; ++at) {
    std::string value;
    if (std::strcmp(arguments[at], "-L") == 0 || std::strcmp(arguments[at], "--list-gpus") == 0) {
      request.lists = true;
    } else if (TakeValue(count, arguments, &at, {"--query-gpu"}, &value)) {
      request.of_gpus = Split(value);
    } else if (TakeValue(count, arguments, &at, {"--query-compute-apps"}, &value)) {
      request.of_processes = Split(value);
    } else if (TakeValue(count, arguments, &at, {"-i", "--id"}, &value)) {
      request.ids = Split(value);
    } else if (TakeValue(count, arguments, &at, {"--format"}, &value)) {
      for (const std::string& part : Split(value)) {
        request.format.header = request.format.header && part != "noheader";
        request.format.units = request.format.units && part != "nounits";
      }
    } else {
      std::fprintf(stderr, "the virtual device has no nvidia-smi %s\n", arguments[at]);
      std::exit(kRefused);
    }
  }
  return request;
}

// By number, UUID or place on the bus.
std::vector<Gpu> Chosen(const std::vector<std::string>& ids) {
  std::vector<Gpu> gpus;
  for (const Gpu& gpu : AllGpus()) {
    bool chosen = ids.empty();
    for (const std::string& id : ids) {
      chosen = chosen || id == std::to_string(gpu.index) || id == Text(nvmlDeviceGetUUID, gpu) ||
               id == BusId(gpu);
    }
    if (chosen) {
      gpus.push_back(gpu);
    }
  }
  if (gpus.empty()) {
    std::puts("No devices were found");
    std::exit(kRefused);
  }
  return gpus;
}

}  // namespace

int main(int count, char** arguments) {
  prism::shim::prism_shim_stay_silent();
  const Request request = ReadRequest(count, arguments);
  const std::vector<Gpu> gpus = Chosen(request.ids);
  if (!request.of_processes.empty()) {
    Query(request.of_processes, request.format, {});
  } else if (!request.of_gpus.empty()) {
    Query(request.of_gpus, request.format, gpus);
  } else if (request.lists) {
    List(gpus);
  } else {
    PrintTable(gpus);
  }
  return 0;
}
