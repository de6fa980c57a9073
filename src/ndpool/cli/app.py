"""The four commands and their options; what they do is in the files beside this one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from typer import TyperException as UsageFault

from .. import __version__, explain
from ..kinds import Kind
from ..pool import Pool
from ..windows import AnyWindow
from . import arguments
from .arguments import KindName, Ties

__all__ = ["UsageFault", "app"]

app = typer.Typer(
    name="ndpool",
    help="Pooling of arrays of any rank: see it, use it, check it.",
    epilog="Start with [bold]ndpool demo[/].",
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
)

# --- options that two commands share ----------------------------------------------------------------

WHAT, WINDOW = "What a window becomes", "Which cells a window has"
NUMBERS = "one number, or one for each axis"

KindOption = Annotated[KindName, typer.Option("--kind", help="What one output is.", rich_help_panel=WHAT)]
TiesOption = Annotated[
    Ties | None, typer.Option("--ties", help="Who wins when several cells do (default: first).", rich_help_panel=WHAT)
]
BetaOption = Annotated[float | None, typer.Option("--beta", help="Sharpness of smooth-max.", rich_help_panel=WHAT)]
POption = Annotated[float | None, typer.Option("--p", help="Power of lp.", rich_help_panel=WHAT)]
PadOption = Annotated[
    bool | None,
    typer.Option(
        "--count-include-pad/--no-count-include-pad",
        help="Whether padding counts in avg and smooth-max (default: it does).",
        rich_help_panel=WHAT,
    ),
]
DivisorOption = Annotated[int | None, typer.Option("--divisor", help="What avg divides by.", rich_help_panel=WHAT)]

KernelOption = Annotated[
    str | None,
    typer.Option("--kernel", "--kernel-size", metavar="N[,N...]", help=f"Cells: {NUMBERS}.", rich_help_panel=WINDOW),
]
StrideOption = Annotated[
    str | None, typer.Option("--stride", metavar="N[,N...]", help="Step (default: the kernel).", rich_help_panel=WINDOW)
]
PaddingOption = Annotated[
    str | None,
    typer.Option(
        "--padding",
        metavar="N[,N...]",
        help=f"Cells added: {NUMBERS}, each may be before:after; or same, same_lower, valid.",
        rich_help_panel=WINDOW,
    ),
]
DilationOption = Annotated[
    str | None,
    typer.Option("--dilation", metavar="N[,N...]", help="Distance between cells (default: 1).", rich_help_panel=WINDOW),
]
CeilOption = Annotated[bool, typer.Option("--ceil-mode", help="Let a last window overhang.", rich_help_panel=WINDOW)]
AdaptiveOption = Annotated[
    str | None,
    typer.Option("--adaptive", metavar="N[,N...]", help="As many windows as this instead.", rich_help_panel=WINDOW),
]
GlobalOption = Annotated[bool, typer.Option("--global", help="One window over everything.", rich_help_panel=WINDOW)]
AxesOption = Annotated[
    str | None,
    typer.Option("--axes", metavar="N[,N...]", help="The pooled axes (default: the last).", rich_help_panel=WINDOW),
]


def _kind(name: KindName, ties: Ties | None, beta: float | None, p: float | None, pad: Any, divisor: Any) -> Kind:
    options = {
        "--ties": ties and ties.value,
        "--beta": beta,
        "--p": p,
        "--count-include-pad": pad,
        "--divisor": divisor,
    }
    return arguments.kind_of(name, options)


def _window(kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool, adaptive: Any, whole: bool) -> AnyWindow:
    options = {
        "--kernel": kernel,
        "--stride": stride,
        "--padding": padding,
        "--dilation": dilation,
        "--ceil-mode": ceil,
    }
    return arguments.window_of(options, adaptive, whole)


def _axes(text: str | None, window: AnyWindow, otherwise: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """What was typed; or else the usual axes, where the window's own numbers do not say more."""
    if text is not None:
        return arguments.each_number("--axes", text)
    return None if otherwise is None or window.rank not in (None, len(otherwise)) else otherwise


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ndpool {__version__}")
        raise typer.Exit


@app.callback()
def ndpool(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Pooling of arrays of any rank: see it, use it, check it."""


# --- the commands ---------------------------------------------------------------------------------


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the picture goes.", dir_okay=False)] = Path(
        "ndpool-demo.png"
    ),
) -> None:
    """The main job in one run: a photograph through every kind, proved, timed and drawn."""
    from .demo import run

    run(Console(), output)


@app.command()
def pool(
    input_: Annotated[Path, typer.Argument(metavar="INPUT", help="PNG, TIFF, JPEG, .npy or .npz.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="PNG, TIFF, JPEG, .npy or .npz.")],
    kind: KindOption = KindName.MAX,
    ties: TiesOption = None,
    beta: BetaOption = None,
    p: POption = None,
    count_include_pad: PadOption = None,
    divisor: DivisorOption = None,
    kernel: KernelOption = None,
    stride: StrideOption = None,
    padding: PaddingOption = None,
    dilation: DilationOption = None,
    ceil_mode: CeilOption = False,
    adaptive: AdaptiveOption = None,
    global_: GlobalOption = False,
    axes: AxesOption = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that exists.")] = False,
    clip: Annotated[bool, typer.Option("--clip", help="Clip what an image's pixels cannot hold.")] = False,
) -> None:
    """Pool an image or arrays from one file into another.

    Of an image, height and width are pooled, and the result is rounded to whole pixels.
    Of arrays, the last axes are pooled, as many as --kernel has numbers.
    """
    from .work import pool_file

    chosen, window = (
        _kind(kind, ties, beta, p, count_include_pad, divisor),
        _window(kernel, stride, padding, dilation, ceil_mode, adaptive, global_),
    )
    pool_file(input_, output, lambda usual: Pool(chosen, window, _axes(axes, window, usual)), force, clip)


@app.command(name="explain")
def explain_(
    shape: Annotated[str, typer.Option("--shape", metavar="N[,N...]", help="The input's shape.")],
    kind: KindOption = KindName.MAX,
    ties: TiesOption = None,
    beta: BetaOption = None,
    p: POption = None,
    count_include_pad: PadOption = None,
    divisor: DivisorOption = None,
    kernel: KernelOption = None,
    stride: StrideOption = None,
    padding: PaddingOption = None,
    dilation: DilationOption = None,
    ceil_mode: CeilOption = False,
    adaptive: AdaptiveOption = None,
    global_: GlobalOption = False,
    axes: AxesOption = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Also write a page to play with.", dir_okay=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Write over a page that exists.")] = False,
) -> None:
    """Draw the windows: which cells each output sees, what it divides by, and what is dropped."""
    from .drawing import explanation
    from .work import check_free

    sizes = arguments.each_number("--shape", shape)
    window = _window(kernel, stride, padding, dilation, ceil_mode, adaptive, global_)
    chosen = _kind(kind, ties, beta, p, count_include_pad, divisor)
    laid = Pool(chosen, window, _axes(axes, window, tuple(range(len(sizes)))))
    console = Console(highlight=False)
    drawing = explanation(laid, sizes)
    if html is not None:
        check_free(html, force)
        x = np.random.default_rng(0).integers(-9, 10, sizes)
        text = explain.page(laid, x)
        console.print(drawing)
        html.write_text(text, encoding="utf-8")
        console.print(f"\n[bold]{html}[/]: open it in a browser, point at an output, change anything.")
    else:
        console.print(drawing)


@app.command()
def check(
    count: Annotated[int, typer.Option("--count", "-n", min=1, help="How many configurations.")] = 100,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Which ones.")] = 0,
    frameworks: Annotated[bool, typer.Option(help="Compare with the frameworks that are installed.")] = True,
) -> None:
    """Compare engine, specification and installed frameworks on random configurations.

    Exit code 1 if any two disagree.
    """
    from .checking import run, table
    from .frameworks import installed
    from .work import progress

    console = Console(highlight=False)
    with progress(count, "checking") as step:
        tallies = run(count, seed, installed() if frameworks else [], step)
    console.print(table(tallies, count, seed))
    faults = [fault for tally in tallies for fault in tally.faults]
    for fault in faults[:10]:
        console.print(fault, style="red", markup=False)
    if faults:
        raise typer.Exit(1)
    console.print("Everything agrees.", style="green")
