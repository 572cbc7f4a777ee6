"""The options of target ``dnnl``, and which of them do not take effect on this processor."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields

from annotated_region.backends.dnnl import processor
from annotated_region.backends.dnnl.ops import TARGET
from annotated_region.errors import CodegenError
from annotated_region.targets.options import known_options

__all__ = ["GeneratorSettings", "remarks"]

_FLOAT = "fp32"
_PRECISIONS = (_FLOAT, "bf16", "bf16_if_faster")
_ROUNDED = "bfloat16"
# The digits per activation in products with packed weights, 8 bits each, where they are not in bfloat16.
_DIGITS = {"float32": 3, "int16": 2, "int8": 1, _ROUNDED: 3}


@dataclass(frozen=True, slots=True)
class GeneratorSettings:
    """The settings of the code generator.

    Attributes
    ----------
    precision
        ``"fp32"`` (the default); ``"bf16"`` for bfloat16 products where the processor supports them;
        ``"bf16_if_faster"`` for bfloat16 products only where they are faster than float32.
    finite_math
        Whether to use oneDNN's clip and GELU, which differ from TVM on NaN and infinity; False by default,
        implied by bfloat16.
    packed_activations
        The precision of activations in products with 4- and 8-bit weights: ``"float32"`` (the default);
        ``"int16"`` or ``"int8"``, scaled by group; ``"bfloat16"`` where there are more than 16 rows, and
        products of bfloat16 are faster. Only kernels in integer arithmetic (AVX-512 VNNI), or those of
        bfloat16, round; the others compute in float32.
    """

    precision: str
    finite_math: bool
    packed_activations: str

    @property
    def digits(self) -> int:
        """The number of 8-bit digits of an activation in products with packed weights."""
        return _DIGITS[self.packed_activations]

    @property
    def rounds_activations(self) -> bool:
        """Whether products of many rows with packed weights are those of bfloat16."""
        return self.packed_activations == _ROUNDED

    @classmethod
    def of(cls, options: Mapping[str, object]) -> GeneratorSettings:
        """Settings from the user's options.

        Raises
        ------
        CodegenError
            An option or its value is unknown.
        """
        given = known_options(TARGET, options, [field.name for field in fields(cls)])
        precision = _choice(given, "precision", _PRECISIONS)
        finite_math = _finite_math(given) or precision != _FLOAT
        return cls(precision, finite_math, _choice(given, "packed_activations", _DIGITS))


def _finite_math(given: Mapping[str, object]) -> bool:
    value = given.get("finite_math", False)
    if not isinstance(value, int) or value not in (False, True):
        raise CodegenError(f"target 'dnnl' takes True or False for the option 'finite_math', not {value!r}")
    return bool(value)


def _choice(given: Mapping[str, object], name: str, known: Collection[str]) -> str:
    """The value of an option; by default the first of the known ones."""
    value = str(given.get(name, next(iter(known))))
    if value not in known:
        names = ", ".join(map(repr, known))
        raise CodegenError(
            f"target 'dnnl' does not know the {name.replace('_', ' ')} {value!r}; known: {names}"
        )
    return value


def remarks(options: Mapping[str, object]) -> list[str]:
    """Remarks that products run in float32, if those of bfloat16 are missing or slow on the processor."""
    settings = GeneratorSettings.of(options)
    reason = "this processor has no instructions for products of bfloat16 (AVX512_BF16)"
    if processor.multiplies_bfloat16():
        reason = "this processor's products of bfloat16 (AVX512_BF16) are slower"
    found = []
    if settings.precision != _FLOAT and not processor.multiplies_bfloat16():
        found.append(f"precision {settings.precision!r} runs in float32 here, because {reason}")
    if settings.rounds_activations and not processor.multiplies_bfloat16_faster():
        found.append(f"packed activations {_ROUNDED!r} run in float32 here, because {reason}")
    return found
