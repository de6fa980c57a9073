"""The engine's source as text: its layers, and that no instruction is used that was not asked for."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from ndpool import _engine

ROOT = Path(__file__).parent.parent
LAYERS = ("base", "plan", "passes", "kinds", "bindings")

# --- layers ---------------------------------------------------------------------------------------


def sources(csrc):
    return [path for path in sorted(csrc.rglob("*")) if path.suffix in {".h", ".cpp", ".def"}]


def layer(csrc, path):
    """The folder of a file below csrc; None for one that lies in none of the layers."""
    name = path.relative_to(csrc).parts[0]
    return name if name in LAYERS else None


def included(csrc, path):
    """The files of csrc that a file includes."""
    for name in re.findall(r'^\s*#\s*include\s+"([^"]+)"', path.read_text(), re.MULTILINE):
        found = [place for place in (csrc / name, path.parent / name) if place.is_file()]
        found = found or [other for other in sources(csrc) if other.name == name]
        assert found, f"{path.relative_to(csrc)} includes {name}, which is not below csrc"
        yield found[0].resolve()


def breaches(csrc):
    """Each include of a file of a later layer, as a line."""
    csrc = csrc.resolve()
    lines = []
    for path in sources(csrc):
        own = layer(csrc, path)
        if own is None:
            continue
        for other in included(csrc, path):
            theirs = layer(csrc, other)
            names = f"{path.relative_to(csrc)} includes {other.relative_to(csrc)}"
            if other.is_relative_to(csrc / "tests") or (theirs and LAYERS.index(theirs) > LAYERS.index(own)):
                lines.append(names)
        if own != "bindings" and re.search(r"#\s*include\s+<(nanobind/|Python\.h)", path.read_text()):
            lines.append(f"{path.relative_to(csrc)} includes Python")
    return lines


def test_no_file_includes_one_of_a_later_layer():
    assert breaches(ROOT / "csrc") == []


def test_every_layer_that_exists_has_been_read():
    found = {layer(ROOT / "csrc", path) for path in sources(ROOT / "csrc")}
    assert {"base", "plan", "kinds", "bindings"} <= found


@pytest.mark.parametrize(
    ("file", "line", "breach"),
    [
        ("base/threads.h", '#include "plan/geometry.h"', "base/threads.h includes plan/geometry.h"),
        ("base/types.h", '#include "engine.h"', "base/types.h includes kinds/engine.h"),
        ("plan/make_plan.cpp", '#  include "../kinds/levels.h"', "plan/make_plan.cpp includes kinds/levels.h"),
        ("kinds/engine.cpp", '#include "bindings/tensors.h"', "kinds/engine.cpp includes bindings/tensors.h"),
        ("kinds/engine.cpp", '#include "tests/check.h"', "kinds/engine.cpp includes tests/check.h"),
        ("kinds/levels.cpp", "#include <nanobind/nanobind.h>", "kinds/levels.cpp includes Python"),
        ("base/scratch.h", "#include <Python.h>", "base/scratch.h includes Python"),
        ("bindings/module.cpp", '#include "base/threads.h"', None),
        ("plan/geometry.h", '#include "base/threads.h"', None),
        ("base/threads.cpp", '// #include "plan/geometry.h"', None),
    ],
)
def test_a_breach_is_found(tmp_path, file, line, breach):
    """The test above sees what it is there for."""
    csrc = tmp_path / "csrc"
    shutil.copytree(ROOT / "csrc", csrc)
    (csrc / "engine.h").unlink(missing_ok=True)
    path = csrc / file
    path.write_text(path.read_text() + line + "\n")
    assert breaches(csrc) == ([breach] if breach else [])


# --- extensions of the processor ------------------------------------------------------------------


def asked_for(root):
    """The extensions that the processor is asked for, in whatever source file."""
    pattern = r'NDPOOL_EXTENSION\(\w+, "(\w+)"\)|__builtin_cpu_supports\("(\w+)"\)'
    text = "".join(path.read_text() for path in sources(root / "csrc"))
    return {name for pair in re.findall(pattern, text) for name in pair if name}


def compiled_with(root):
    """The extensions that are options of the compiler: spelled out in a CMakeLists.txt, or in the table it reads."""
    names = set()
    for path in (root / "CMakeLists.txt", root / "csrc" / "CMakeLists.txt"):
        if not path.exists():
            continue
        text = re.sub(r"#.*", "", path.read_text())
        names |= set(re.findall(r"(?<![\w-])-m((?:sse|ssse|avx|fma|bmi|f16c|lzcnt|popcnt|adx)\w*(?:\.\d)?)", text))
        if "extensions.def" in text:
            names |= {name for _, name in table(root)}
    return names


def table(root):
    return re.findall(
        r'^NDPOOL_EXTENSION\((\w+), "(\w+)"\)', (root / "csrc/kinds/extensions.def").read_text(), re.MULTILINE
    )


def test_every_extension_that_is_compiled_in_is_asked_for():
    assert compiled_with(ROOT)
    assert compiled_with(ROOT) <= asked_for(ROOT)


def test_the_build_and_the_levels_read_one_table():
    assert '#include "kinds/extensions.def"' in (ROOT / "csrc/kinds/processor.h").read_text()
    assert "extensions.def" in (ROOT / "csrc/CMakeLists.txt").read_text()
    assert {level for level, _ in table(ROOT)} == {"avx2", "avx512"}


def test_an_extension_that_is_not_asked_for_is_found(tmp_path):
    """As BMI2 once was: an option of the compiler that no line of the source asks the processor for."""
    shutil.copytree(ROOT / "csrc", tmp_path / "csrc")
    (tmp_path / "csrc/kinds/extensions.def").write_text(
        'NDPOOL_EXTENSION(avx2, "avx2")\nNDPOOL_EXTENSION(avx2, "fma")\n'
    )
    (tmp_path / "CMakeLists.txt").write_text("ndpool_level(avx2 -mavx2 -mfma -mbmi2)  # -mavx512f in a comment\n")
    assert compiled_with(tmp_path) - asked_for(tmp_path) == {"bmi2"}


def test_the_levels_in_use_are_the_processors():
    """What Linux says of the processor, which is not who the engine asks."""
    information = Path("/proc/cpuinfo")
    flags = re.search(r"^flags\s*:(.*)$", information.read_text(), re.MULTILINE) if information.exists() else None
    if flags is None:
        pytest.skip("this system does not list the processor's extensions")
    has = set(flags[1].split())
    expected = ["baseline"]
    for level in ("avx2", "avx512"):
        if not {name for of, name in table(ROOT) if of == level} <= has:
            break
        expected.append(level)
    # Wheels have all of them; a build for this machine has the best one.
    assert _engine.levels() in (expected, expected[-1:])
