"""What frameworks do at ties, padding and NaN: measured, not quoted. Run with ``python -m benchmarks.facts``.

Each framework answers the same questions on a few cells; the answers become the table of docs/frameworks.md, with the
versions that gave them. A framework that is not installed leaves its column out.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from ndpool import Avg, Lp, Max, Pool, Window
from ndpool.cli.frameworks import Framework, Jax, OnnxRuntime, TensorFlow, Torch, installed, title

from .blocks import rewrite
from .report import table

PAGE = Path(__file__).parents[1] / "docs" / "frameworks.md"
NAN, INF = float("nan"), float("inf")
FOUR = Window((4,))


def number(value: Any) -> str:
    value = float(value)
    if np.isnan(value):
        return "NaN"
    if abs(value) > 3e38 and np.isfinite(value):
        return "lowest float" if value < 0 else "largest float"
    return f"{value:.4g}"


class Ndpool:
    """ndpool under the same three questions as the frameworks."""

    name, package = "ndpool", "ndpool"

    def pooling(self, pool: Pool, x: np.ndarray) -> Callable[[Any], Any]:
        return pool

    def forward(self, function: Any, x: np.ndarray) -> Callable[[], np.ndarray]:
        return lambda: function(x)

    def pull(self, function: Any, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        return function.vjp(x)[1](g)


Answerer = Ndpool | Framework


def ask(who: Answerer, pool: Pool, cells: list[float], dtype: str = "float32") -> tuple[Any, Any]:
    """Y and the gradient of the sum of y, for one row of cells; a refusal is its type's name."""
    x = np.array(cells, dtype=dtype).reshape(1, 1, 1, -1)
    flat = Pool(pool.kind, widened(pool.window))
    try:
        function = who.pooling(flat, x)
        if function is None:
            return None, None
        y = who.forward(function, x)()
    except Exception as refusal:  # each framework refuses with types of its own
        return type(refusal).__name__, None
    try:
        return y, who.pull(function, x, np.ones_like(y))
    except Exception as refusal:
        return y, type(refusal).__name__


def widened(window: Window) -> Window:
    """The same along the last of two axes: some frameworks are richest in two."""
    kernel, stride, padding, dilation = window.of_axis(0, 1)
    ends = padding if isinstance(padding, tuple) else (padding, padding)
    return Window((1, kernel), (1, stride), ((0, 0), ends), (1, dilation), window.ceil_mode)


def winner(gx: Any) -> str:
    """Who gets the gradient, in words."""
    if gx is None:
        return "no derivative"
    if isinstance(gx, str):
        return f"refused ({gx})"
    cells = [number(cell) for cell in gx.ravel()]
    return " ".join(cells)


def shown(y: Any) -> str:
    if y is None:
        return "—"
    return f"refused ({y})" if isinstance(y, str) else " ".join(number(cell) for cell in y.ravel())


def value(pool: Pool, cells: list[float], dtype: str = "float32") -> Callable[[Answerer], str]:
    return lambda who: shown(ask(who, pool, cells, dtype)[0])


def gradient(pool: Pool, cells: list[float]) -> Callable[[Answerer], str]:
    def answer(who: Answerer) -> str:
        y, gx = ask(who, pool, cells)
        return "—" if y is None else winner(gx)

    return answer


QUESTIONS: dict[str, Callable[[Answerer], str]] = {
    "gradient of max over 1, 3, 3, 3": gradient(Pool(Max(), FOUR), [1, 3, 3, 3]),
    "max over 1, NaN, 2, 0": value(Pool(Max(), FOUR), [1, NAN, 2, 0]),
    "its gradient": gradient(Pool(Max(), FOUR), [1, NAN, 2, 0]),
    "max over NaN, 1, 2, 0": value(Pool(Max(), FOUR), [NAN, 1, 2, 0]),
    "its gradient ": gradient(Pool(Max(), FOUR), [NAN, 1, 2, 0]),
    "gradient of max over 1, NaN, 2, NaN": gradient(Pool(Max(), FOUR), [1, NAN, 2, NAN]),
    "max over -inf, -inf, -inf, -inf": value(Pool(Max(), FOUR), [-INF] * 4),
    "its gradient  ": gradient(Pool(Max(), FOUR), [-INF] * 4),
    "max over -2, -1 with padding 1, kernel 2": value(Pool(Max(), Window((2,), 1, 1)), [-2, -1]),
    "average of 6, 6 with padding 1, kernel 2": value(Pool(Avg(), Window((2,), 1, 1)), [6, 6]),
    "the same, padding not counted": value(Pool(Avg(False), Window((2,), 1, 1)), [6, 6]),
    "average of 1 to 8, kernel 4, stride 3, padding 1, ceil_mode": value(
        Pool(Avg(), Window((4,), 3, 1, ceil_mode=True)), [1, 2, 3, 4, 5, 6, 7, 8]
    ),
    "max over 1, 2, 3 with padding 2, kernel 3 (more than half)": value(Pool(Max(), Window((3,), 1, 2)), [1, 2, 3]),
    "3-norm of -2, 1": value(Pool(Lp(3), Window((2,))), [-2, 1]),
    "2-norm of 1e30, 1e30 in float32": value(Pool(Lp(2), Window((2,))), [1e30, 1e30]),
    "average of 4096 cells of 100 in float16": value(Pool(Avg(), Window((4096,))), [100.0] * 4096, "float16"),
}


def raw_torch_norm(who: Torch) -> Callable[[list[float], int], str]:
    """PyTorch's own norm, without the abs that makes it comparable elsewhere."""

    def norm(cells: list[float], p: int) -> str:
        x = who.torch.tensor(cells)[None, None]
        return number(who.functional.lp_pool1d(x, p, 2).item())

    return norm


def answers(who: Answerer) -> list[str]:
    found = [question(who) for question in QUESTIONS.values()]
    if isinstance(who, Torch):
        found[list(QUESTIONS).index("3-norm of -2, 1")] = raw_torch_norm(who)([-2.0, 1.0], 3)
        padded = who.torch.zeros(1, 1, 3), 3, 1, 2
        try:
            who.functional.max_pool1d(*padded)
        except RuntimeError as refusal:
            name = "max over 1, 2, 3 with padding 2, kernel 3 (more than half)"
            found[list(QUESTIONS).index(name)] = f"refused ({type(refusal).__name__})"
    return found


def main() -> None:
    order = (Torch, Jax, TensorFlow, OnnxRuntime)
    frameworks = sorted(installed(), key=lambda one: order.index(type(one)))
    with np.errstate(all="ignore"):
        columns = {"ndpool": answers(Ndpool()), **{title(one): answers(one) for one in frameworks}}
    rows = [[question.strip(), *(column[k] for column in columns.values())] for k, question in enumerate(QUESTIONS)]
    rewrite(PAGE, "facts", table(["", *columns], rows))
    print(PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
