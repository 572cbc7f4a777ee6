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
    """The module handed in is not well formed, or is not of the kind that the caller needs."""


class ModelError(AnnotatedRegionError):
    """A file that was handed in (a model, a cost database) cannot be read or is not what it should be."""


class DocumentError(AnnotatedRegionError):
    """A saved report or a lock cannot be read, is not what it should be, or belongs to another model."""


class InputError(AnnotatedRegionError):
    """The arrays that a function is to be run with do not fit its parameters, or cannot be made for them."""


class RunError(AnnotatedRegionError):
    """A program was built and fails when it runs."""


class ReproducerError(AnnotatedRegionError):
    """There is nothing to reproduce, or its folder would overwrite what is there."""


class OpInfoError(AnnotatedRegionError):
    """Text or data that should describe operations does not, or cannot be turned into a call."""


class UnknownTargetError(AnnotatedRegionError):
    """No rule, pattern or backend is registered under this target name."""


class InvalidBackendError(AnnotatedRegionError):
    """A registration describes no backend: an unknown option, or a value that makes no sense."""


class UsageError(AnnotatedRegionError, TypeError):
    """A public function was handed something of the wrong kind; the message says what it takes."""


class NoModuleError(UsageError, InvalidModuleError):
    """A public function was handed something else where it takes a module."""


class VersionError(AnnotatedRegionError, ImportError):
    """The installed versions of TVM and its FFI do not work together, or not with this package."""


class RuleError(AnnotatedRegionError):
    """A registered rule or pattern check failed or answered with something that is no answer."""


class PinError(AnnotatedRegionError):
    """A pin or a ban asks for a placement that no target offers."""


class BackendUnavailableError(AnnotatedRegionError):
    """A target's library, compiler or device is missing on this machine."""


class ArgumentError(AnnotatedRegionError):
    """A region is called with a tensor on a device out of reach, or with strides that it cannot follow."""


class RegionRejectedError(AnnotatedRegionError):
    """A code generator refuses one region, whose ops are then offered to other targets, and to the host.

    Parameters
    ----------
    message
        Why.
    symbol
        The name of the external function; without it no region can be placed anew, and the build fails.
    """

    def __init__(self, message: str, symbol: str | None = None) -> None:
        # Of an exception that crosses TVM's FFI the text alone arrives, so the text begins with the symbol.
        super().__init__(f"{symbol}: {message}" if symbol else message)
        self.symbol = symbol or message.partition(": ")[0]


class RegionRejectedWarning(UserWarning):
    """A code generator refused a region; other targets or the host run its ops instead."""


class CacheWarning(UserWarning):
    """Something in the cache folder, or the folder itself, cannot be believed, and is not used."""


class MeasurementWarning(UserWarning):
    """A time could not be measured, was too unsteady to be relied on, or cannot be kept."""


class SlowBackendWarning(UserWarning):
    """A backend takes so long that its author should know; the text names it."""


class CodegenError(AnnotatedRegionError):
    """A code generator met an external function that it cannot translate."""


class ConformanceError(AnnotatedRegionError):
    """A backend does not compute what its rules claim; ``module`` is the smallest graph that shows it."""

    def __init__(self, message: str, module: object = None) -> None:
        super().__init__(message)
        self.module = module


class DrawingError(AnnotatedRegionError):
    """A report cannot be drawn: an unknown kind of file, or no layout engine."""


class CacheError(AnnotatedRegionError):
    """The cache folder is not the user's own alone, so that nothing in it is counted or removed."""


class BundleError(AnnotatedRegionError):
    """A bundle cannot be written: its folder is there already, or a library that the model needs is not."""


class BuildError(AnnotatedRegionError):
    """The system compiler or the linker did not accept the generated code."""
