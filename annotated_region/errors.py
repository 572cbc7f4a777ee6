"""Every error that annotated-region raises: one class a meaning.

Each message says what is wrong, where (function, binding, target) and what to do about it.
"""

from __future__ import annotations

__all__ = [
    "AnnotatedRegionError",
    "ArgumentError",
    "BackendUnavailableError",
    "BuildError",
    "CacheError",
    "CacheWarning",
    "CodegenError",
    "ConformanceError",
    "DocumentError",
    "DrawingError",
    "InputError",
    "InvalidBackendError",
    "InvalidClaimError",
    "InvalidModuleError",
    "MalformedAnnotationError",
    "MeasurementWarning",
    "ModelError",
    "OpInfoError",
    "OverlappingRegionsError",
    "PinError",
    "PolicyError",
    "RegionCycleError",
    "RegionRejectedError",
    "RegionRejectedWarning",
    "ReproducerError",
    "RuleError",
    "RunError",
    "SlowBackendWarning",
    "UnknownTargetError",
    "UsageError",
    "VersionError",
]


class AnnotatedRegionError(Exception):
    """Base of all errors of this package."""


class MalformedAnnotationError(AnnotatedRegionError):
    """The ``compiler_begin``/``compiler_end`` calls of a function do not describe regions."""


class InvalidClaimError(AnnotatedRegionError):
    """A claim names something that no region may hold: an unknown variable, an `If`, an impure call."""


class RegionCycleError(AnnotatedRegionError):
    """Contracting the regions would make a cycle: two regions would each need the other's result."""


class OverlappingRegionsError(AnnotatedRegionError):
    """A node lies in more than one region where only disjoint regions make sense."""


class InvalidModuleError(AnnotatedRegionError):
    """The module is not well formed, or is not of the kind that the callee needs."""


class ModelError(AnnotatedRegionError):
    """An input file (a model, a cost database) cannot be read or has invalid content."""


class DocumentError(AnnotatedRegionError):
    """A saved report or a lock cannot be read, has invalid content, or belongs to another model."""


class InputError(AnnotatedRegionError):
    """The arrays passed to a function do not fit its parameters, or no arrays can be generated for them."""


class RunError(AnnotatedRegionError):
    """A built program failed at run time."""


class ReproducerError(AnnotatedRegionError):
    """There is no fault to reproduce, or the reproducer's folder would overwrite existing files."""


class OpInfoError(AnnotatedRegionError):
    """Serialized op info is malformed, or cannot be turned into a call."""


class UnknownTargetError(AnnotatedRegionError):
    """No rule, pattern or backend is registered under this target name."""


class InvalidBackendError(AnnotatedRegionError):
    """A registration is not a valid backend: an unknown option, or an invalid value."""


class UsageError(AnnotatedRegionError, TypeError):
    """A public function was called with an argument of the wrong type; the message says what it takes."""


class NoModuleError(UsageError, InvalidModuleError):
    """A public function that takes a module was called with something else."""


class VersionError(AnnotatedRegionError, ImportError):
    """The installed TVM and TVM FFI are incompatible with each other or with this package."""


class RuleError(AnnotatedRegionError):
    """A registered rule or pattern check raised, or returned something other than an answer."""


class PinError(AnnotatedRegionError):
    """A pin or a ban asks for a placement that no target offers."""


class PolicyError(AnnotatedRegionError, ValueError):
    """A policy returned something that is no valid resolution, or a cost model something that is no cost."""


class BackendUnavailableError(AnnotatedRegionError):
    """A target's library, compiler or device is missing on this machine."""


class ArgumentError(AnnotatedRegionError):
    """A region is called with a tensor that is out of reach, has unsupported strides, or no elements."""


class RegionRejectedError(AnnotatedRegionError):
    """A code generator rejects a region; its ops are then offered to other targets, and to the host.

    Parameters
    ----------
    message
        The reason.
    symbol
        The name of the external function; without it the region cannot be placed again, and the build fails.
    """

    def __init__(self, message: str, symbol: str | None = None) -> None:
        # TVM's FFI preserves only an exception's text, so the symbol is its prefix.
        super().__init__(f"{symbol}: {message}" if symbol else message)
        self.symbol = symbol or message.partition(": ")[0]


class RegionRejectedWarning(UserWarning):
    """A code generator rejected a region; other targets or the host run its ops instead."""


class CacheWarning(UserWarning):
    """The cache folder, or an entry in it, failed verification and is not used."""


class MeasurementWarning(UserWarning):
    """A time could not be measured, varied too much to be reliable, or cannot be stored."""


class SlowBackendWarning(UserWarning):
    """A backend is slow enough that its author should know; the text names it."""


class CodegenError(AnnotatedRegionError):
    """A code generator cannot translate an external function."""


class ConformanceError(AnnotatedRegionError):
    """A backend does not compute what its rules claim; ``module`` is the smallest failing graph."""

    def __init__(self, message: str, module: object = None) -> None:
        super().__init__(message)
        self.module = module


class DrawingError(AnnotatedRegionError):
    """A report cannot be drawn: an unknown file type, or no layout engine."""


class CacheError(AnnotatedRegionError):
    """The cache folder is not private to the user, so its entries are neither counted nor removed."""


class BundleError(AnnotatedRegionError):
    """A bundle cannot be written: its folder already exists, or a library that the model needs is missing."""


class BuildError(AnnotatedRegionError):
    """The system compiler or the linker rejected the generated code."""
