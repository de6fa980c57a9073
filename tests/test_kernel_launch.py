"""Launches of kernels by a driver, for which a function of Python stands in: what it is handed, to the byte."""

from __future__ import annotations

import ctypes

import pytest

from ndpool._engine import CudaTensors, KernelLaunch


class Attribute(ctypes.Structure):
    """CUlaunchAttribute: the value is a union of 64 bytes."""

    _fields_ = (("id", ctypes.c_int), ("padding", ctypes.c_int), ("on", ctypes.c_int), ("rest", ctypes.c_char * 60))


class Configuration(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        *((name, ctypes.c_uint) for name in ("x", "y", "z", "threads", "threads_y", "threads_z", "shared")),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint),
    )


SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.POINTER(Configuration), ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p
)


class Driver:
    """Keeps the numbers of the last launch, and the eight bytes that each of its first parameters points to."""

    def __init__(self, parameters: int, answer: int = 0) -> None:
        def launch(configuration, function, given, extra):
            how = configuration.contents
            sides = how.x, how.y, how.z, how.threads, how.threads_y, how.threads_z
            self.numbers, self.stream, self.extra = (function, *sides, how.shared), how.stream, extra
            self.attributes = [(how.attributes[i].id, how.attributes[i].on) for i in range(how.count)]
            self.given = [ctypes.c_int64.from_address(given[i]).value for i in range(parameters)]
            return answer

        self.function = SIGNATURE(launch)
        self.address = ctypes.cast(self.function, ctypes.c_void_p).value


def test_a_launch_hands_over_addresses_numbers_and_nothing_else():
    driver = Driver(parameters=8)
    launch = KernelLaunch(driver.address, 77, (3, 4, 5), 128, 2048, [2, 0], [(7, 4), (2**40, 8)])
    assert launch.run(99, [1600, 3200, 4800]) == 0
    assert driver.numbers == (77, 3, 4, 5, 128, 1, 1, 2048)
    assert (driver.stream, driver.extra) == (99, None)
    assert driver.given == [4800, 1600, 7, 2**40, 0, 0, 0, 0]
    assert driver.attributes == []


def test_a_kernel_that_follows_says_so():
    driver = Driver(parameters=1)
    assert KernelLaunch(driver.address, 1, (1, 1, 1), 32, 0, [0], [], follows=True).run(0, [16]) == 0
    assert driver.attributes == [(6, 1)]  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


def test_the_drivers_answer_comes_back():
    assert KernelLaunch(Driver(1, answer=201).address, 1, (1, 1, 1), 32, 0, [0], []).run(0, [16]) == 201


@pytest.mark.parametrize("address", [0, 8, 17])
def test_a_tensor_that_starts_within_a_vector_is_not_taken(address):
    driver = Driver(parameters=1)
    assert KernelLaunch(driver.address, 1, (1, 1, 1), 32, 0, [0], []).run(0, [address]) == -1
    assert not hasattr(driver, "numbers")


def test_a_tensor_that_is_missing_is_an_error():
    launch = KernelLaunch(Driver(1).address, 1, (1, 1, 1), 32, 0, [1], [])
    with pytest.raises(ValueError, match="there is no such tensor"):
        launch.run(0, [16])


@pytest.mark.parametrize(
    ("launcher", "function", "tensors", "numbers", "message"),
    [
        (0, 1, [0], [], "the address of the launcher or of the kernel is 0"),
        (16, 0, [0], [], "the address of the launcher or of the kernel is 0"),
        (16, 1, [0], [(1, 2)], "a number has 4 or 8 bytes"),
        (16, 1, [0] * 61, [], "too many arguments"),
    ],
)
def test_what_cannot_be_launched_is_refused(launcher, function, tensors, numbers, message):
    with pytest.raises(ValueError, match=message):
        KernelLaunch(launcher, function, (1, 1, 1), 32, 0, tensors, numbers)


def test_tensors_that_are_not_on_cuda_have_no_address_there():
    torch = pytest.importorskip("torch")
    tensors = CudaTensors(torch.Tensor, (2, 3), (3, 1), "float32")
    assert [tensors.address(x) for x in (torch.zeros(2, 3), torch.zeros(3, 2), None, "x")] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((int, (2,), (1,), "float32"), "the type shares no tensors in C"),
        ((int, (2,), (1, 1), "float32"), "a stride for each axis"),
        ((int, (2,), (1,), "float7"), "tensors have no type 'float7'"),
    ],
)
def test_layouts_that_no_tensor_has(arguments, message):
    with pytest.raises(ValueError, match=message):
        CudaTensors(*arguments)
