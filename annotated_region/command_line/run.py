"""Runs a command: arguments in, exit code out, and one sentence instead of a traceback.

==========  ====================================================================
exit code   meaning
==========  ====================================================================
0           success
1           the input, a target or this machine cannot do it, or it crashed; the message has the reason.
            So it has where arguments do not go together.
            Of ``check``: a region or the whole program is wrong. Of ``diff`` and ``partition --check``:
            there is a difference
2           an argument that is invalid by itself, or is missing
130         interrupted
==========  ====================================================================
"""

from __future__ import annotations

import argparse
import errno
import io
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import shtab

from annotated_region._version import __version__
from annotated_region.command_line.command import Command
from annotated_region.command_line.declarations import (
    advise,
    bench,
    cache,
    check,
    diff,
    draw,
    explain,
    extract,
    partition,
)
from annotated_region.command_line.supervision import INTERRUPTED, ended_in_child
from annotated_region.errors import AnnotatedRegionError, ModelError, VersionError
from annotated_region.files import sweep_unfinished
from annotated_region.printable import elided, printable
from annotated_region.surroundings import require_sane_threads

__all__ = ["COMMANDS", "main"]

Run = Callable[[argparse.Namespace], int]

PROGRAM = "annotated-region"
_SHOWN = 3
COMPLETION = "--print-completion bash > ~/.local/share/bash-completion/completions/annotated-region"
COMMANDS: tuple[Command, ...] = (
    partition.COMMAND,
    explain.COMMAND,
    draw.COMMAND,
    check.COMMAND,
    bench.COMMAND,
    extract.COMMAND,
    diff.COMMAND,
    advise.COMMAND,
    cache.COMMAND,
)


def main(arguments: Sequence[str] | None = None, *, in_child: bool = False) -> int:
    """Run the program.

    Parameters
    ----------
    arguments
        The arguments of the program; by default those of this process.
    in_child
        Whether the command runs in a child process, so that a crash becomes an error line. Only for processes
        in which nothing has run yet.

    Returns
    -------
    The exit code; see the module docstring.
    """
    _open_streams()
    options = _parser().parse_args(arguments)
    try:
        run = _loaded(options.work)
    except VersionError as error:
        return _failed(_message(error), options)
    if not in_child:
        return _ended(run, options)

    def work() -> int:
        return _ended(run, options, with_server=True)

    def crashed(number: int) -> int:
        return _crashed(options, signal.Signals(number))

    def clean_up(process: int) -> None:
        if getattr(options, "output", None):
            sweep_unfinished(options.output, process)

    return ended_in_child(work, crashed, clean_up=clean_up, backtrace=options.traceback)


def _loaded(work: str) -> Run:
    """The function ``run`` of a module; TVM is loaded only here, because ``--help`` does not need it.

    Raises
    ------
    VersionError
        The installed TVM does not work.
    """
    import_module("annotated_region.registration")  # first, because it checks TVM's version
    run: Run = import_module(work).run
    return run


def _ended(run: Run, options: argparse.Namespace, with_server: bool = False) -> int:
    """The exit code of a command; prints its errors."""
    try:
        if with_server:
            # TVM is loaded and nothing has run yet: the cheapest moment to fork the server that reads models.
            import_module("annotated_region.importing.confinement.isolation").start_server_here()
        require_sane_threads()
        _require_apart(options)
        code = run(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the pipe, as in ``annotated-region explain model.onnx | head``.
        _give_up_output()
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        return _failed(_message(error), options)
    return code


def _models_of(options: argparse.Namespace) -> list[str]:
    return getattr(options, "models", None) or [getattr(options, "model", "the files")]


def _require_apart(options: argparse.Namespace) -> None:
    """Check that the output does not overwrite a model, as with ``-o`` before a list of models."""
    output: Path | None = getattr(options, "output", None)
    for model in _models_of(options):
        if (
            output is not None
            and os.path.exists(output)
            and os.path.exists(model)
            and os.path.samefile(output, model)
        ):
            raise ModelError(f"the output {output} is one of the models to read; name another file")


def _crashed(options: argparse.Namespace, ending: signal.Signals) -> int:
    """Report that a signal ended the process of a command."""
    models = _models_of(options)
    others = f" and {len(models) - _SHOWN} others" if len(models) > _SHOWN else ""
    what = f"{', '.join(models[:_SHOWN])}{others}"
    why = (
        "the kernel killed it, probably because memory ran out"
        if ending == signal.SIGKILL
        else "TVM, a target's library or the running model crashed"
    )
    _print_error(f"the process that worked on {what} ended with {ending.name}: {why}")
    return 1


def _open_streams() -> None:
    """Open the standard streams that the parent process has closed; output to them is discarded.

    Otherwise the next file or socket would get their descriptors, and output would be written into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor, which is this one
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - never closed
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _give_up_output() -> None:
    """Discard the rest of the standard output; otherwise Python reports an error when it exits."""
    with suppress(io.UnsupportedOperation):  # in the process of a caller it may not be a file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _message(error: Exception) -> str:
    """The message of an error; errors with causes outside of this package have their own texts."""
    match error:
        case AnnotatedRegionError():
            return str(error)
        case OSError():
            if error.errno in (errno.ENOSPC, errno.EIO):
                _give_up_output()
            said = f"{error.strerror or error}: {error.filename or ''}".rstrip(": ")
            folder = os.path.dirname(error.filename or "")
            lacks_folder = folder and error.errno == errno.ENOENT and not os.path.exists(folder)
            return f"{said}; make the folder {folder} first" if lacks_folder else said
        case MemoryError():
            return "this machine has not enough memory"
        case RecursionError():
            return "the model is nested too deeply for Python"
    return f"internal error, please report it: {type(error).__name__}: {error}"


def _failed(message: str, options: argparse.Namespace) -> int:
    if options.traceback:
        raise  # noqa: PLE0704 - called where an exception is handled
    _print_error(message)
    return 1


def _print_error(message: str) -> None:
    # Names may contain newlines: only the first line of a message may look like one of the program.
    first, *others = elided(printable(message)).split("\n")
    print(f"{PROGRAM}: error: {first}", *others, sep="\n    ", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Partitions models for external libraries, and explains the partition.",
        epilog=_examples([*(command.examples[0] for command in COMMANDS), COMPLETION]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    shtab.add_argument_to(parser, "--print-completion", help="print the completion script for a shell")
    rooms = parser.add_subparsers(title="commands", metavar="command", required=True)
    for command in COMMANDS:
        room = rooms.add_parser(
            command.name,
            help=command.help,
            description=command.help[0].upper() + command.help[1:] + ".",
            epilog=_examples(command.examples),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.add_arguments(room)
        room.add_argument("--traceback", action="store_true", help="show the traceback of an error")
        room.set_defaults(work=command.work)
    return parser


def _examples(lines: Sequence[str]) -> str:
    return "examples:\n" + "\n".join(f"  {PROGRAM} {line}" for line in lines)
