"""What exported C costs: by formula, and measured where a cross-compiler is installed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .chips import Measured
    from .code import Code


@dataclass(frozen=True)
class Sizes:
    """Cells, bytes and operations of exported C, by formula.

    `scratch_bytes` is memory beside x and y, `kept_bytes` what training keeps, `constant_bytes` what weights take in
    flash. An operation is a cell that an output looks at, or a product with a weight.
    """

    inputs: int
    outputs: int
    input_bytes: int
    output_bytes: int
    input_type: str
    output_type: str
    operations: int
    headers: tuple[str, ...] = ()
    scratch_bytes: int = 0
    kept_bytes: int = 0
    constant_bytes: int = 0

    @property
    def ram_bytes(self) -> int:
        """Input, output, and all beside them; the stack comes on top."""
        return self.input_bytes + self.output_bytes + self.scratch_bytes + self.kept_bytes


@dataclass(frozen=True)
class Report:
    """The costs of exported C, to be read or printed."""

    name: str
    sizes: Sizes
    measured: tuple[Measured, ...] = field(default=())

    def __str__(self) -> str:
        sizes = self.sizes
        lines = [
            f"{self.name}: {sizes.inputs} cells in, {sizes.outputs} out, {sizes.operations} operations",
            f"  RAM    {sizes.ram_bytes} bytes: x {sizes.input_bytes}, y {sizes.output_bytes}, "
            f"scratch {sizes.scratch_bytes}, kept for training {sizes.kept_bytes}",
            f"  flash  {sizes.constant_bytes} bytes of weights, and the code",
        ]
        for each in self.measured:
            lines.append(f"  {each}")
        return "\n".join(lines)


def reported(code: Code, measure: bool) -> Report:
    """The report, with what the chips say whose tools are here."""
    from .chips import measured_on_all

    return Report(code.name, code.sizes, measured_on_all(code) if measure else ())
