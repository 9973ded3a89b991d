"""Holds of shim/gpu and kernels of known occupancy, by libprism_probe.so."""
import ctypes

MEANS = ["kernel", "wait_value", "host_callback"]


class KnownCopy(ctypes.Structure):
    _fields_ = [("source", ctypes.c_uint64), ("target", ctypes.c_uint64),
                ("bytes", ctypes.c_uint64), ("duration_ns", ctypes.c_uint64),
                ("blocks", ctypes.c_uint32)]


class Probe:
    def __init__(self, path, means="kernel"):
        self.library = ctypes.CDLL(str(path))
        self.library.prism_probe_open.restype = ctypes.c_char_p
        self.library.prism_probe_next.restype = ctypes.c_int64
        self.library.prism_probe_release.restype = ctypes.c_uint64
        self.library.prism_probe_launch_seconds.restype = ctypes.c_double
        error = self.library.prism_probe_open(MEANS.index(means))
        if error is not None:
            raise RuntimeError(f"no holds by {means}: {error.decode()}")
        kernels = path.parent / "known_kernels.fatbin"
        self.check(self.library.prism_probe_load(str(kernels).encode()), "known kernels")
        self.sequence = {}

    @staticmethod
    def check(code, what):
        if code != 0:
            raise RuntimeError(f"{what}: error {code} of the driver")

    def close(self):
        self.library.prism_probe_close()

    def hold(self, stream, hold_stream=0, blocks=24, kernel=b"prism_hold_allreduce", bytes_per_us=0):
        code = self.library.prism_probe_hold(kernel, hold_stream, blocks,
                                             ctypes.c_void_p(stream.cuda_stream),
                                             ctypes.c_uint64(bytes_per_us))
        if code != 0:
            raise RuntimeError("the driver refuses a hold")

    def capture(self, stream, hold_stream=0, blocks=24):
        return self.library.prism_probe_capture(b"prism_hold_allreduce", hold_stream, blocks,
                                                ctypes.c_void_p(stream.cuda_stream)) == 0

    def count(self, hold_stream=0):
        self.library.prism_probe_count(hold_stream)

    def next(self, hold_stream=0):
        """The time of what happens next; negative when it is an end."""
        return self.told(self.library.prism_probe_next(hold_stream))

    def told(self, time_ns):
        if time_ns == 0:
            self.abort()
            raise RuntimeError("the hold neither began nor ended within 5 s")
        return time_ns

    def release(self, length_ns, hold_stream=0):
        """Waits for the next hold of the stream to begin, which ends so long after that: when."""
        sequence = self.sequence.get(hold_stream, 0)
        self.sequence[hold_stream] = sequence + 1
        time_ns = self.library.prism_probe_release(hold_stream, ctypes.c_uint64(sequence),
                                                   ctypes.c_uint64(length_ns))
        return self.told(time_ns)

    def abort(self):
        self.library.prism_probe_abort()

    def copy(self, source, target, blocks, duration_ns, stream):
        copy = KnownCopy(source.data_ptr(), target.data_ptr(),
                         source.numel() * source.element_size(), duration_ns, blocks)
        self.check(self.library.prism_probe_copy(
            ctypes.byref(copy), ctypes.c_void_p(stream.cuda_stream)), "copy kernel")

    def timer(self, times, stream):
        self.check(self.library.prism_probe_timer(
            ctypes.c_uint64(times.data_ptr()), times.numel(), ctypes.c_void_p(stream.cuda_stream)),
            "timer kernel")

    def launch_seconds(self, count, stream):
        """Host seconds of a launch of a kernel that does nothing, mean of so many."""
        seconds = self.library.prism_probe_launch_seconds(count, ctypes.c_void_p(stream.cuda_stream))
        if seconds < 0:
            raise RuntimeError("the driver refuses a launch")
        return seconds
