"""A pyramid from beginning to end: arguments checked, levels created, blocks made, and metadata written last."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

from .. import __version__
from ..kind import INTEGERS, Kind
from ..kinds import Avg, Median, Mode, Quantile
from ..plan import ITEM_BYTES
from ..skipping import held
from ..table import KINDS, in_words, parameters_of
from ..windows import whole
from . import chunks as chunks_
from . import ome, running, sizes
from .blocks import Work
from .journal import Journal
from .ome import Frame
from .sizes import Shape, Sizes
from .sources import Source, source_of
from .stored import stored_of

#: The kinds that need no numbers, by their names.
NAMES: dict[str, type[Kind]] = {
    in_words(kind.__name__): kind
    for kind in KINDS
    if all(each.default is not each.empty for each in parameters_of(kind))
}
NAMES["mean"] = NAMES["avg"]


@dataclass(frozen=True)
class Report:
    """What a run did: the shapes of the levels, its time, the bytes of cells read and written, and its peak memory.

    `read` counts bytes of cells of the source, and `written` those of all levels that this run wrote. `stored` is what
    the target takes on the disk.
    """

    target: str
    shapes: tuple[Shape, ...]
    seconds: float
    read: int
    written: int
    stored: int
    peak: int

    def __str__(self) -> str:
        shapes = ", ".join("x".join(map(str, shape)) for shape in self.shapes)
        return (
            f"{self.target}: {len(self.shapes)} levels ({shapes}) in {self.seconds:.1f} s, {_size(self.read)} read, "
            f"{_size(self.written)} written, {_size(self.stored)} on the disk, peak memory {_size(self.peak)}"
        )


def _size(count: int) -> str:
    """A number of bytes in words.

    >>> _size(900), _size(230_400), _size(400 << 20)
    ('1 KiB', '225 KiB', '400 MiB')
    """
    return f"{-(-count // 1024)} KiB" if count < 10 << 20 else f"{count / 2**20:.0f} MiB"


def write(
    source: Any,
    target: Any,
    kind: Kind | str | None = None,
    factors: int | Sequence[int] = 2,
    levels: int | None = None,
    *,
    axes: str | Sequence[str] | None = None,
    labels: bool = False,
    skip: float | None = None,
    scale: Sequence[float] | None = None,
    unit: str | None = None,
    chunks: Sequence[int] | None = None,
    shards: Sequence[int] | None = None,
    cascade: bool = False,
    overwrite: bool = False,
    resume: bool = False,
    client: Any = None,
    progress: bool = True,
) -> Report:
    """Write an image and its smaller levels as OME-Zarr 0.5, in one pass over the source.

    Each cell of level l is the pool of the `factors**l` cells of the source that it covers, rounded once. At the end of
    an axis it has the cells that are there. The default is the mean: of integers rounded to the nearest, half to even,
    and for `labels` the mode, so that no label comes out that is not there.

    Every cell of the source is read once. A block of it is pooled to all levels while it is in memory, by threads or by
    the workers of a Dask cluster, each of which holds one block. The metadata comes last: what was interrupted does not
    look like an image, and `resume=True` does what is missing.

    Args:
        source: A NumPy or Dask array, or the path of a .npy, a TIFF, or an array or image of Zarr.
        target: The folder to write. If it is the source, an image of OME-Zarr 0.5, its smaller levels are replaced.
        kind: A kind, or the name of one: "avg", "mode", "max", "min" or "median".
        factors: Cells of a level in one cell of the next: one int for all axes of space, or one for each axis.
        levels: How many levels, with the first; by default, until the last is no longer than 256.
        axes: The names of the axes, such as "czyx"; by default the last of "tczyx".
        labels: Whether the cells are labels.
        skip: The value of cells that are not there.
        scale: The size of a cell of the source, along each axis or along those of space.
        unit: The unit of that size, such as "micrometer".
        chunks: The chunks of the levels. Deeper levels have shorter ones where a block has fewer cells.
        shards: The shards, if chunks are to be stored together in larger files.
        cascade: Whether a level is the pool of the level before, which is rounded already, as other tools do.
        overwrite: Whether a target that is there is replaced.
        resume: Whether to go on with what was interrupted.
        client: A client of `dask.distributed`; by default the one that is there, if any.
        progress: Whether to show a bar on the error stream, if `rich` is installed.
    """
    began = time.perf_counter()
    if find_spec("zarr") is None:
        raise ModuleNotFoundError("pyramids need zarr; install it with: pip install 'ndpool[zarr]'", name="zarr")
    place = Path(target)
    with closing(source_of(source)) as found:
        in_place = found.path is not None and place.exists() and place.resolve() == Path(found.path).resolve()
        frame = _frame(found, axes, scale, unit)
        steps = _factors(factors, frame, len(found.shape))
        chosen = kind_of(kind, found.dtype.name, labels)
        if skip is not None:
            held(skip, found.dtype.name)
        count = sizes.level_count(found.shape, steps) if levels is None else whole("levels", levels, 1)
        laid = _sizes(found, steps, count, chunks, shards)
        copied = _copied(found, laid)
        settings = {
            "source": found.name,
            "shape": list(found.shape),
            "dtype": found.dtype.name,
            "kind": repr(chosen),
            "levels": [[list(each.shape), list(each.chunks), list(each.shards or ())] for each in laid.levels],
            "block": list(laid.block),
            "skip": repr(skip),
            "cascade": cascade,
            "codecs": repr(copied),
        }
        shuffles = not (labels or isinstance(chosen, Mode))
        storing = frame.axes, shuffles, copied
        done = _prepare(place, found, frame, laid, settings, overwrite, resume, in_place, storing)
        work = Work(
            found, str(place.resolve()), laid, chosen, skip, cascade, int(in_place), bool(copied), shuffles, uuid4().hex
        )
        cluster = running.client_of(client)
        read, written = _run(work, done, Journal(place), cluster, progress)
        _finish(place, frame, laid, chosen, skip, cascade)
        stored = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
        shapes = tuple(level.shape for level in laid.levels)
        seconds = time.perf_counter() - began
        return Report(str(place), shapes, seconds, read, written, stored, running.peak_memory(cluster))


# --- arguments ------------------------------------------------------------------------------------


def kind_of(kind: Kind | str | None, dtype: str, labels: bool = False) -> Kind:
    """The kind of the levels, which keeps the dtype of the source.

    >>> kind_of(None, "uint16"), kind_of("median", "uint8"), kind_of(None, "uint32", labels=True)
    (Avg(count_include_pad=True, divisor_override=None, rounding='half_even'), Quantile(q=0.5, method='lower'), ...)
    """
    if dtype not in ITEM_BYTES or dtype.startswith("complex"):
        raise TypeError(f"the source has dtype {dtype}; give real numbers of at most 64 bits")
    whole_numbers = dtype in INTEGERS
    if labels and not whole_numbers:
        raise TypeError(f"labels are integers, and the source has {dtype}; convert it, or leave labels out")
    if isinstance(kind, str):
        if kind not in NAMES:
            raise ValueError(f"kind={kind!r} is not a kind without numbers; give one of {', '.join(sorted(NAMES))}")
        kind = NAMES[kind]()
    if kind is None:
        kind = Mode() if labels else Avg()
    if labels and isinstance(kind, Avg | Median):
        raise ValueError(f"{kind!r} of labels is a label that is not there; give kind='mode', or leave labels out")
    if whole_numbers and kind == Avg():
        kind = Avg(rounding="half_even")
    if whole_numbers and kind == Median():
        kind = Quantile(0.5, "lower")
    if not isinstance(kind, Kind):
        raise TypeError(f"kind={kind!r} is a {type(kind).__name__}; give a Kind or the name of one")
    if kind.result_name(dtype) != dtype:
        raise ValueError(
            f"{kind!r} makes {kind.result_name(dtype)} of {dtype}, and all levels of an image have one dtype; give "
            "a kind that keeps it, such as Avg(rounding='half_even'), or convert the source"
        )
    kind.check_dtype(dtype)
    return kind


def _frame(source: Source, axes: Any, scale: Any, unit: str | None) -> Frame:
    """Where the source lies: as the arguments say, or its own metadata, or else in cells from 0."""
    ndim = len(source.shape)
    known = source.frame
    names = known.axes if known is not None and axes is None and known.axes else ome.checked_axes(axes, ndim)
    own = known is not None and known.axes == names
    space = Frame(names, (), (), ()).space
    sizes_ = known.scale if own and known is not None else (1.0,) * ndim
    start = known.translation if own and known is not None else (0.0,) * ndim
    units = known.units if own and known is not None else (None,) * ndim
    if scale is not None:
        given = tuple(float(size) for size in scale)
        if len(given) not in (ndim, len(space)) or not all(0 < size < float("inf") for size in given):
            raise ValueError(
                f"scale={given} for the axes {''.join(names)!r}; give a positive size for each, or for each of space"
            )
        along = dict(zip(space, given, strict=True)) if len(given) == len(space) else dict(enumerate(given))
        sizes_ = tuple(along.get(d, size) for d, size in enumerate(sizes_))
    if unit is not None:
        units = tuple(unit if d in space else each for d, each in enumerate(units))
    return Frame(names, sizes_, start, units)


def _factors(factors: Any, frame: Frame, ndim: int) -> Shape:
    """A factor for each axis: one alone is for those of space."""
    given = factors if isinstance(factors, int) else tuple(factors)
    if isinstance(given, tuple):
        steps = tuple(whole(f"factors[{i}]", f, 1) for i, f in enumerate(given))
        if len(steps) not in (ndim, len(frame.space)):
            raise ValueError(
                f"factors={given} for the axes {''.join(frame.axes)!r}; give one for each, or for each of space"
            )
        if len(steps) == ndim:
            return steps
        along = dict(zip(frame.space, steps, strict=True))
    else:
        along = dict.fromkeys(frame.space, whole("factors", given, 1))
    return tuple(along.get(d, 1) for d in range(ndim))


def _sizes(source: Source, steps: Shape, count: int, chunks: Any, shards: Any) -> Sizes:
    ndim = len(source.shape)
    if 0 in source.shape:
        raise ValueError(f"{source.name} has shape {source.shape}, and no cell; give one with cells")
    itemsize, stored = source.dtype.itemsize, stored_of(source.opened)
    if chunks is not None:
        inner = _each("chunks", chunks, ndim)
    elif shards is None and stored and sizes.suit_target(stored.chunks, source.shape, itemsize, steps, count):
        inner = stored.chunks
    else:
        inner = sizes.usual_chunks(source.shape, steps, itemsize)
    inner = tuple(min(c, n) for c, n in zip(inner, source.shape, strict=True))
    outer = None if shards is None else _each("shards", shards, ndim)
    if outer is not None and any(s % c for s, c in zip(outer, inner, strict=True)):
        raise ValueError(f"shards={outer} are not multiples of chunks={inner}; make them so")
    return sizes.sizes_of(source.shape, itemsize, steps, count, inner, outer, source.chunks)


def _copied(source: Source, laid: Sizes) -> tuple[Any, ...]:
    """The codecs of the source, if the first level has the same chunks, which are copied then; else none."""
    stored, first = stored_of(source.opened), laid.levels[0]
    same = stored is not None and first.shards is None and first.chunks == stored.chunks
    return stored.codecs if stored is not None and same and not stored.fill else ()


def _each(name: str, given: Any, ndim: int) -> Shape:
    found = tuple(whole(f"{name}[{i}]", n, 1) for i, n in enumerate(given))
    if len(found) != ndim:
        raise ValueError(f"{name}={found} for {ndim} axes; give one number for each")
    return found


# --- the target -----------------------------------------------------------------------------------


def _prepare(
    place: Path,
    source: Source,
    frame: Frame,
    laid: Sizes,
    settings: dict[str, Any],
    overwrite: bool,
    resume: bool,
    in_place: bool,
    storing: tuple[tuple[str, ...], bool, tuple[Any, ...]],
) -> set[int]:
    """Empty levels in the target, or those of a run that was interrupted; returns the blocks that are done."""
    journal = Journal(place)
    if resume:
        if not journal.exists:
            raise ValueError(f"{place}: there is no interrupted run to resume; leave resume out")
        return journal.done(settings)
    if in_place:
        _keep_first_level(place, source, frame)
    elif place.exists() and any(place.iterdir() if place.is_dir() else [place]):
        if not overwrite:
            also = ", or resume=True (--resume) to go on with what was interrupted" if journal.exists else ""
            raise FileExistsError(f"{place} exists; give overwrite=True (--force) to replace it{also}")
        _remove(place, journal)
    place.mkdir(parents=True, exist_ok=True)
    journal.start(settings)
    axes, shuffles, copied = storing
    for number, level in enumerate(laid.levels):
        if number >= int(in_place):
            chunks_.create(place, number, level, source.dtype, axes, shuffles, () if number else copied)
    return set()


def _remove(place: Path, journal: Journal) -> None:
    """What is there, if it is a group of Zarr or what one was to become."""
    if not (journal.exists or (place / "zarr.json").exists() or (place / ".zgroup").exists()):
        raise FileExistsError(f"{place} exists and is no image of Zarr, and is not removed; remove it yourself")
    shutil.rmtree(place)


def _keep_first_level(place: Path, source: Source, frame: Frame) -> None:
    """An image whose source is its own first level has that alone while the others are made."""
    import zarr

    group = zarr.open_group(str(place), mode="r+")
    if source.inner != "0" or group.metadata.zarr_format != 3:
        raise ValueError(f"{place} is not OME-Zarr {ome.VERSION} with a level '0'; give another target")
    group.attrs.update(ome.metadata(frame, place.name, [(1,) * len(source.shape)], "none", {}))
    for name in [name for name in group.array_keys() if name != "0" and name.isdigit()]:
        del group[name]


def _run(work: Work, done: set[int], journal: Journal, cluster: Any, progress: bool) -> tuple[int, int]:
    """Make the blocks that are not done; returns the bytes of the cells that were read and written."""
    blocks = [block for block in enumerate(work.sizes.regions()) if block[0] not in done]
    made = running.in_threads(work, blocks) if cluster is None else running.on_cluster(cluster, work, blocks)
    total = 0
    with running.progress(progress, work.sizes.blocks, len(done)) as step:
        for number, read in made:
            journal.add(number)
            total += read
            step()
    written = sum(work.sizes.cells(region, work.first) for _, region in blocks)
    return total, written * work.source.dtype.itemsize


def _finish(place: Path, frame: Frame, laid: Sizes, kind: Kind, skip: Any, cascade: bool) -> None:
    """The metadata, which makes an image of the levels."""
    import zarr

    said = {
        "method": "ndpool.pyramid.write",
        "version": __version__,
        "kind": repr(kind),
        "skip": None if skip is None else repr(skip),
        "of": "the level before" if cascade else "the first level",
    }
    attributes = ome.metadata(
        frame, place.name, [level.factors for level in laid.levels], in_words(type(kind).__name__), said
    )
    group = zarr.open_group(str(place), mode="a", zarr_format=3)
    group.attrs.update(attributes)
    Journal(place).remove()
