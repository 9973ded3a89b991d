"""Asks the driver for calls by their names, as cuda.bindings does, and makes them."""
import ctypes

import torch

torch.cuda.init()
driver = ctypes.CDLL("libcuda.so.1")


def call(name, *arguments):
    found, status = ctypes.c_void_p(), ctypes.c_int()
    driver.cuGetProcAddress_v2(name.encode(), ctypes.byref(found), 13000, ctypes.c_uint64(0),
                               ctypes.byref(status))
    return ctypes.CFUNCTYPE(ctypes.c_int)(found.value)(*arguments)


device = ctypes.c_int(-1)
print("synchronize", call("cuCtxSynchronize"))
print("device", call("cuCtxGetDevice", ctypes.byref(device)), device.value)
