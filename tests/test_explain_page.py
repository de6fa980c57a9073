"""The page of `ndpool explain --html`, driven in a real browser by its own controls and held against the specification.

A script is added to the page that does what a person would: it sets the controls, types the numbers, points at every
output, and writes down what is shown. All configurations are one visit.
"""

from __future__ import annotations

import json
import math
import re
from html import escape
from pathlib import Path

import numpy as np
import pytest

from browser import found_on, needs_browser, with_script
from ndpool import (
    Adaptive,
    Avg,
    Global,
    Lp,
    Max,
    Median,
    Min,
    Mode,
    Pool,
    Quantile,
    SmoothMax,
    Sum,
    Window,
    explain,
    spec,
    viz,
)
from ndpool.kinds import METHODS, MODE_TIES, ROUNDINGS, TIES
from ndpool.table import KINDS as TABLED
from ndpool.viz.page import _written

DRIVER = """
function set(id, value) {
  const control = document.getElementById(id);
  if (control.type === "checkbox") control.checked = value; else control.value = value;
  control.dispatchEvent(new Event("input", {bubbles: true}));
}
function visit({controls, x, late = []}) {
  for (const [id, value] of controls) set(id, value);
  if (document.getElementById("error").textContent) return {error: document.getElementById("error").textContent};
  x.forEach((row, i) => row.forEach((cell, j) => {
    const field = document.querySelector(`[data-place="${i},${j}"] input`);
    if (field.value === cell) return;
    field.value = cell;
    field.dispatchEvent(new Event("input", {bubbles: true}));
  }));
  for (const [id, value] of late) set(id, value);
  const places = selector => [...document.querySelectorAll(`#input ${selector}`)].map(place => place.dataset.place);
  const outputs = [...document.querySelectorAll("#output button")].map(button => {
    button.dispatchEvent(new PointerEvent("pointerenter"));
    const weights = [...document.querySelectorAll("#input .weight")].filter(label => label.textContent)
      .map(label => [label.parentElement.dataset.place, label.title, label.textContent]);
    return {
      at: button.dataset.output, value: button.title, text: button.textContent, pressed: button.ariaPressed, weights,
      seen: places(".seen.real"), padded: places(".seen.padded").length, winners: places(".winner"),
      absent: button.parentElement.classList.contains("absent"), detail: document.getElementById("detail").textContent,
    };
  });
  const gradient = [...document.querySelectorAll("#gradient .place")].map(place => place.title);
  const crossed = [...document.querySelectorAll("#gradient .place.skipped")].map(place => place.dataset.gradient);
  const fields = [...document.querySelectorAll("#input input")];
  return {error: document.getElementById("error").textContent, outputs, gradient, unseen: places(".unseen"),
          skipped: places(".skipped"), crossed,
          sizes: ["input-size", "output-size"].map(id => document.getElementById(id).textContent),
          beyond: places(".beyond").length, typed: fields.map(field => field.value),
          labels: fields.map(field => field.ariaLabel),
          axes: [...document.querySelectorAll("#axes tr:not([hidden]) th")].map(name => name.textContent)};
}
report(JSON.parse(decodeURIComponent(document.getElementById("visits").textContent)).map(visit));
"""


def browse(visits, folder):
    """What the page shows on each of the visits."""
    page = explain.page(Pool(Max(), Window((2, 2))), np.zeros((4, 4)))
    path = folder / "page.html"
    path.write_text(driven(page, visits), encoding="utf-8")
    return found_on(path, folder)


def driven(page, visits):
    text = json.dumps(visits).replace("%", "%25").replace("<", "%3C")
    page = page.replace("</body>", f'<script id="visits" type="application/json">{text}</script></body>')
    return with_script(page, DRIVER)


def framed(pages, script, folder):
    """What the script's function `seen(frame)` says of each page; a page is a width and a text, and has a frame."""
    frames = [
        f'<iframe style="width: {width}px; height: 900px" srcdoc="{escape(page)}"></iframe>' for width, page in pages
    ]
    gather = 'addEventListener("load", () => report([...document.querySelectorAll("iframe")].map(seen)));'
    path = folder / "page.html"
    path.write_text(with_script(f"<!DOCTYPE html><body>{''.join(frames)}</body>", script + gather), encoding="utf-8")
    return found_on(path, folder)


# --- configurations -------------------------------------------------------------------------------

KINDS = [
    *(Max(ties) for ties in TIES),
    *(Min(ties) for ties in TIES),
    *(Avg(), Avg(count_include_pad=False), Avg(divisor_override=3), Sum(), Lp(1), Lp(2), Lp(3), Lp(2.5)),
    *(SmoothMax(1.5), SmoothMax(-0.5), SmoothMax(3.0, count_include_pad=False), SmoothMax(40.0)),
    *(Mode(ties) for ties in MODE_TIES),
    *(Quantile(q, method) for method, q in zip(METHODS, (0.1, 0.75, 0.5, 1.0, 0.25), strict=True)),
    *(Median(), Quantile(0.5, "nearest"), Quantile(0.0)),
    *(Avg(rounding=rounding) for rounding in ROUNDINGS),
    Avg(count_include_pad=False, rounding="half_away"),
]
NUMBERS = {
    "ties": lambda rng, shape: rng.integers(-2, 3, shape).astype(float),
    "distinct": lambda rng, shape: rng.standard_normal(shape).round(3),
    "special": lambda rng, shape: rng.choice([0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 700.0], shape),
}
SKIPPED = (np.nan, 0.0, 1.0, -np.inf, 2)


def random_window(rng):
    def pair(low, high):
        return tuple(int(n) for n in rng.integers(low, high + 1, 2))

    family = rng.random()
    if family < 0.15:
        return Adaptive(pair(1, 5))
    if family < 0.25:
        return Global()
    ends = (pair(0, 2), pair(0, 2))
    padding = ends if rng.random() < 0.6 else str(rng.choice(["same", "same_lower", "valid"]))
    return Window(pair(1, 4), pair(1, 3), padding, pair(1, 2), bool(rng.integers(2)))


def configurations(count):
    rng = np.random.default_rng(11)
    for number in range(count):
        kind = KINDS[number % len(KINDS)]
        shape = tuple(int(n) for n in rng.integers(1, 6, 2))
        whole = getattr(kind, "rounding", None) is not None
        x = NUMBERS["ties" if whole else list(NUMBERS)[rng.integers(3)]](rng, shape)
        skip = {} if rng.random() < 0.5 else random_skip(rng, kind, whole)
        if np.isnan(skip.get("skip", 0)):
            x[rng.random(shape) < 0.4] = np.nan
        yield Pool(kind, random_window(rng), axes=(0, 1), **skip), x.astype(int) if whole else x


def random_skip(rng, kind, whole):
    skip = (0, 1, -2)[rng.integers(3)] if whole else SKIPPED[rng.integers(len(SKIPPED))]
    return {"skip": skip, "min_count": int(rng.integers(1 if kind.needs_one_there else 0, 4))}


def controls_of(pool, shape):
    """What a person would set, from top to bottom; sizes come last, when all else fits them."""
    kind, window = pool.kind, pool.window
    family = {Adaptive: "adaptive", Global: "global"}.get(type(window), "window")
    controls = [("family", "global"), ("kind", type(kind).__name__)]
    controls += [("mode-ties" if isinstance(kind, Mode) else "ties", kind.ties)] if hasattr(kind, "ties") else []
    controls += [("q", str(kind.q)), ("method", kind.method)] if isinstance(kind, Quantile) else []
    controls += [("rounding", "")] if isinstance(kind, Avg) else []
    controls += [("skip", "" if pool.skip is None else str(pool.skip)), ("min-count", str(pool.min_count))]
    controls += [("beta", str(kind.beta))] if hasattr(kind, "beta") else []
    controls += [("p", str(kind.p))] if hasattr(kind, "p") else []
    controls += [("include", kind.count_include_pad)] if hasattr(kind, "count_include_pad") else []
    controls += [("divisor", str(kind.divisor_override or ""))] if hasattr(kind, "divisor_override") else []
    controls += [(f"length-{k}", str(length)) for k, length in enumerate(shape)]
    if family == "adaptive":
        controls += [(f"output-{k}", str(n)) for k, n in enumerate(window.output_size)]
    if family == "window":
        for k in range(2):
            kernel, stride, padding, dilation = window.of_axis(k, 2)
            padding = padding if isinstance(padding, str) else f"{padding[0]}:{padding[1]}"
            values = {"kernel": kernel, "stride": stride, "padding": padding, "dilation": dilation}
            controls += [(f"{field}-{k}", str(value)) for field, value in values.items()]
        controls += [("ceil", window.ceil_mode)]
    return [*controls, ("family", family)]


def rounding_of(kind):
    """What is set when all numbers are typed, because before they may not be whole."""
    return [("rounding", kind.rounding)] if getattr(kind, "rounding", None) else []


def typed(x):
    return [[_written(float(cell)) for cell in row] for row in x]


# --- the comparison -------------------------------------------------------------------------------


def at(text):
    return tuple(int(part) for part in text.split(","))


def as_float(text):
    return float(text.replace("Infinity", "inf"))


def weights_by_specification(pool, x):
    """For each output its cells, those that are there, and its weights by place; None where there are too few."""
    for out, cells in spec.windows(pool, x.shape).items():
        real = [cell for cell in cells if cell is not None]
        there = [cell for cell in real if not is_skipped(pool, x[cell])]
        if pool.skip is not None and len(there) < pool.min_count:
            yield out, cells, there, None
            continue
        pairs = pool.kind.weights([x[cell].item() for cell in there], len(cells) - len(real)) if there else []
        yield out, cells, there, {there[k]: float(w) for k, w in pairs}


def is_skipped(pool, cell):
    return pool.skip is not None and bool(np.isnan(cell) if np.isnan(pool.skip) else cell == pool.skip)


def check_detail(detail, output, pool, cells, there, index):
    """The two lines about an output: what it is, and how it leans on its cells, to the four digits that are written."""
    first, second = detail.replace("\N{NO-BREAK SPACE}", " ").split("\n")
    at_output, padded, weights = index(at(output["at"])), cells.count(None), output["expected"]
    skipped = len(cells) - padded - len(there)
    beside = f"; {skipped} skipped" if skipped else ""
    if weights is None:
        needed = f"{len(there)} of the {pool.min_count} cells that it needs"
        assert first == f"y[{at_output}] = {output['text']}, not there: {needed}{beside}"
        assert second == f"dy[{at_output}] = 0"
        return
    counted = f"{len(there)} cell" if len(there) == 1 else f"{len(there)} cells"
    padding = f" and {padded} padded" if padded else ""
    assert first == f"y[{at_output}] = {output['text']}, of {counted}{padding}{beside}"
    name, _, terms = second.partition(" = ")
    assert name == f"dy[{at_output}]"
    shares = [term.split(" · ") for term in terms.split(" + ")] if weights else []
    assert [cell for _, cell in shares] == [f"dx[{index(cell)}]" for cell in weights]
    np.testing.assert_allclose([float(share) for share, _ in shares], list(weights.values()), rtol=1e-3)
    assert weights or terms == "0"


def check_labels(labels, weights):
    """Weights as they are written below the cells: three digits, or one of those below a thousandth."""
    for text, weight in zip(labels, weights, strict=True):
        np.testing.assert_allclose(float(text), weight, rtol=0.6 if abs(weight) < 1e-3 else 0.01)


def uncounted(pool, shape):
    """How many places only ceil_mode reaches, in the rectangle that the page draws."""
    if not isinstance(pool.window, Window):
        return 0
    spans = []
    for axis, length in enumerate(shape):
        kernel, stride, _, dilation = pool.window.of_axis(axis, len(shape))
        low, high = pads(pool.window, axis, len(shape), length)
        last = (pool.output_shape(shape)[axis] - 1) * stride - low + (kernel - 1) * dilation
        spans.append((length + low + high, max(length + high, last + 1) + low))
    return math.prod(whole for _, whole in spans) - math.prod(counted for counted, _ in spans)


def pads(window, axis, rank, length):
    kernel, stride, padding, dilation = window.of_axis(axis, rank)
    if not isinstance(padding, str):
        return padding if isinstance(padding, tuple) else (padding, padding)
    if padding == "valid":
        return 0, 0
    total = max(0, (-(-length // stride) - 1) * stride + dilation * (kernel - 1) + 1 - length)
    return (total // 2, total - total // 2) if padding == "same" else (total - total // 2, total // 2)


def compare(pool, x, shown, flat=False):
    """Everything that is shown against the specification; `flat` says that x is the one row of an array of one axis."""

    def index(place):
        return str(place[1]) if flat else f"{place[0]}, {place[1]}"

    def size(shape):
        return str(shape[1]) if flat else f"{shape[0]} x {shape[1]}"

    try:
        y = spec.forward(pool, x).astype(float)
    except ValueError:
        assert shown["error"], "the page shows a result where ndpool refuses"
        return False
    assert not shown["error"], shown["error"]
    assert shown["sizes"] == [size(x.shape), size(y.shape)]
    assert shown["labels"] == [f"x[{index(cell)}]" for cell in np.ndindex(x.shape)]
    assert shown["axes"] == (["axis 0"] if flat else ["axis 0", "axis 1"])
    assert shown["beyond"] == uncounted(pool, x.shape)
    expected = list(weights_by_specification(pool, x))
    assert [at(output["at"]) for output in shown["outputs"]] == [out for out, *_ in expected]
    skipped = {cell for cell in np.ndindex(x.shape) if is_skipped(pool, x[cell])}
    assert {at(place) for place in shown["skipped"]} == {at(place) for place in shown["crossed"]} == skipped
    covered = set()
    for output, (out, cells, there, weights) in zip(shown["outputs"], expected, strict=True):
        real = {cell for cell in cells if cell is not None}
        covered |= real
        np.testing.assert_allclose(as_float(output["value"]), y[out], rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(as_float(output["text"]), as_float(output["value"]), rtol=1e-3)
        assert output["pressed"] == "true"
        assert ({at(place) for place in output["seen"]}, output["padded"]) == (real, cells.count(None))
        assert output["absent"] == (weights is None)
        output["expected"] = weights
        check_detail(output["detail"], output, pool, cells, there, index)
        weights = dict(sorted((weights or {}).items()))
        found = {at(place): as_float(weight) for place, weight, _ in output["weights"]}
        assert list(found) == list(weights)
        np.testing.assert_allclose(list(found.values()), list(weights.values()), rtol=1e-11, atol=1e-14)
        is_hard = pool.kind.one_winner() is not None
        assert [at(place) for place in output["winners"]] == (list(weights) if is_hard else [])
        check_labels([text for *_, text in output["weights"]], weights.values())
    gx = spec.vjp(pool, x, np.ones(y.shape))
    np.testing.assert_allclose([as_float(cell) for cell in shown["gradient"]], gx.ravel(), rtol=1e-11, atol=1e-12)
    assert {at(place) for place in shown["unseen"]} == set(np.ndindex(x.shape)) - covered
    return True


@needs_browser
def test_the_page_shows_what_the_specification_says(tmp_path):
    assert {type(kind) for kind in KINDS} == set(TABLED)
    cases = list(configurations(440))
    visits = [
        {"controls": controls_of(pool, x.shape), "x": typed(x), "late": rounding_of(pool.kind)} for pool, x in cases
    ]
    shown = browse(visits, tmp_path)
    assert len(shown) == len(cases)
    computed = [compare(pool, x, result) for (pool, x), result in zip(cases, shown, strict=True)]
    assert sum(computed) > 240
    assert sum(output["absent"] for result in shown if not result["error"] for output in result["outputs"]) > 100
    assert not all(computed)


MADE = [
    # Six cells are three windows with ceil_mode, and two without.
    (Pool(Max("split"), Window((3, 3), 2, ceil_mode=True)), np.arange(36.0).reshape(6, 6) % 4),
    (Pool(Max(), Window((3, 3), 2)), np.arange(36.0).reshape(6, 6) % 5),
    (Pool(SmoothMax(-2.0, False), Window((2, 3), 1, "same", 2)), np.arange(20.0).reshape(4, 5) % 7),
    (Pool(Avg(divisor_override=5), Adaptive((3, 2))), np.array([[np.nan, np.inf], [-np.inf, 0.1]])),
    (Pool(Lp(2.5), Global(), axes=(0, 1)), np.arange(6.0).reshape(2, 3) / 4),
    (Pool(Min("all"), Window((3,), 2, ((1, 0),))), np.array([1.5, 0.0, 0.0, 2.0, -2.5])),
    (Pool(Avg(False), Window((4,), 3, 1, ceil_mode=True)), np.array([-1.5, 0.25, 1e-7, 2.0, 1e21, 1.0, 3.0, 4.0])),
    (Pool(Max(), Window((1, 2))), np.array([[1.5, 0.0, 3.0, 2.0]])),  # one row, but of two axes
    (Pool(Sum(), Adaptive((3,))), np.arange(7.0) / 3),
    (Pool(Max("all"), Global(), axes=(0,)), np.array([2.5, 2.5, 1.0])),
    (Pool(Mode("largest"), Window((2, 2), 1), skip=0), np.arange(12.0).reshape(3, 4) % 3),
    (Pool(Quantile(0.9, "higher"), Window((3,), 2, 1), skip=np.nan, min_count=2), np.array([1.0, np.nan, 3.0, np.nan])),
    (Pool(Avg(rounding="truncate"), Window((2, 2))), np.arange(-8, 8).reshape(4, 4)),
    (Pool(Median(), Window((3, 3), 1, "same"), skip=-9999.0), np.array([[1.5, -9999.0], [-9999.0, 2.5]])),
    (Pool(Sum(), Window((2,)), skip=0.1, min_count=0), np.array([0.1, 0.1, 3.0, 0.5], np.float32)),
]


def as_a_row(pool):
    """The pool of one axis over an array of one row: windows of one cell in the other direction."""
    if isinstance(pool.window, Window):
        kernel, stride, padding, dilation = pool.window.of_axis(0, 1)
        window = Window((1, kernel), (1, stride), (0, padding), (1, dilation), pool.window.ceil_mode)
    else:
        window = Adaptive((1, *pool.window.output_size)) if isinstance(pool.window, Adaptive) else Global()
    return Pool(pool.kind, window, (0, 1), pool.skip, pool.min_count)


@needs_browser
def test_the_page_opens_as_it_was_made(tmp_path):
    pages = [(800, driven(explain.page(pool, x), [{"controls": [], "x": []}])) for pool, x in MADE]
    read = "const seen = frame => decodeURIComponent(frame.contentDocument.getElementById('found').textContent);"
    for (pool, x), text in zip(MADE, framed(pages, read, tmp_path), strict=True):
        (shown,) = json.loads(text)
        np.testing.assert_array_equal([float(cell) for cell in shown["typed"]], x.ravel())
        if x.ndim == 2:
            assert compare(pool, x, shown), pool
        else:
            assert compare(as_a_row(pool), x.reshape(1, -1), shown, flat=True), pool


def test_numbers_are_written_as_one_types_them():
    numbers = [3.0, -2.0, 1.5, -0.25, 0.1, 1e-7, np.nan, np.inf, -np.inf, 1e21]
    assert [_written(cell) for cell in numbers] == [
        *("3", "-2", "1.5", "-0.25", "0.1", "1e-07", "nan", "inf", "-inf", "1000000000000000000000")
    ]


# --- the looks ------------------------------------------------------------------------------------

# Every page is opened in a frame of its own for each width. A problem is a sentence.
RULER = """
const inside = (part, whole) => part.left >= whole.left - 0.5 && part.right <= whole.right + 0.5
  && part.top >= whole.top - 0.5 && part.bottom <= whole.bottom + 0.5;
const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.5
  && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 0.5;
const anyMeet = boxes => boxes.some((one, k) => boxes.slice(k + 1).some(other => meet(one, other)));
const boxOf = element => element.getBoundingClientRect();
function textBox(element) {
  const range = element.ownerDocument.createRange();
  range.selectNodeContents(element);
  return range.getBoundingClientRect();
}
function misfits(grid) {
  const texts = [...grid.querySelectorAll("button, .gradient, .weight")].filter(part => part.textContent);
  const outside = texts.filter(part => !inside(textBox(part), boxOf(part.closest(".place"))));
  const cut = [...grid.querySelectorAll("input")].filter(field => field.scrollWidth > field.clientWidth);
  return [...outside, ...cut].map(part => `does not fit: ${part.value || part.textContent}`);
}
// The names of the fields are in a row and each stands above its fields, or in a column and each beside its fields.
function misaligned(rows) {
  const [names, ...axes] = rows.map(row => [...row.children].slice(1).map(boxOf).filter(box => box.width));
  const inARow = names.every(name => Math.abs(name.top - names[0].top) < 1);
  const share = (low, high) => axes.every(fields => fields.every((field, k) =>
    Math.min(field[high], names[k][high]) - Math.max(field[low], names[k][low]) > 10));
  return !(share("top", "bottom") || inARow && share("left", "right"));
}
function seen(frame) {
  const root = frame.contentDocument.documentElement;
  const all = selector => [...root.querySelectorAll(selector)].filter(part => part.getClientRects().length);
  const [controls] = all(".controls"), grids = all(".grid");
  const parts = all(".controls input, .controls select, .controls th, .controls label");
  const outside = parts.filter(part => !inside(boxOf(part), boxOf(controls)));
  return [
    ...(root.scrollWidth > root.clientWidth ? [`${root.scrollWidth} wide on ${root.clientWidth}`] : []),
    ...(root.clientWidth < 300 || parts.length < 5 ? ["controls are not shown"] : []),
    ...grids.filter(grid => !grid.children.length).map(grid => `${grid.id} is empty`),
    ...outside.map(part => `outside: ${part.outerHTML}`),
    ...(anyMeet(all(".controls input, .controls select").map(boxOf)) ? ["controls meet"] : []),
    ...grids.filter(grid => anyMeet([...grid.children].map(boxOf))).map(grid => `cells of ${grid.id} meet`),
    ...(misaligned(all(".controls tr")) ? ["fields are not beside their names"] : []),
    ...grids.flatMap(misfits),
  ].slice(0, 9);
}
"""
EIGHTS = np.arange(64.0).reshape(8, 8) * 37 % 19 - 9
LOOKS = {
    "averages": (Pool(Avg(), Window((3, 3), 2, 1)), EIGHTS),
    "small averages": (Pool(Avg(), Window((3, 3), 1, 1)), -EIGHTS / 1e5),
    "winners": (Pool(Max("split"), Window((3, 3), 2, 1, ceil_mode=True)), EIGHTS),
    "many digits": (Pool(SmoothMax(1.37), Window((3, 2), 2, 1)), EIGHTS * 123.4567),
    "large": (Pool(Lp(2.5), Window((2, 2), 2)), -EIGHTS * 1e-300),
    "one axis": (Pool(Avg(), Window((3,), 2, 1)), EIGHTS[0] / 8),
    "bins": (Pool(Avg(), Adaptive((3, 5))), EIGHTS),
    "one number": (Pool(Lp(3), Global(), axes=(0, 1)), EIGHTS),
    "quantiles": (Pool(Quantile(0.375, "midpoint"), Window((2, 3), 2, 1), skip=-7, min_count=4), EIGHTS),
    "rounded": (Pool(Avg(False, rounding="half_away"), Window((2, 2)), skip=0), EIGHTS.astype(int)),
    "all there is room for": (Pool(Avg(), Window((2, 2), 1)), np.tile(EIGHTS, (3, 3))),
}


@needs_browser
def test_nothing_overlaps_at_any_width(tmp_path):
    cases = [(width, name) for width in (400, 800, 1400) for name in LOOKS]
    found = framed([(width, explain.page(*LOOKS[name])) for width, name in cases], RULER, tmp_path)
    assert {case: problems for case, problems in zip(cases, found, strict=True) if problems} == {}


BAD = {
    ("kernel-0", "0"): "kernel_size=0 is less than 1",
    ("kernel-0", "9"): "kernel_size=9 with dilation=1 does not fit into 4 cells",
    ("stride-1", "1.5"): 'stride: "1.5" is not a whole number',
    ("padding-0", "3"): "sees no real cell, only padding, and Max needs one",
    ("padding-0", "1:2:3"): "is not one number, before:after, same, same_lower or valid",
    ("padding-1", "some"): 'padding: "some" is not a whole number',
}


@needs_browser
def test_bad_values_are_said_and_mended(tmp_path):
    defaults = {"kernel-0": "2", "stride-1": "2", "padding-0": "0", "padding-1": "0", "dilation-1": "1"}
    visits = []
    for bad in BAD:
        visits += [{"controls": [bad], "x": []}, {"controls": [(bad[0], defaults[bad[0]])], "x": []}]
    kinds = [("SmoothMax", "beta", "0", "1"), ("SmoothMax", "beta", "much", "1"), ("Lp", "p", "0.5", "2")]
    kinds += [("Avg", "divisor", "0", ""), ("Quantile", "q", "1.5", "0.5"), ("Quantile", "q", "half", "1")]
    kinds += [("Mode", "skip", "none", ""), ("Max", "skip", "no", "nan"), ("Max", "min-count", "0", "1")]
    kinds += [("Max", "min-count", "5", "4"), ("Avg", "min-count", "1.5", "2"), ("Avg", "rounding", "floor", "")]
    for kind, field, bad, good in kinds:
        visits += [{"controls": [("kind", kind), (field, bad)], "x": []}, {"controls": [(field, good)], "x": []}]
    shown = browse(visits, tmp_path)
    for (bad, words), result in zip(BAD.items(), shown[::2], strict=False):
        assert words in result["error"], bad
    assert all(result["error"] for result in shown[::2])
    said = {result["error"] for result in shown[2 * len(BAD) :: 2]}
    for words in (
        "q=1.5 is not a share of the cells; give a number from 0 to 1",
        'skip: "no" is not a number',
        "min_count=0, and Max of no cell has no value; give min_count >= 1",
        "min_count=5, and a window has 4 cells at most; give min_count <= 4",
        'min_count: "1.5" is not a whole number',
        "skip=nan is no integer, and rounding is for integers",
    ):
        assert words in said
    assert [result["error"] for result in shown[1::2]] == [""] * (len(BAD) + len(kinds))


def test_the_page_needs_no_network():
    page = explain.page(Pool(Max(), Window((2, 2))), np.zeros((4, 4)))
    assert not re.search(r"https?:|//[a-z]|\bsrc=|\bhref=|@import|url\(|fetch|XMLHttpRequest", page)


def test_what_the_page_cannot_show_is_refused():
    class Median(Max):  # a kind of one's own that has a known name
        pass

    with pytest.raises(ValueError, match=r"x has shape \(2, 2, 2\); the page shows one axis or two"):
        explain.page(Pool(Max(), Window((2, 2, 2))), np.zeros((2, 2, 2)))
    for shape in ((25,), (2, 25), (25, 2)):
        with pytest.raises(ValueError, match="of at most 24 cells each"):
            explain.page(Pool(Max(), Window((2,) * len(shape))), np.zeros(shape))
    for shape in ((24,), (2, 24), (24, 2)):
        assert explain.page(Pool(Max(), Window((2,) * len(shape))), np.zeros(shape))
    with pytest.raises(ValueError, match="1 of the 2 axes of x are pooled"):
        explain.page(Pool(Max(), Window((2,))), np.zeros((3, 4)))
    with pytest.raises(TypeError, match="is not a kind that the page knows; give one of Max, Min"):
        explain.page(Pool(Median(), Window((2,))), np.zeros(4))
    with pytest.raises(TypeError, match="rounding='floor' is for integers, and x has float64"):
        explain.page(Pool(Avg(rounding="floor"), Window((2,))), np.zeros(4))
    with pytest.raises(ValueError, match="skip=nan is no int64; give an integer from"):
        explain.page(Pool(Max(), Window((2,)), skip=np.nan), np.zeros(4, np.int64))


def test_no_text_can_end_the_script_of_the_page():
    kind = Max()
    object.__setattr__(kind, "ties", "</script>")
    pages = [explain.page(Pool(each, Window((2,))), np.zeros(4)) for each in (Max(), kind)]
    assert pages[1].count("</script>") == pages[0].count("</script>") > 0
    assert "\\u003c/script>" in pages[1]


def test_the_template_ships_with_the_package():
    assert (Path(viz.__file__).parent / "page.html").is_file()
