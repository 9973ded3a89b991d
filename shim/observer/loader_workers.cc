#include "shim/observer/loader_workers.h"

#include <mutex>
#include <vector>

#include <cuda_runtime_api.h>

#include "shim/python_code.h"
#include "shim/session.h"
#include "shim/virtual_device/runtime_state.h"

namespace prism::shim {
namespace {

thread_local bool is_worker = false;
thread_local int64_t slept_ns = 0;  // since it was last asked

// Streams by number of the loader.
struct Loaders {
  std::mutex mutex;
  std::vector<const StreamObject*> streams;
};

Loaders& GetLoaders() {
  static auto* const loaders = new Loaders();
  return *loaders;
}

// Null if none can be made.
const StreamObject* StreamOf(uint32_t loader) {
  Loaders& loaders = GetLoaders();
  const std::lock_guard<std::mutex> lock(loaders.mutex);
  if (loader >= loaders.streams.size()) {
    loaders.streams.resize(loader + 1);
  }
  const StreamObject*& stream = loaders.streams[loader];
  cudaStream_t made = nullptr;
  if (stream == nullptr && cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking) == cudaSuccess) {
    stream = FindStream(made);
  }
  return stream;
}

// The worker tells with each answer, in a pipe, how long it slept for it, and whether its data is
// at an end: from then on it answers no more. One answer is outstanding at a time.
constexpr char kSource[] = R"(
import collections
import ctypes
import os
import struct
import weakref

shim = ctypes.CDLL(None)
shim.prism_shim_take_sleep.restype = ctypes.c_int64


def change(loader):
    iterator = loader._MultiProcessingDataLoaderIter
    begin, reset = iterator.__init__, iterator._reset
    put_index, process_data = iterator._try_put_index, iterator._process_data
    worker_module = loader._utils.worker
    work = worker_module._worker_loop
    opened = []
    loaders = []  # by number; that of one that has ended is given to the next

    class Telling:
        def __init__(self, queue, pipe):
            self.queue, self.pipe = queue, pipe

        def put(self, answer, *rest, **named):
            if isinstance(answer[0], int):
                ended = isinstance(answer[1], worker_module._IterableDatasetStopIteration)
                os.write(self.pipe, struct.pack("=qq", shim.prism_shim_take_sleep(), ended))
            self.queue.put(answer, *rest, **named)

        def __getattr__(self, name):
            return getattr(self.queue, name)

    def is_open(iterator):
        return iterator is not None and not getattr(iterator, "_shutdown", False)

    def work_and_tell(dataset_kind, dataset, index_queue, data_queue, *rest, **named):
        if opened:
            shim.prism_shim_begin_worker()
            data_queue = Telling(data_queue, opened[1])
        return work(dataset_kind, dataset, index_queue, data_queue, *rest, **named)

    def begin_and_listen(self, of, *rest, **named):
        self._prism_pipe, self._prism_ended, self._prism_number = None, set(), 0
        self._prism_sleeps = collections.deque()  # for batches that were not taken
        while self._prism_number < len(loaders) and is_open(loaders[self._prism_number]()):
            self._prism_number += 1
        loaders[self._prism_number:self._prism_number + 1] = [weakref.ref(self)]
        context = of.multiprocessing_context or loader.torch.multiprocessing
        if context.get_start_method() == "fork":
            opened.extend(os.pipe())
            self._prism_pipe = opened[0]
            weakref.finalize(self, os.close, opened[0])
        else:
            shim.prism_shim_count(b"loader_time_unknown")
        try:
            begin(self, of, *rest, **named)
        finally:
            if opened:
                os.close(opened[1])
                opened.clear()

    def reset_and_listen(self, *rest, **named):
        if "_prism_pipe" not in vars(self):  # its beginning is what loads the observer
            shim.prism_shim_count(b"loader_time_unknown")
        self._prism_ended = set()
        self._prism_sleeps = collections.deque()
        reset(self, *rest, **named)

    def put_and_listen(self):
        asked = self._send_idx
        put_index(self)
        if self._prism_pipe is None or self._send_idx == asked:
            return
        worker = self._task_info[asked][0]
        if worker in self._prism_ended:
            return
        told = os.read(self._prism_pipe, 16)
        if len(told) < 16:  # all workers have ended
            self._prism_pipe = None
            return
        slept, ended = struct.unpack("=qq", told)
        if ended:
            self._prism_ended.add(worker)
        else:
            self._prism_sleeps.append(slept)

    def take_data(self, data, *rest):
        taken = process_data(self, data, *rest)
        sleeps = self._prism_sleeps
        if sleeps:
            own = sleeps.popleft()
            following = sleeps[0] if sleeps else own
            if following > 0:
                shim.prism_shim_take_batch(self._prism_number,
                                           ctypes.c_int64(following // self._num_workers))
        return taken

    iterator._prism_pipe, iterator._prism_number = None, 0
    worker_module._worker_loop = work_and_tell
    iterator.__init__, iterator._reset = begin_and_listen, reset_and_listen
    iterator._try_put_index, iterator._process_data = put_and_listen, take_data


when_imported("torch.utils.data.dataloader", change)
)";

}  // namespace

void TimeLoaderWorkers() {
  if (RunPythonChanges(kSource, "prism_loader_workers") == PythonRun::kFailed) {
    Count("loader_time_unknown");
  }
}

bool SleepAsWorker(int64_t duration_ns) {
  slept_ns += is_worker && duration_ns > 0 ? duration_ns : 0;
  return is_worker;
}

}  // namespace prism::shim

extern "C" {

// In a worker's process, by its main thread.
void prism_shim_begin_worker() {
  prism::shim::is_worker = true;
}

int64_t prism_shim_take_sleep() {
  const int64_t slept_ns = prism::shim::slept_ns;
  prism::shim::slept_ns = 0;
  return slept_ns;
}

// The rank takes a batch: it waits for it, and the loader then works that long for the next one.
void prism_shim_take_batch(uint32_t loader, int64_t duration_ns) {
  const prism::shim::StreamObject* const stream = prism::shim::StreamOf(loader);
  if (stream == nullptr) {
    return;
  }
  prism::channel::Record wait = {};
  wait.kind = prism::channel::RecordKind::kSync;
  wait.stream = stream->index;
  wait.sync.kind = prism::channel::SyncKind::kStream;
  prism::shim::Request(wait);
  prism::channel::Record work = {};
  work.kind = prism::channel::RecordKind::kHostGap;
  work.flags = prism::channel::kLaunchedWithPrevious;
  work.stream = stream->index;
  work.host_gap.duration_ns = duration_ns;
  prism::shim::Emit(work);
}
}
