"""Every sample that PyTorch ships for its pooling operators: equal results, indices and gradients, and its errors."""

from __future__ import annotations

import re
import warnings

import pytest
import torch
from torch.testing import assert_close
from torch_cases import DEVICE

import ndpool.torch.functional as ours

with warnings.catch_warnings():
    # PyTorch's own test helpers use what PyTorch has deprecated.
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

OPERATORS = {
    (info.name.removeprefix("nn.functional."), info.variant_test_name): info
    for info in op_db
    if "pool" in info.name and info.name.startswith("nn.functional.") and "fractional" not in info.name
}
CASES = [(*name, dtype) for name, info in OPERATORS.items() for dtype in sorted(info.supported_dtypes(DEVICE), key=str)]
#: Where an average rounds once and PyTorch more often, or in another order.
TOLERANCE = {
    torch.float16: {"rtol": 2e-3, "atol": 2e-3},
    torch.bfloat16: {"rtol": 2e-2, "atol": 2e-2},
    torch.float32: {"rtol": 1e-5, "atol": 1e-5},
    torch.float64: {"rtol": 1e-12, "atol": 1e-12},
}


def as_tuple(outputs):
    return outputs if isinstance(outputs, tuple) else (outputs,)


def leaf(x):
    return x.detach().clone(memory_format=torch.preserve_format).requires_grad_(x.is_floating_point())


def compare(name, sample, exact):
    """Outputs, and the gradients of the floating ones for a random cotangent, from both sides."""
    mine, theirs = leaf(sample.input), leaf(sample.input)
    got = as_tuple(getattr(ours, name)(mine, *sample.args, **sample.kwargs))
    want = as_tuple(getattr(torch.nn.functional, name)(theirs, *sample.args, **sample.kwargs))
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        if exact or not a.is_floating_point():
            assert a.dtype == b.dtype
            assert torch.equal(a, b)
        else:
            assert_close(a, b, **TOLERANCE[mine.dtype])
    if mine.requires_grad:
        g = torch.randn(want[0].shape, dtype=torch.float32).to(mine.dtype)
        got[0].backward(g)
        want[0].backward(g)
        assert_close(mine.grad, theirs.grad, **TOLERANCE[mine.dtype])


@pytest.mark.parametrize(("name", "variant", "dtype"), CASES, ids=lambda value: str(value).removeprefix("torch."))
def test_samples(name, variant, dtype):
    torch.manual_seed(0)
    exact = "max" in name or not dtype.is_floating_point
    count = 0
    for sample in OPERATORS[name, variant].sample_inputs(DEVICE, dtype):
        compare(name, sample, exact)
        count += 1
    assert count


ERRORS = [
    pytest.param(name[0], error.sample_input, id=f"{name[0]}-{number}")
    for name, info in OPERATORS.items()
    if info.error_inputs_func
    for number, error in enumerate(info.error_inputs(DEVICE))
]


@pytest.mark.parametrize(("name", "sample"), ERRORS)
def test_errors(name, sample):
    with pytest.raises((ValueError, TypeError)) as raised:
        getattr(ours, name)(sample.input, *sample.args, **sample.kwargs)
    message = str(raised.value)
    assert re.search(r"; (give|use|call) \w|, or (give|use|call) \w", message), message
    assert re.search(r"\d|\bgot\b|\bhas\b", message), message  # what was received
