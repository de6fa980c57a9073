"""A classifier of signals: twice Conv1D -> ReLU -> MaxPool1D, 64 -> 60 -> 30 -> 28 -> 14, and a dense layer.

Sines, squares and sawtooths of random frequency and phase, in noise, are told apart. It ends in a picture: how the
loss fell, a signal of each class, and which of its places the first pooling kept.

    python examples/signals.py [--steps 300] [--picture build/signals.png]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
from tqdm import trange

from ndpool.layers import Adam, Conv1D, CrossEntropyLoss, Dense, Flatten, MaxPool1D, ReLU, Sequential

CLASSES = ("sine", "square", "sawtooth")
LENGTH, BATCH = 64, 32


def signals(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` noisy signals in one channel, `[count, 1, 64]`, and their classes."""
    labels = rng.integers(0, len(CLASSES), count)
    turns = rng.uniform(2, 5, (count, 1)) * np.linspace(0, 1, LENGTH) + rng.uniform(0, 1, (count, 1))
    sine = np.sin(2 * np.pi * turns)
    shapes = np.stack([sine, np.sign(sine), 2 * (turns % 1) - 1])
    noisy = shapes[labels, np.arange(count)] + 0.3 * rng.normal(size=(count, LENGTH))
    return noisy[:, None].astype(np.float32), labels


def network(rng: np.random.Generator) -> Sequential:
    return Sequential(
        Conv1D(1, 8, 5, rng=rng),  # 64 -> 60
        ReLU(),
        MaxPool1D(2),  # 60 -> 30
        Conv1D(8, 16, 3, rng=rng),  # 30 -> 28
        ReLU(),
        MaxPool1D(2),  # 28 -> 14
        Flatten(),
        Dense(16 * 14, len(CLASSES), rng=rng),
    )


def train(model: Sequential, rng: np.random.Generator, steps: int) -> list[float]:
    """The loss at each step, every one on new signals."""
    loss, optimizer = CrossEntropyLoss(), Adam(model.parameters(), lr=3e-3)
    losses = []
    for _ in (bar := trange(steps, desc="signals", unit="step")):
        x, labels = signals(rng, BATCH)
        losses.append(float(loss(model.train()(x), labels)))
        model.backward(loss.backward())
        optimizer.step()
        bar.set_postfix(loss=f"{losses[-1]:.3f}")
    return losses


def accuracy(model: Sequential, x: np.ndarray, labels: np.ndarray) -> float:
    return float(np.mean(model.eval()(x).argmax(-1) == labels))


def draw(model: Sequential, losses: list[float], rng: np.random.Generator, path: Path) -> None:
    """The loss, and for a signal of each class its strongest feature with the places that the first pooling kept."""
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    x, labels = signals(rng, 64)
    x = x[[int(np.flatnonzero(labels == c)[0]) for c in range(len(CLASSES))]]
    conv, relu, pool = model.train().layers[:3]
    features = relu(conv(x))
    pool(features)
    winners = pool.mask()
    figure, axes = plt.subplots(1, 1 + len(CLASSES), figsize=(16, 3.4), layout="constrained")
    axes[0].semilogy(losses)
    axes[0].set(title="loss", xlabel="step")
    for i, axis in enumerate(axes[1:]):
        channel = int(features[i].sum(-1).argmax())
        feature, kept = features[i, channel], winners[i, channel]
        # A place of the convolution sees five of the signal; it stands at the middle one.
        axis.plot(x[i, 0] + feature.max() + 2, color="black", lw=1, label="signal")
        axis.plot(np.arange(60) + 2, feature, color="tab:blue", lw=1, label="its strongest feature")
        axis.plot(kept + 2, feature[kept], ".", color="red", label="what the pooling kept")
        axis.set(title=CLASSES[i], yticks=[])
    figure.legend(*axes[1].get_legend_handles_labels(), loc="outside lower right", ncols=3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(steps: int = 300, picture: str | Path = "build/signals.png") -> float:
    """Train, test on new signals, draw; gives the accuracy."""
    rng = np.random.default_rng(0)
    model = network(rng)
    losses = train(model, rng, steps)
    score = accuracy(model, *signals(rng, 1000))
    draw(model, losses, rng, Path(picture))
    print(f"{100 * score:.1f} % of 1000 new signals are recognised; see {picture}")
    return score


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--picture", default="build/signals.png")
    main(**vars(parser.parse_args()))
