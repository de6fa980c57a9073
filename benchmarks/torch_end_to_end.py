"""Pooling where it works: its share of networks in PyTorch, a training step and inference, and a call on a tiny tensor.

    python -m benchmarks.torch_end_to_end [--quick] [--threads N] [--output FOLDER]

The contenders are plain PyTorch, PyTorch compiled by `torch.compile`, and ndpool; they take turns and the best time of
each is kept. The results of all are compared before any is timed. The tables are written into benchmarks/results/, as
Markdown and as JSON.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import ndpool.torch.functional as ours
from ndpool.torch import convert

from . import torch_overhead
from .measure import best_times
from .peers import Contender
from .report import cpu_model, plural

RESULTS = Path(__file__).parent / "results"
CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
theirs = torch.nn.functional


@dataclass(frozen=True)
class Op:
    """One pooling operation of a network, on the tensor that it gets there."""

    name: str
    function: str
    arguments: tuple[Any, ...]
    shape: tuple[int, ...]
    channels_last: bool = False
    goal: float | None = None  # how many times as fast as PyTorch a training step should be

    def input(self) -> torch.Tensor:
        x = torch.randn(self.shape)
        return x.to(memory_format=CHANNELS_LAST[x.dim()]) if self.channels_last else x


STEM, LEVEL, VOLUME = (8, 64, 112, 112), (4, 64, 128, 128), (2, 16, 48, 64, 64)
OPS = (
    Op("ResNet-50 stem, max 3/2", "max_pool2d", (3, 2, 1), STEM, goal=8),
    Op("ResNet-50 stem, max 3/2, channels last", "max_pool2d", (3, 2, 1), STEM, True, goal=1.3),
    Op("U-Net level, max 2/2", "max_pool2d", (2,), LEVEL, goal=8),
    Op("U-Net level, max 2/2, channels last", "max_pool2d", (2,), LEVEL, True, goal=1.3),
    Op("U-Net level, avg 2/2", "avg_pool2d", (2,), LEVEL),
    Op("3-D network, max 2/2", "max_pool3d", (2,), VOLUME, goal=8),
    Op("3-D network, max 3/2, channels last", "max_pool3d", (3, 2, 1), VOLUME, True, goal=1.3),
)


def step(function: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, training: bool) -> Callable[[], Any]:
    """One inference, or one forward and backward for a random cotangent, as a function of nothing."""
    if not training:
        return torch.inference_mode()(lambda: function(x))
    leaf = x.detach().requires_grad_()
    g = torch.randn_like(function(x))
    return lambda: torch.autograd.grad(function(leaf), leaf, g)[0]


def contenders(op: Op, training: bool) -> dict[str, Callable[[], Any]]:
    """What computes the operation, after a check that all compute the same."""
    torch.compiler.reset()  # every case is compiled for itself, and for its own shape
    mine, plain = getattr(ours, op.function), getattr(theirs, op.function)
    functions = {
        "ndpool": lambda x: mine(x, *op.arguments),
        "PyTorch": lambda x: plain(x, *op.arguments),
        "compiled PyTorch": torch.compile(lambda x: plain(x, *op.arguments), fullgraph=True),
    }
    x = op.input()
    works = {}
    for name, function in functions.items():
        torch.manual_seed(0)
        works[name] = step(function, x, training)
    expected = works["PyTorch"]()
    for work in works.values():
        torch.testing.assert_close(work(), expected, rtol=1e-5, atol=1e-5)
    return works


# --- whole networks -------------------------------------------------------------------------------


def resnet_stem() -> torch.nn.Module:
    """The first layers of a ResNet-50, up to the pool."""
    convolution = torch.nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
    return torch.nn.Sequential(convolution, torch.nn.BatchNorm2d(64), torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, 1))


def unet_level() -> torch.nn.Module:
    """One level of a U-Net on its way down."""
    layers: list[torch.nn.Module] = []
    for channels in (32, 64):
        layers += [torch.nn.Conv2d(channels, 64, 3, padding=1), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.MaxPool2d(2))


def volume_network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Conv3d(1, 16, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool3d(2))


NETWORKS: dict[str, tuple[Callable[[], torch.nn.Module], tuple[int, ...]]] = {
    "ResNet-50 stem": (resnet_stem, (8, 3, 224, 224)),
    "U-Net level": (unet_level, (4, 32, 128, 128)),
    "3-D network": (volume_network, (2, 1, 48, 64, 64)),
}


def networks(name: str, channels_last: bool, training: bool) -> dict[str, Callable[[], Any]]:
    """The network with PyTorch's pool, with ndpool's, and with none: the difference to the last is the pool's share."""
    torch.compiler.reset()
    make, shape = NETWORKS[name]
    torch.manual_seed(0)
    plain, x = make().train(training), torch.randn(shape)
    if channels_last:
        plain, x = plain.to(memory_format=CHANNELS_LAST[x.dim()]), x.to(memory_format=CHANNELS_LAST[x.dim()])
    mine, without = copy.deepcopy(plain), copy.deepcopy(plain)
    convert(mine)
    without[-1] = torch.nn.Identity()
    torch.testing.assert_close(copy.deepcopy(mine)(x), copy.deepcopy(plain)(x))
    models = {"ndpool": mine, "PyTorch": plain, "compiled PyTorch": torch.compile(plain), "no pool": without}
    return {name: network_step(model, x, training) for name, model in models.items()}


def network_step(model: Any, x: torch.Tensor, training: bool) -> Callable[[], Any]:
    if not training:
        return torch.inference_mode()(lambda: model(x))

    def train() -> None:
        model.zero_grad()
        model(x).sum().backward()

    return train


# --- the report -----------------------------------------------------------------------------------


def measure(works: dict[str, Callable[[], Any]], budget_s: float) -> dict[str, float]:
    for work in works.values():
        work()  # compiled code is compiled here at the latest
    return best_times({name: Contender(work, tuple, "") for name, work in works.items()}, budget_s)


def measure_all(budget_s: float) -> list[dict[str, Any]]:
    records = []
    for training in (True, False):
        for op in OPS:
            seconds = measure(contenders(op, training), budget_s)
            records.append({"case": op.name, "training": training, "goal": goal(op, training), "seconds": seconds})
            print(line(records[-1]), flush=True)
        for name, channels_last in itertools.product(NETWORKS, (False, True)):
            seconds = measure(networks(name, channels_last, training), budget_s)
            case = f"whole {name}" + ", channels last" * channels_last
            records.append({"case": case, "training": training, "goal": None, "seconds": seconds})
            print(line(records[-1]), flush=True)
    return records


def goal(op: Op, training: bool) -> str | None:
    """The target that the case is held to, in words."""
    return f"≥ {op.goal:g} x as fast as PyTorch" if op.goal and training else None


def met(record: dict[str, Any]) -> str:
    if record["goal"] is None:
        return "—"
    gain = record["seconds"]["PyTorch"] / record["seconds"]["ndpool"]
    number = float(record["goal"].split()[1])
    return f"{record['goal']}: {'met' if gain >= number else 'missed'}"


def line(record: dict[str, Any]) -> str:
    """One row of the table: our time, the others' in multiples of it, the pool's share of a network, the target."""
    seconds = record["seconds"]
    mine = seconds["ndpool"]
    ratios = [f"{seconds[name] / mine:.2f} x" for name in ("PyTorch", "compiled PyTorch")]
    share = "—"
    if "no pool" in seconds:
        shares = (max(0.0, 1 - seconds["no pool"] / seconds[name]) for name in ("PyTorch", "ndpool"))
        share = "{:.0%} → {:.0%}".format(*shares)
    work = "training step" if record["training"] else "inference"
    cells = [record["case"], work, f"{mine * 1e3:.2f} ms", *ratios, share, met(record)]
    return "| " + " | ".join(cells) + " |"


def report(records: list[dict[str, Any]], threads: int) -> str:
    head = [
        "# Pooling in PyTorch\n",
        f"{cpu_model()}, {plural(threads)}; PyTorch {torch.__version__}.\n",
        "A peer's column says how many times ndpool's time it takes. The share is the part of a network's time that "
        "its pool takes, with PyTorch's pool and with ndpool's, from the time of the network without one.\n",
        "| case | work | ndpool | PyTorch | compiled PyTorch | share of the pool | target |",
        "|---|---|---|---|---|---|---|",
    ]
    return "\n".join([*head, *map(line, records), ""])


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torch_end_to_end", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions: less precise")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads(), help="default: %(default)s")
    parser.add_argument("--output", default=RESULTS, type=Path, metavar="FOLDER", help="default: %(default)s")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    records = measure_all(budget_s=0.05 if options.quick else 0.5)
    torch.set_num_threads(1)
    calls = torch_overhead.measure_all(budget_s=0.02 if options.quick else 0.2)
    options.output.mkdir(parents=True, exist_ok=True)
    results = json.dumps({"networks": records, "calls": calls}, indent=1, ensure_ascii=False)
    (options.output / "torch.json").write_text(results + "\n")
    (options.output / "torch.md").write_text(report(records, options.threads) + "\n" + torch_overhead.report(calls))
    print(f"See torch.md and torch.json in {options.output}.")


if __name__ == "__main__":
    main()
