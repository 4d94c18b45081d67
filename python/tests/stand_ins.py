"""A GPU of stand-ins (tests/cuda_machine), for tests of what PyTorch would do on a real one.

PyTorch cannot use the stand-ins. Its part is played by a `Library`: tensors in the driver's memory, a stream on which
their copies stand, an allocator that gives memory out again at once, in the stream's order, as PyTorch's does, and a table
of DLPack's exchange functions, which says where each tensor is.
"""

from __future__ import annotations

import ctypes
import os
import pathlib

import tcc
import torch

LIBRARIES = pathlib.Path(tcc.__file__).parents[2] / "lib"
DRIVER = LIBRARIES / "libtcc_machine_cuda.so"
GPU = torch.device("cuda", 0)
CPU_TYPE, CUDA_TYPE = 1, 2  # of DLPack


def environment(words: str) -> dict[str, str]:
    """What makes tcc open the stand-ins; `words` say how the machine behaves."""
    return {"TCC_CUDA_DRIVER": str(DRIVER), "TCC_NVRTC": str(LIBRARIES / "libtcc_machine_nvrtc.so"),
            "TCC_CUBLASLT": str(LIBRARIES / "libtcc_machine_cublaslt.so"), "TCC_CUDA_MACHINE": words}


class Seen(ctypes.Structure):
    """DLTensor."""

    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device", ctypes.c_int32),
                ("rank", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("sizes", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("offset", ctypes.c_uint64)]


LOOK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(Seen))
STREAM = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))


class Exchange(ctypes.Structure):
    """DLPackExchangeAPI of version 1.2; what is not used is null."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("previous", ctypes.c_void_p),
                ("allocate", ctypes.c_void_p), ("keep", ctypes.c_void_p), ("to_python", ctypes.c_void_p),
                ("look", LOOK), ("stream", STREAM)]


class DeviceTensor:
    """Dense memory of the GPU."""

    def __init__(self, library: "Library", sizes, strides, dtype: torch.dtype):
        self.library, self.shape, self.strides, self.dtype = library, tuple(sizes), tuple(strides), dtype
        extent = 0 if 0 in self.shape else 1 + sum((n - 1) * step for n, step in zip(self.shape, self.strides))
        self.bytes = extent * dtype.itemsize
        self.address = library.take(self.bytes)
        self.device = GPU

    def __del__(self):
        self.library.give(self.address, self.bytes)

    def of_host(self) -> torch.Tensor:
        return torch.empty_strided(self.shape, self.strides, dtype=self.dtype)


class Library:
    """`words` say how the machine behaves."""

    def __init__(self):
        self.cuda = ctypes.CDLL(str(DRIVER))
        self.free: dict[int, list[int]] = {}  # addresses by bytes
        self.layouts: dict = {}               # of what was looked at last: DLPack refers to it
        context, self.stream = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.cuda.cuInit(0))
        self.check(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
        self.check(self.cuda.cuCtxSetCurrent(context))
        self.check(self.cuda.cuStreamCreate(ctypes.byref(self.stream), 1))
        self.table = Exchange(1, 2, None, None, None, None, LOOK(self.look), STREAM(self.current))
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        self.capsule = new(ctypes.addressof(self.table), b"dlpack_exchange_api", None)

    @staticmethod
    def check(code: int) -> None:
        if code:
            raise RuntimeError(f"the driver gives {code}")

    # Memory: as with PyTorch's allocator, who gets it next uses it after what stands on the stream already.

    def take(self, bytes_: int) -> int:
        if self.free.get(bytes_):
            return self.free[bytes_].pop()
        address = ctypes.c_uint64()
        self.check(self.cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(max(bytes_, 1))))
        return address.value

    def give(self, address: int, bytes_: int) -> None:
        self.free.setdefault(bytes_, []).append(address)

    # Tensors

    def allocate(self, sizes, strides, dtype) -> DeviceTensor:
        return DeviceTensor(self, sizes, strides, dtype)

    def to_gpu(self, tensor: torch.Tensor, strides=None) -> DeviceTensor:
        made = self.allocate(tensor.shape, tensor.stride() if strides is None else strides, tensor.dtype)
        host = made.of_host()
        once = tuple(slice(0, 1) if step == 0 else slice(None) for step in made.strides)
        host[once].copy_(tensor.detach()[once])
        if made.bytes:
            self.check(self.cuda.cuMemcpyHtoDAsync_v2(ctypes.c_uint64(made.address), ctypes.c_void_p(host.data_ptr()),
                                                      ctypes.c_size_t(made.bytes), self.stream))
        return made

    def to_host(self, tensor: DeviceTensor) -> torch.Tensor:
        host = tensor.of_host()
        if tensor.bytes:
            self.check(self.cuda.cuMemcpyDtoHAsync_v2(ctypes.c_void_p(host.data_ptr()), ctypes.c_uint64(tensor.address),
                                                      ctypes.c_size_t(tensor.bytes), self.stream))
        self.check(self.cuda.cuStreamSynchronize(self.stream))
        return host

    def copied(self, tensor, sizes, like=None):
        """What layouts.copied() is for PyTorch's tensors."""
        if sizes is None:
            with torch.no_grad():
                like.copy_(self.to_host(tensor))
            return like
        return self.to_gpu(tensor, like)

    # The table

    def look(self, object_, seen) -> int:
        tensor = ctypes.cast(object_, ctypes.py_object).value
        if not isinstance(tensor, (torch.Tensor, DeviceTensor)):
            return -1
        on_gpu = isinstance(tensor, DeviceTensor)
        from tcc.torch.layouts import dlpack_type
        strides = tensor.strides if on_gpu else tensor.stride()
        rank = len(tensor.shape)
        sizes, steps = (ctypes.c_int64 * rank)(*tensor.shape), (ctypes.c_int64 * rank)(*strides)
        self.layouts[object_] = sizes, steps
        code, bits = dlpack_type(tensor.dtype)
        seen[0] = Seen(tensor.address if on_gpu else tensor.data_ptr(), CUDA_TYPE if on_gpu else CPU_TYPE, 0, rank, code,
                       bits, 1, sizes, steps, 0)
        return 0

    def current(self, kind, number, stream) -> int:
        stream[0] = self.stream.value
        return 0 if (kind, number) == (CUDA_TYPE, 0) else -1


def missing() -> str:
    """Why the stand-ins cannot be used; empty where they can."""
    return "" if DRIVER.exists() else f"{DRIVER} is not built"


def set_environment(words: str) -> None:
    os.environ.update(environment(words))
