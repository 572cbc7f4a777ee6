"""The functions of the CUDA runtime that copy tensors to a GPU and back, called through ``ctypes``."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from functools import cache

from annotated_region.errors import BackendUnavailableError
from annotated_region.targets.installed_files import installed_files

__all__ = ["Buffer", "Cuda", "device_problem", "load_cuda"]

_WHEELS = ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu13", "nvidia-cuda-runtime-cu12")
_NAMES = ("libcudart.so.13", "libcudart.so.12", "libcudart.so")
_REMEDY = "install NVIDIA's driver, and pip install nvidia-cuda-runtime-cu12"

# Constants from the documentation of the CUDA runtime.
_HOST_TO_DEVICE, _DEVICE_TO_HOST, _DEVICE_TO_DEVICE = 1, 2, 3
_MULTIPROCESSORS, _MAJOR, _MINOR = 16, 75, 76


@dataclass(slots=True)
class Buffer:
    """GPU memory that grows on demand and never shrinks."""

    address: int = 0
    size: int = 0


@dataclass(slots=True)
class Cuda:
    """The CUDA runtime on one device.

    Attributes
    ----------
    runtime
        The loaded ``libcudart``.
    device
        The number of the device.
    stream
        The stream of all copies and engines.
    """

    runtime: ctypes.CDLL
    device: int = 0
    stream: int = field(default=0)

    def start(self) -> None:
        """Select the device for the calling thread, and create the stream if there is none."""
        self._call("cudaSetDevice", ctypes.c_int(self.device))
        if not self.stream:
            stream = ctypes.c_void_p()
            self._call("cudaStreamCreate", ctypes.byref(stream))
            self.stream = int(stream.value or 0)

    def reserve(self, buffer: Buffer, size: int) -> int:
        """The address of a buffer of at least `size` bytes."""
        if buffer.size < size or not buffer.address:
            if buffer.address:
                self._call("cudaFree", ctypes.c_void_p(buffer.address))
            address = ctypes.c_void_p()
            self._call("cudaMalloc", ctypes.byref(address), ctypes.c_size_t(max(size, 1)))
            buffer.address, buffer.size = int(address.value or 0), max(size, 1)
        return buffer.address

    def to_device(self, target: int, source: int, size: int) -> None:
        """Start a copy from host memory to the device."""
        self._copy(target, source, size, _HOST_TO_DEVICE)

    def to_host(self, target: int, source: int, size: int) -> None:
        """Start a copy from the device to host memory."""
        self._copy(target, source, size, _DEVICE_TO_HOST)

    def wait(self) -> None:
        """Wait until the stream is idle."""
        self._call("cudaStreamSynchronize", ctypes.c_void_p(self.stream))

    def name(self) -> str:
        """The compute capability and memory size of the device, which engines depend on."""
        major, minor, count = (self._attribute(number) for number in (_MAJOR, _MINOR, _MULTIPROCESSORS))
        return f"sm{major}{minor}-{count}"

    def count(self) -> int:
        """The number of devices."""
        found = ctypes.c_int()
        return found.value if self.runtime.cudaGetDeviceCount(ctypes.byref(found)) == 0 else 0

    def _attribute(self, number: int) -> int:
        value = ctypes.c_int()
        self._call(
            "cudaDeviceGetAttribute", ctypes.byref(value), ctypes.c_int(number), ctypes.c_int(self.device)
        )
        return value.value

    def _copy(self, target: int, source: int, size: int, kind: int) -> None:
        self._call(
            "cudaMemcpyAsync",
            ctypes.c_void_p(target),
            ctypes.c_void_p(source),
            ctypes.c_size_t(size),
            ctypes.c_int(kind),
            ctypes.c_void_p(self.stream),
        )

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self.runtime, name)(*arguments)
        if code:
            raise BackendUnavailableError(
                f"target 'tensorrt': {name} failed with CUDA's error {code} on device {self.device}"
            )


@cache
def load_cuda() -> ctypes.CDLL | None:
    """The library ``libcudart``, from a wheel or the system; None if there is none."""
    for name in (*_wheel_files(), *_NAMES):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _wheel_files() -> list[str]:
    return [
        str(file.locate())
        for wheel in _WHEELS
        for file in installed_files(wheel)
        if file.name.startswith("libcudart.so")
    ]


def device_problem() -> str | None:
    """Why no GPU can be used, with a remedy; None if one can."""
    library = load_cuda()
    if library is None:
        return f"the CUDA runtime is not installed; {_REMEDY}"
    return None if Cuda(library).count() else f"there is no NVIDIA GPU; {_REMEDY}"
