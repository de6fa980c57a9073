"""Handwritten digits with a small CNN, built once with layers and once as a graph: the same numbers, to the bit.

The two start from the same weights and see the same batches; at every step their losses are compared. It ends in a
picture: how the loss fell, and for a few held-out digits what the first pooling kept of them.

    python examples/digits.py [--epochs 15] [--picture build/digits.png]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from tqdm import tqdm

from ndpool import Graph
from ndpool.graph import Var
from ndpool.layers import (
    Adam,
    Conv2D,
    CrossEntropyLoss,
    Dense,
    Flatten,
    MaxPool2D,
    Parameter,
    ReLU,
    Sequential,
)
from ndpool.program import Program

BATCH = 32


def data() -> list[np.ndarray]:
    """Images `[n, 1, 8, 8]` from 0 to 1 to learn from and held out, then the labels of both."""
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    return train_test_split(images, labels, test_size=0.25, random_state=0, stratify=labels)


# --- the network, twice ---------------------------------------------------------------------------


def by_layers(rng: np.random.Generator) -> Sequential:
    return Sequential(
        Conv2D(1, 16, 3, padding="same", rng=rng),
        ReLU(),
        MaxPool2D(2, 2),
        Conv2D(16, 32, 3, padding="same", rng=rng),
        ReLU(),
        MaxPool2D(2, 2),
        Flatten(),
        Dense(32 * 2 * 2, 10, rng=rng),
    )


def by_graph(batch: int, parameters: Sequence[Parameter]) -> tuple[Graph, Var]:
    """The same in a graph for so many images: its inputs are the images and the parameters; gives the logits."""
    g = Graph()
    x = g.input((batch, 1, 8, 8), name="x", dtype=np.float32)
    w1, b1, w2, b2, w3, b3 = (
        g.input(p.value.shape, name=name, dtype=np.float32)
        for name, p in zip(("w1", "b1", "w2", "b2", "w3", "b3"), parameters, strict=True)
    )
    h = g.max_pool2d(g.relu(g.conv(x, w1, b1, padding="same")), 2)
    h = g.max_pool2d(g.relu(g.conv(h, w2, b2, padding="same")), 2)
    return g, g.linear(g.flatten(h), w3, b3, name="logits")


def loss_program(batch: int, parameters: Sequence[Parameter]) -> Program:
    g, logits = by_graph(batch, parameters)
    return g.build(g.cross_entropy(logits, g.input((batch,), name="labels", dtype=np.int64), name="loss"))


# --- training both, side by side ------------------------------------------------------------------


class ByLayers:
    """One training step with the layers."""

    def __init__(self, model: Sequential) -> None:
        self.model, self.loss = model, CrossEntropyLoss()
        self.optimizer = Adam(model.parameters(), lr=2e-3)

    def step(self, x: np.ndarray, labels: np.ndarray) -> float:
        value = self.loss(self.model(x), labels)
        self.model.backward(self.loss.backward())
        self.optimizer.step()
        return float(value)


class ByGraph:
    """One training step with the graph."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self.parameters = [Parameter(p.name, p.value) for p in parameters]
        self.program = loss_program(BATCH, self.parameters)
        self.optimizer = Adam(self.parameters, lr=2e-3)

    def step(self, x: np.ndarray, labels: np.ndarray) -> float:
        value, (_, *gradients, _) = self.program.value_and_grad(x, *(p.value for p in self.parameters), labels)
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        self.optimizer.step()
        return float(value)

    def logits(self, x: np.ndarray) -> np.ndarray:
        g, logits = by_graph(len(x), self.parameters)
        return g.build(logits)(x, *(p.value for p in self.parameters))


def train(layers: ByLayers, graph: ByGraph, x: np.ndarray, labels: np.ndarray, epochs: int) -> list[float]:
    """The losses, which the two must agree on."""
    rng = np.random.default_rng(1)
    batches = len(x) // BATCH
    losses: list[float] = []
    with tqdm(total=epochs * batches, desc="digits", unit="step") as bar:
        for _ in range(epochs):
            order = rng.permutation(len(x))
            for chosen in order[: batches * BATCH].reshape(batches, BATCH):
                first, second = layers.step(x[chosen], labels[chosen]), graph.step(x[chosen], labels[chosen])
                if first != second:
                    raise AssertionError(f"step {len(losses)}: loss {first} by layers and {second} by the graph")
                losses.append(first)
                bar.set_postfix(loss=f"{first:.3f}")
                bar.update()
    return losses


# --- the picture ----------------------------------------------------------------------------------


def draw(model: Sequential, losses: list[float], x: np.ndarray, path: Path) -> None:
    """The loss, and for three digits: the digit, its strongest feature map with the winners marked, what is left."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    conv, relu, pool = model.train().layers[:3]
    maps = relu(conv(x[:3]))
    pooled = pool(maps)
    winners = pool.mask().reshape(*pooled.shape, 2)
    figure, axes = plt.subplots(3, 4, figsize=(11, 7.5), layout="constrained", width_ratios=[1.6, 1, 1, 1])
    grid = axes[0, 0].get_gridspec()
    for axis in axes[:, 0]:
        axis.remove()
    curve = figure.add_subplot(grid[:, 0])
    curve.semilogy(losses, lw=0.8)
    curve.set(title="loss", xlabel="step")
    for i, row in enumerate(axes[:, 1:]):
        channel = int(maps[i].sum((1, 2)).argmax())
        row[0].imshow(x[i, 0], cmap="gray_r")
        row[1].imshow(maps[i, channel], cmap="viridis")
        row[1].scatter(*winners[i, channel].reshape(-1, 2).T[::-1], s=40, facecolors="none", edgecolors="red")
        row[2].imshow(pooled[i, channel], cmap="viridis")
        for axis, title in zip(row, ("digit", f"feature {channel}, winners", "what the pooling kept"), strict=True):
            axis.set(title=title, xticks=[], yticks=[])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(epochs: int = 15, picture: str | Path = "build/digits.png") -> float:
    """Train both, compare, test on the held-out digits, draw; gives the accuracy."""
    x, held_out, labels, held_out_labels = data()
    model = by_layers(np.random.default_rng(0))
    graph = ByGraph(model.parameters())
    print(graph.program)
    start = time.perf_counter()
    losses = train(ByLayers(model), graph, x, labels, epochs)
    seconds = time.perf_counter() - start
    logits = model.eval()(held_out)
    same = np.array_equal(logits, graph.logits(held_out))
    score = float(np.mean(logits.argmax(-1) == held_out_labels))
    draw(model, losses, held_out, Path(picture))
    print(f"layers and graph: {len(losses)} equal losses, logits {'equal to the bit' if same else 'DIFFERENT'}")
    print(f"{100 * score:.2f} % of {len(held_out)} held-out digits; both trained in {seconds:.1f} s; see {picture}")
    return score


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=15)
    parser.add_argument("--picture", default="build/digits.png")
    main(**vars(parser.parse_args()))
