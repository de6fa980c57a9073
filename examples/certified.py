"""Handwritten digits that no small change can make another digit: certified for all inputs of a box, or refuted.

The CNN of `digits.py` is trained, and for held-out digits and several eps it is asked: does any image within eps of
this one, pixel by pixel, get another label? Projected gradient looks for one; interval bounds and crown show that
there is none. What is certified by intervals, what by crown, and what no attack refuted is drawn against eps.

    python examples/certified.py [--epochs 8] [--digits 40] [--picture build/certified.png] [--results FILE.json]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).parent))
import digits

EPSILONS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.08)


def trained(epochs: int) -> tuple[Any, tuple[np.ndarray, ...], np.ndarray, np.ndarray]:
    """The program that gives the logits of one image, its parameters, and the held-out images and labels."""
    x, held_out, labels, held_out_labels = digits.data()
    model = digits.by_layers(np.random.default_rng(0))
    learner, rng = digits.ByLayers(model), np.random.default_rng(1)
    for _ in tqdm(range(epochs), desc="training", unit="epoch"):
        order = rng.permutation(len(x))
        for start in range(0, len(x) - digits.BATCH + 1, digits.BATCH):
            chosen = order[start : start + digits.BATCH]
            learner.step(x[chosen], labels[chosen])
    parameters = model.parameters()
    g, logits = digits.by_graph(1, parameters)
    return g.build(logits), tuple(p.value for p in parameters), held_out, held_out_labels


def shares(
    program: Any, parameters: tuple[np.ndarray, ...], x: np.ndarray, labels: np.ndarray
) -> dict[str, list[float]]:
    """For each eps the share of digits that are robust by intervals, robust by crown, and not refuted.

    A digit that intervals certify is not asked again, nor is one that is refuted at a smaller eps.
    """
    found: dict[str, list[float]] = {"ibp": [], "crown": [], "not refuted": []}
    refuted = np.zeros(len(x), bool)
    for eps in tqdm(EPSILONS, desc="certifying", unit="eps"):
        by_intervals, by_crown = np.zeros(len(x), bool), np.zeros(len(x), bool)
        for k in np.flatnonzero(~refuted):
            asked = ((x[k : k + 1], *parameters), eps, int(labels[k]))
            first = program.certify(*asked, clip=(0.0, 1.0), method="ibp", steps=10)
            if first.verdict == "counterexample":
                refuted[k] = True
                continue
            by_intervals[k] = first.is_robust
            by_crown[k] = first.is_robust or program.certify(*asked, clip=(0.0, 1.0), method="crown", steps=0).is_robust
        for name, which in (("ibp", by_intervals), ("crown", by_crown), ("not refuted", ~refuted)):
            found[name].append(float(which.mean()))
    return found


def draw(found: dict[str, list[float]], path: Path) -> None:
    mpl.use("Agg")
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
    for name, style in (("not refuted", ":"), ("crown", "-"), ("ibp", "--")):
        axis.plot(EPSILONS, [100 * share for share in found[name]], style, marker="o", label=name)
    axis.set(xlabel="eps, of a pixel from 0 to 1", ylabel="% of held-out digits", ylim=(-3, 103))
    axis.legend(frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main(
    epochs: int = 8,
    digits_asked: int = 40,
    picture: str | Path = "build/certified.png",
    results: str | Path | None = None,
) -> dict[str, list[float]]:
    """Train, certify, print and draw; gives the shares."""
    start = time.perf_counter()
    program, parameters, x, labels = trained(epochs)
    found = shares(program, parameters, x[:digits_asked], labels[:digits_asked])
    draw(found, Path(picture))
    if results is not None:
        Path(results).write_text(
            json.dumps({"eps": EPSILONS, "digits": digits_asked, **found}) + "\n", encoding="utf-8"
        )
    print(f"{'eps':>8}" + "".join(f"{name:>14}" for name in found))
    for k, eps in enumerate(EPSILONS):
        print(f"{eps:8}" + "".join(f"{100 * found[name][k]:12.1f} %" for name in found))
    print(f"{digits_asked} held-out digits in {time.perf_counter() - start:.0f} s; see {picture}")
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--digits", type=int, default=40, dest="digits_asked")
    parser.add_argument("--picture", default="build/certified.png")
    parser.add_argument("--results", help="A JSON file for the shares.")
    main(**vars(parser.parse_args()))
