"""The report of `Quantize`: which products are int8, which stayed in float and why, and the errors."""

from __future__ import annotations

from dataclasses import dataclass

from annotated_region.printable import counted

__all__ = ["QuantizationReport", "ProductReport"]

_SHOWN = 8


@dataclass(frozen=True, slots=True)
class ProductReport:
    """One convolution or matrix product.

    Attributes
    ----------
    name, op, origin
        The binding, the op and its origin.
    work
        The number of multiplications, with an assumed value for symbolic extents.
    reason
        Why it stayed in float; empty if it is int8.
    error
        The relative root mean square error of its own result; None if not measured.
    """

    name: str
    op: str
    origin: str
    work: float
    reason: str = ""
    error: float | None = None

    @property
    def is_int8(self) -> bool:
        """Whether it is computed in int8."""
        return not self.reason


@dataclass(frozen=True, slots=True)
class QuantizationReport:
    """The report of `Quantize` on a module.

    Attributes
    ----------
    products
        The products, in program order.
    inputs
        The number of calibration inputs.
    error
        The relative root mean square error of the whole result; None unless measured, which requires
        ``accuracy=``.
    """

    products: tuple[ProductReport, ...]
    inputs: int
    error: float | None = None

    @property
    def share(self) -> float:
        """The percentage of products that are int8; 100 if there are none."""
        count = len(self.products)
        return 100 * sum(each.is_int8 for each in self.products) / count if count else 100.0

    @property
    def share_of_work(self) -> float:
        """The percentage of multiplications in int8 products; 100 if there are none."""
        whole = sum(each.work for each in self.products)
        return 100 * sum(each.work for each in self.products if each.is_int8) / whole if whole else 100.0

    def __str__(self) -> str:
        """A few lines for people."""
        count = sum(each.is_int8 for each in self.products)
        lines = [
            f"{count} of {len(self.products)} products in int8 ({self.share_of_work:.1f} % of the "
            f"multiplications), of {counted(self.inputs, 'input')}"
        ]
        if self.error is not None:
            lines.append(f"the result is off by {self.error:.2g} of it, in the root of the mean square")
        left = [each for each in self.products if not each.is_int8]
        lines += [f"in float: {each.name} ({each.op}): {each.reason}" for each in left[:_SHOWN]]
        if len(left) > _SHOWN:
            lines.append(f"... and {len(left) - _SHOWN} others in float")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, object]:
        """The same as data, for JSON."""
        products = [
            {
                "name": each.name,
                "op": each.op,
                "origin": each.origin,
                "work": each.work,
                "int8": each.is_int8,
                "reason": each.reason,
                "error": each.error,
            }
            for each in self.products
        ]
        return {
            "inputs": self.inputs,
            "share": self.share,
            "share_of_work": self.share_of_work,
            "error": self.error,
            "products": products,
        }
