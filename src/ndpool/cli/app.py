"""The commands and their options; what they do is in the files beside this one."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from typer import TyperException as UsageFault
from typer.core import TyperCommand

from .. import __version__, explain
from ..c import PROFILES, export
from ..kind import Kind
from ..pool import Pool
from ..windows import AnyWindow
from . import arguments
from .files import Array, Format, Place
from .options import AxesOption, with_pool

__all__ = ["UsageFault", "app"]

app = typer.Typer(
    name="ndpool",
    help="Pooling of arrays of any rank: see it, use it, check it.",
    epilog="Start with [bold]ndpool demo[/].",
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
)

PANELS_NEED = 100  # columns
LONGEST_EXPLAINED = 100_000


class Command(TyperCommand):
    """A command whose help is in panels where they have room, and else plain text, of which nothing is cut off."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        if shutil.get_terminal_size().columns < PANELS_NEED:
            self.rich_markup_mode, kept = None, self.rich_markup_mode
            super().format_help(ctx, formatter)
            self.rich_markup_mode = kept
        else:
            super().format_help(ctx, formatter)


ForceOption = Annotated[bool, typer.Option("--force", help="Write over a file that exists.")]


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


@app.command(cls=Command)
def demo(
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where the picture goes: PNG, SVG or PDF.")
    ] = "ndpool-demo.png",
    force: ForceOption = False,
) -> None:
    """The main job in one run: a photograph through every kind, proved, timed and drawn."""
    from .demo import run

    run(Console(), Place(Path(output), output), force)


HOLDS = "PNG, TIFF, JPEG, .npy or .npz"


@app.command(cls=Command)
@with_pool
def pool(
    *,
    input_: Annotated[str, typer.Argument(metavar="INPUT", help=f"{HOLDS}; - is standard input.")],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help=f"{HOLDS}, by its ending; - is standard output.")
    ],
    format_: Annotated[
        Format | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help=f"What is written, whatever the ending: {arguments.words(Format)} (default of -: as the input).",
        ),
    ] = None,
    page: Annotated[
        int | None, typer.Option("--page", min=0, help="One page of an image of several, from 0 (default: all).")
    ] = None,
    kind: Kind,
    window: AnyWindow,
    axes: AxesOption = None,
    there: dict[str, Any],
    force: ForceOption = False,
    clip: Annotated[bool, typer.Option("--clip", help="Clip what an image's pixels cannot hold.")] = False,
) -> None:
    """Pool an image or arrays from one file into another.

    Of an image, height and width are pooled, and the pixels of the result are of the input's type: rounded, if whole.
    Of arrays, the last axes are pooled, as many as --kernel has numbers, and the last two by --global.
    """
    from .work import pool_file

    def make(ndim: int, usual: tuple[int, ...] | None) -> Pool:
        return Pool(kind, window, arguments.pooled_axes(axes, window, ndim, usual), **there)

    source, target = Place.of(input_, "standard input"), Place.of(output, "standard output")
    pool_file(source, target, make, force, clip, format_, page)


@app.command(name="explain", cls=Command)
@with_pool
def explain_(
    *,
    shape: Annotated[str, typer.Option("--shape", metavar="N[,N...]", help="The input's shape.")],
    kind: Kind,
    window: AnyWindow,
    axes: AxesOption = None,
    there: dict[str, Any],
    html: Annotated[str | None, typer.Option("--html", metavar="FILE", help="Also write a page to play with.")] = None,
    force: ForceOption = False,
) -> None:
    """Draw the windows: which cells each output sees, what it divides by, and what is dropped."""
    from ..viz.terminal import explanation
    from .files import check_free, write_whole

    sizes = arguments.each_number("--shape", shape)
    if max(sizes) > LONGEST_EXPLAINED:
        raise ValueError(
            f"--shape {shape}: axes of up to {LONGEST_EXPLAINED} cells are explained; give a smaller shape"
        )
    laid = Pool(kind, window, arguments.pooled_axes(axes, window, len(sizes), tuple(range(len(sizes)))), **there)
    place = None if html is None else Place.of(html, "standard output")
    console = Console(highlight=False, stderr=place is not None and place.path is None)
    drawing = explanation(laid, sizes)
    if place is not None:
        check_free(place, force)
        text = explain.page(laid, _some_cells(sizes, laid.skip))
        write_whole(place, lambda file: file.write(text.encode()))
        console.print(drawing)
        console.print(f"\n[bold]{escape(str(place))}[/]: open it in a browser, point at an output, change anything.")
    else:
        console.print(drawing)


def _some_cells(shape: tuple[int, ...], skip: float | None) -> Array:
    """Numbers to look at; about every fifth is not there where cells can be skipped."""
    rng = np.random.default_rng(0)
    x = rng.integers(-9, 10, shape)
    if skip is None:
        return x
    whole = isinstance(skip, int) and abs(skip) < 1 << 63
    return np.where(rng.random(shape) < 0.2, skip, x if whole else x.astype(float))


@app.command(name="c", cls=Command)
@with_pool
def c_(
    *,
    shape: Annotated[str, typer.Option("--shape", metavar="N[,N...]", help="The input's shape, such as 1,28,28.")],
    dtype: Annotated[
        str, typer.Option("--dtype", metavar="DTYPE", help="Of the input: float32, int8, uint8 or int16.")
    ] = "float32",
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FOLDER", help="A new folder, for a header, a source and a self test."),
    ],
    name: Annotated[str, typer.Option("--name", help="What the C function is called.")] = "pool",
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="RUNTIME",
            help=f"Round means of integers as a runtime does: {arguments.words(PROFILES)}.",
        ),
    ] = None,
    vjp: Annotated[bool, typer.Option("--vjp", help="Write what training needs as well (float32).")] = False,
    small: Annotated[
        bool, typer.Option("--small", help="Less flash and more time: one loop for windows at the edges and inside.")
    ] = False,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure it with the cross-compilers that are installed.")
    ] = False,
    kind: Kind,
    window: AnyWindow,
    axes: AxesOption = None,
    there: dict[str, Any],
    force: Annotated[bool, typer.Option("--force", help="Write into a folder that exists.")] = False,
) -> None:
    """Write the pool as plain C for a microcontroller, with a self test.

    Pooled are all axes but the first, which is the channels, unless --kernel has a number for each axis, or --axes.
    """
    sizes = arguments.each_number("--shape", shape)
    usual = tuple(range(min(1, len(sizes) - 1), len(sizes)))
    laid = Pool(kind, window, arguments.pooled_axes(axes, window, len(sizes), usual), **there)
    code = export(laid, sizes, dtype, name=name, profile=profile, vjp=vjp, small=small)
    written = code.write(output, force)
    for path in written:
        typer.echo(path)
    typer.echo(code.report(measure))
    sources = " ".join(str(path) for path in written[1:])
    typer.echo(f"test it here: cc -std=c99 -D{name.upper()}_SELF_TEST {sources} -lm -o {name}_test && ./{name}_test")


@app.command(cls=Command)
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
    if len(faults) > 10:
        console.print(f"and {len(faults) - 10} more", style="red")
    if faults:
        raise typer.Exit(1)
    console.print("Everything agrees.", style="green")


@app.command(name="prove", cls=Command)
@with_pool
def prove_(
    *,
    shape: Annotated[
        str | None,
        typer.Option("--shape", metavar="N[,N...]", help="Lengths of the pooled axes (default: two windows)."),
    ] = None,
    claims: Annotated[
        list[str] | None,
        typer.Option(
            "--claim", metavar="CLAIM", help="What is claimed; may be repeated (default: all that should hold)."
        ),
    ] = None,
    box: Annotated[
        str | None, typer.Option("--box", metavar="LO:HI", help="Where the cells of smooth-max and lp lie.")
    ] = None,
    kind: Kind,
    window: AnyWindow,
    there: dict[str, Any],
) -> None:
    """Prove claims about a pool for all inputs, or refute them by a window.

    Claims: value, weights, transpose, monotone, lipschitz, bounds, "linear bounds"; also "lipschitz 0.99" with a
    constant of your own, and "ties last" with another policy. Exit code 1 if any is refuted. Needs the extra prove.
    """
    from ..prove import proving

    sizes = None if shape is None else arguments.each_number("--shape", shape)
    rank = len(sizes) if sizes is not None else window.rank or 1
    laid = Pool(kind, window, tuple(range(rank)), **there)
    verdicts = []
    for finding in proving.prove(laid, sizes, claims, arguments.box_of(box)):
        colour = {"proved": "green", "refuted": "red"}.get(finding.verdict, "yellow")
        typer.secho(str(finding), fg=colour)
        verdicts.append(finding.verdict)
    if "refuted" in verdicts:
        raise typer.Exit(1)


@app.command(cls=Command)
def pyramid(
    source: Annotated[
        str,
        typer.Argument(metavar="SOURCE", help=".npy, TIFF, Zarr or OME-Zarr; demo is a photograph that comes along."),
    ],
    target: Annotated[str, typer.Argument(metavar="TARGET", help="The folder to write, as OME-Zarr 0.5.")],
    kind: Annotated[
        str | None, typer.Option("--kind", metavar="KIND", help="avg, mode, max, min or median (default: avg).")
    ] = None,
    factor: Annotated[
        str, typer.Option("--factor", metavar="N[,N...]", help="Cells of a level in one of the next, along each axis.")
    ] = "2",
    levels: Annotated[
        int | None, typer.Option("--levels", min=1, help="How many, with the first (default: down to 256 cells).")
    ] = None,
    axes: Annotated[
        str | None, typer.Option("--axes", metavar="NAMES", help="Such as czyx (default: the last).")
    ] = None,
    labels: Annotated[bool, typer.Option("--labels", help="The cells are labels: their mode is taken.")] = False,
    skip: Annotated[str | None, typer.Option("--skip", metavar="NUMBER", help="The value of cells not there.")] = None,
    scale: Annotated[
        str | None, typer.Option("--scale", metavar="X[,X...]", help="The size of a cell along each axis.")
    ] = None,
    unit: Annotated[str | None, typer.Option("--unit", help="The unit of that size, such as micrometer.")] = None,
    chunks: Annotated[str | None, typer.Option("--chunks", metavar="N,...", help="Cells of a chunk.")] = None,
    shards: Annotated[str | None, typer.Option("--shards", metavar="N,...", help="Cells of a shard.")] = None,
    cascade: Annotated[bool, typer.Option("--cascade", help="Pool each level of the one before.")] = False,
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="ADDRESS", help="The scheduler of a Dask cluster.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what was interrupted.")] = False,
    force: ForceOption = False,
) -> None:
    """Write an image and its smaller levels as OME-Zarr 0.5, in one pass over the source."""
    from .pyramids import run

    numbers: dict[str, Any] = {"factors": arguments.whole_numbers("--factor", factor)}
    for name, typed in (("chunks", chunks), ("shards", shards)):
        numbers[name] = None if typed is None else arguments.each_number(f"--{name}", typed)
    report = run(
        source,
        target,
        cluster,
        kind=kind,
        levels=levels,
        axes=axes,
        labels=labels,
        scale=scale,
        unit=unit,
        cascade=cascade,
        resume=resume,
        overwrite=force,
        **arguments.skip_of(skip, None),
        **numbers,
    )
    Console(highlight=False, soft_wrap=True).print(escape(str(report)))
