"""Asks the driver for calls by their names, as cuda.bindings does, and makes them."""
import ctypes

import torch

torch.cuda.init()
driver = ctypes.CDLL("libcuda.so.1")


def find(name, version):
    found, status = ctypes.c_void_p(), ctypes.c_int()
    driver.cuGetProcAddress_v2(name.encode(), ctypes.byref(found), version, ctypes.c_uint64(0),
                               ctypes.byref(status))
    return ctypes.CFUNCTYPE(ctypes.c_int)(found.value)


def call(name, version, *arguments):
    return find(name, version)(*arguments)


none = ctypes.c_void_p(0)
print("synchronize", call("cuCtxSynchronize", 12000), call("cuCtxSynchronize", 13000, none))
device, same = ctypes.c_int(-1), ctypes.c_int(-1)
print("device", call("cuCtxGetDevice", 12000, ctypes.byref(device)), device.value,
      call("cuCtxGetDevice", 13000, ctypes.byref(same), none), same.value)
context, green = ctypes.c_void_p(), ctypes.c_void_p(0xDEADBEEF)
print("stream", call("cuStreamGetCtx", 12050, none, ctypes.byref(context), ctypes.byref(green)),
      context.value is not None, green.value)
look_up, found, beside = find("cuGetProcAddress", 11030), ctypes.c_void_p(), ctypes.c_int(7)
print("look-up", look_up(b"cuInit", ctypes.byref(found), 12000, ctypes.c_uint64(0),
                         ctypes.byref(beside)), found.value is not None, beside.value)
