// `prism bench device` and `prism bench record`.
#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "launch/bench/bench.h"
#include "launch/bench/device.h"
#include "launch/process/install_paths.h"
#include "launch/process/stop_watch.h"
#include "shim/channel/channel.h"
#include "slicer/record/op_stream.h"
#include "slicer/record/recorder.h"

namespace prism::launch {
namespace {

using channel::Record;
using channel::RecordKind;

// About half a second in total. The best of a few repetitions counts: on a shared machine the
// others measure its neighbours.
constexpr int kRepetitions = 3;
constexpr int kIterations = 8;
constexpr int kKernelsPerIteration = 50'000;
constexpr int kSignatures = 64;
constexpr int64_t kWaitNs = 100'000'000;

// A record with its payload.
struct Message {
  Record record = {};
  std::string payload;
};

Message Define(channel::Table table, uint32_t id, const std::string& payload) {
  Message message;
  message.record.kind = RecordKind::kDefine;
  message.record.define.table = table;
  message.record.define.id = id;
  message.record.define.payload_bytes = static_cast<uint32_t>(payload.size());
  message.payload = payload;
  return message;
}

// A framework op with one tensor argument, as the observer sends it.
std::string ContextPayload(const std::string& op, const std::array<int64_t, 2>& dims) {
  channel::ContextHeader header = {static_cast<uint16_t>(op.size()), 1};
  std::string payload(reinterpret_cast<const char*>(&header), sizeof(header));
  payload += op;
  payload += static_cast<char>(DataType::kBfloat16);
  payload += static_cast<char>(dims.size());
  payload.append(reinterpret_cast<const char*>(dims.data()), sizeof(dims));
  return payload;
}

Record Marker(bool begin) {
  Record record = {};
  record.kind = RecordKind::kMarker;
  record.marker.name = 1;
  record.marker.begin = begin ? 1 : 0;
  return record;
}

// What a program with equal iterations sends: kernels in turn, each in its framework op, and one
// event recorded and waited for every eight kernels.
std::vector<Message> MakeStream() {
  std::vector<Message> stream;
  stream.push_back(Define(channel::Table::kMarkerName, 1, slicer::kIterationMarker));
  for (uint32_t id = 1; id <= kSignatures; ++id) {
    stream.push_back(Define(channel::Table::kKernelName, id, fmt::format("bench_kernel_{}", id)));
    stream.push_back(Define(channel::Table::kContext, id,
                            ContextPayload(fmt::format("aten::bench_{}", id), {1024, id})));
  }
  for (int iteration = 0; iteration < kIterations; ++iteration) {
    stream.push_back({Marker(true), {}});
    for (uint32_t kernel = 0; kernel < kKernelsPerIteration; ++kernel) {
      Record record = {};
      record.kind = RecordKind::kKernel;
      record.context = kernel % kSignatures + 1;
      record.kernel.name = kernel % kSignatures + 1;
      record.kernel.grid[0] = 128;
      record.kernel.block[0] = 256;
      stream.push_back({record, {}});
      if (kernel % 8 == 7) {
        for (const RecordKind kind : {RecordKind::kEventRecord, RecordKind::kEventWait}) {
          Record event = {};
          event.kind = kind;
          event.stream = kind == RecordKind::kEventWait ? 1 : 0;
          event.event.event = 1;
          stream.push_back({event, {}});
        }
      }
    }
    stream.push_back({Marker(false), {}});
  }
  return stream;
}

std::span<const std::byte> PayloadOf(const Message& message) {
  return std::as_bytes(std::span(message.payload));
}

slicer::Recorder MakeRecorder() {
  slicer::RecorderOptions options;
  options.rank = Rank(0);
  options.warmup_iterations = kIterations - 2;
  return slicer::Recorder(options);
}

// Seconds for all records through a recorder, without a channel.
Result<double> TimeRecorder(const std::vector<Message>& stream) {
  slicer::Recorder recorder = MakeRecorder();
  const StopWatch watch;
  for (const Message& message : stream) {
    PRISM_RETURN_IF_ERROR(recorder.Consume(message.record, PayloadOf(message)));
  }
  PRISM_ASSIGN_OR_RETURN(const graph::Fragment fragment, recorder.Finish());
  const double seconds = watch.Seconds();
  if (fragment.program.size() == 0) {
    return RunFailed(
        "the recorder returned an empty program; this is a bug in Prism, please report it");
  }
  return seconds;
}

// Seconds for all records through a channel from another thread; into `recorder` if there is one.
Result<double> TimeChannel(const std::vector<Message>& stream, slicer::Recorder* recorder) {
  channel::Config config = {};
  config.version = channel::kProtocolVersion;
  config.mode = channel::Mode::kRecord;
  config.world_size = 1;
  config.sandbox_rank_count = 1;
  channel::Consumer consumer(config);
  channel::Header* const header =
      consumer.valid() ? channel::MapChannel(consumer.descriptor()) : nullptr;
  if (header == nullptr) {
    return EnvironmentLacks("cannot create shared memory for the channel (memfd_create)");
  }
  const StopWatch watch;
  std::thread producer([&stream, header] {
    channel::ClaimProducer(header);
    for (const Message& message : stream) {
      channel::Push(header, message.record, message.payload.data(),
                    static_cast<uint32_t>(message.payload.size()));
    }
  });
  Status status;
  Record record = {};
  std::span<const std::byte> payload;
  for (size_t taken = 0; taken < stream.size();) {
    if (!consumer.TryPop(&record, &payload)) {
      consumer.WaitForRecord(kWaitNs);
      continue;
    }
    ++taken;
    if (recorder != nullptr && status.ok()) {
      status = recorder->Consume(record, payload);
    }
  }
  const double seconds = watch.Seconds();
  producer.join();
  PRISM_RETURN_IF_ERROR(status);
  return seconds;
}

BenchCase RecordCase(const char* name, size_t records, double seconds) {
  const auto count = static_cast<double>(records);
  return {"record",
          name,
          {{"records", count, "records"},
           {"seconds", seconds, "s"},
           {"records_per_s", count / seconds, "records/s"}}};
}

}  // namespace

BenchResult BenchDevice(const BenchOptions& /*options*/) {
  PRISM_ASSIGN_OR_RETURN(const LaunchCost cost,
                         MeasureLaunchCost(LibraryFolder() + "/libprism_shim.so"));
  BenchCase result = {"device", "cudaLaunchKernel", {}};
  result.metrics = {{"standalone_ns", cost.standalone_ns, "ns/launch"},
                    {"record_ns", cost.record_ns, "ns/launch"},
                    {"launches", static_cast<double>(cost.launches), "launches"}};
  return std::vector<BenchCase>{std::move(result)};
}

BenchResult BenchRecord(const BenchOptions& /*options*/) {
  const std::vector<Message> stream = MakeStream();
  std::array<double, 3> best = {};
  for (int repetition = 0; repetition < kRepetitions; ++repetition) {
    slicer::Recorder recorder = MakeRecorder();
    PRISM_ASSIGN_OR_RETURN(const double channel_s, TimeChannel(stream, nullptr));
    PRISM_ASSIGN_OR_RETURN(const double recorder_s, TimeRecorder(stream));
    PRISM_ASSIGN_OR_RETURN(const double both_s, TimeChannel(stream, &recorder));
    const std::array<double, 3> seconds = {channel_s, recorder_s, both_s};
    for (size_t i = 0; i < best.size(); ++i) {
      best[i] = repetition == 0 ? seconds[i] : std::min(best[i], seconds[i]);
    }
  }
  return std::vector<BenchCase>{RecordCase("channel", stream.size(), best[0]),
                                RecordCase("recorder", stream.size(), best[1]),
                                RecordCase("channel and recorder", stream.size(), best[2])};
}

}  // namespace prism::launch
