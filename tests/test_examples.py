"""The examples run, at a small scale, and show what they say; they need what the extra `examples` installs."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(name):
    for needed in ("matplotlib", "sklearn", "tqdm"):
        pytest.importorskip(needed, reason=f"the examples draw and load with {needed}: install ndpool[examples]")
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_signals(tmp_path, capsys):
    """A hundred steps tell nine of ten new signals apart, where guessing has one of three; and the print says so."""
    signals = example("signals")
    score = signals.main(steps=100, picture=tmp_path / "new" / "signals.png")
    assert score > 0.9
    assert (tmp_path / "new" / "signals.png").read_bytes().startswith(b"\x89PNG")
    assert f"{100 * score:.1f} % of 1000 new signals are recognised" in capsys.readouterr().out


def test_signals_are_not_recognised_without_learning():
    """The score is of signals that the network has not seen, and a network that learned nothing guesses."""
    signals = example("signals")
    rng = np.random.default_rng(0)
    model = signals.network(rng)
    x, labels = signals.signals(rng, 1000)
    assert signals.accuracy(model, x, labels) < 0.6
    assert not model.training
    assert signals.accuracy(model, x, model(x).argmax(-1)) == 1
    losses = signals.train(model, rng, 40)
    assert len(losses) == 40
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.2


def test_signals_of_each_class_are_told_apart_by_their_definition():
    signals = example("signals")
    x, labels = signals.signals(np.random.default_rng(0), 300)
    assert (x.shape, x.dtype, sorted(set(labels))) == ((300, 1, 64), np.float32, [0, 1, 2])
    roots = [np.sqrt(np.mean(x[labels == c] ** 2)) for c in range(3)]
    # sine 1/sqrt(2), square 1, sawtooth 1/sqrt(3), each with noise of 0.3
    np.testing.assert_allclose(roots, np.sqrt(np.array([1 / 2, 1, 1 / 3]) + 0.09), rtol=0.05)


def test_digits_by_layers_and_by_graph_are_the_same(tmp_path, monkeypatch, capsys):
    digits = example("digits")
    x, held_out, labels, held_out_labels = digits.data()
    assert (x.shape, held_out.shape) == ((1347, 1, 8, 8), (450, 1, 8, 8))
    monkeypatch.setattr(digits, "data", lambda: (x[:64], held_out[:12], labels[:64], held_out_labels[:12]))
    digits.main(epochs=1, picture=tmp_path / "digits.png")
    assert (tmp_path / "digits.png").read_bytes().startswith(b"\x89PNG")
    assert "layers and graph: 2 equal losses, logits equal to the bit" in capsys.readouterr().out


def test_a_difference_between_layers_and_graph_is_an_error():
    digits = example("digits")

    class Other:
        def step(self, x, labels):
            return 0.0

    x, _, labels, _ = digits.data()
    model = digits.by_layers(np.random.default_rng(0))
    with pytest.raises(AssertionError, match=r"step 0: loss .* by layers and 0.0 by the graph"):
        digits.train(digits.ByLayers(model), Other(), x[:32], labels[:32], epochs=1)


def test_the_benchmark_of_scaling_runs(monkeypatch, capsys):
    path = Path(__file__).parents[1] / "benchmarks" / "graph_scaling.py"
    spec = importlib.util.spec_from_file_location("graph_scaling", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "SIZES", (4, 8))
    module.main()
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()[-2:]] == ["4", "8"]
