#include "shim/observer/compiled_kernels.h"

#include "shim/python_code.h"
#include "shim/session.h"

namespace prism::shim {
namespace {

// A kernel's arguments are tensors and, by name, how many elements it goes over in each dimension:
// it reads no more than those of a larger tensor (a table, of which it picks rows). One that is
// updated in place is listed twice, as replayer/cost/kernel_rules.h wants it. In AOTInductor's
// programs no Python launches kernels; they keep the region's tensors.
constexpr char kSource[] = R"(
import ctypes
import struct

shim = ctypes.CDLL(None)
TYPES = {"bool": 1, "int8": 2, "uint8": 3, "int16": 4, "int32": 5, "int64": 6, "float8_e4m3fn": 7,
         "float8_e5m2": 7, "float16": 8, "bfloat16": 9, "float32": 10, "float64": 11}


def describe(name, tensors, sizes):
    elements = 1
    for size in sizes:
        elements *= size
    described = b""
    count = 0
    for argument, dtype, dims in tensors:
        total = 1
        for size in dims:
            total *= size
        if sizes and total > elements:
            dims = (elements,)
        one = struct.pack(f"=BB{len(dims)}q", TYPES.get(dtype, 0), len(dims), *dims)
        times = 2 if argument.startswith("in_out") else 1
        described += one * times
        count += times
    name = ("fused::" + name).encode()[:256]
    payload = struct.pack("=HH", len(name), count) + name + described
    return shim.prism_shim_define(2, payload, len(payload))


def change(heuristics):
    autotuner = heuristics.CachingAutotuner
    run = autotuner.run
    contexts = {}

    def run_described(self, *args, **kwargs):
        given = list(zip(self.fn.arg_names, args))
        tensors = tuple((name, str(value.dtype)[6:], tuple(value.shape)) for name, value in given
                        if hasattr(value, "dtype") and hasattr(value, "shape"))
        sizes = tuple(value for name, value in given if "numel" in name and isinstance(value, int))
        name = self.fn.__name__
        key = (name, tensors, sizes)
        if key not in contexts:
            contexts[key] = describe(name, tensors, sizes)
        before = shim.prism_shim_context()
        shim.prism_shim_set_context(contexts[key])
        try:
            return run(self, *args, **kwargs)
        finally:
            shim.prism_shim_set_context(before)

    autotuner.run = run_described


when_imported("torch._inductor.runtime.triton_heuristics", change)
)";

}  // namespace

void DescribeCompiledKernels() {
  if (RunPythonChanges(kSource, "prism_compiled_kernels") == PythonRun::kFailed) {
    Count("compiled_kernels_not_described");
  }
}

}  // namespace prism::shim
