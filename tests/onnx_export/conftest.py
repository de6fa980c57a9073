"""The suite that needs onnx, onnxscript and onnxruntime: `make test-onnx`. A plain `make test` does not come here."""

from __future__ import annotations

import logging

import pytest
import torch

#: What the exporters warn of themselves.
IGNORED = [
    "ignore:You are using the legacy TorchScript-based ONNX export:DeprecationWarning",
    "ignore:The feature will be removed:DeprecationWarning",
    "ignore:`torch.jit.*` is deprecated:DeprecationWarning",
    "ignore:.*LeafSpec.* is deprecated:FutureWarning",
    "ignore:.*:DeprecationWarning:onnxscript.*",
    "ignore:Saving ONNX model to a BytesIO object is deprecated:DeprecationWarning",
]


def pytest_collection_modifyitems(items):
    for item in items:
        for ignored in IGNORED:
            item.add_marker(pytest.mark.filterwarnings(ignored))


@pytest.fixture(autouse=True)
def _quiet_and_repeatable():
    torch.manual_seed(0)
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)
