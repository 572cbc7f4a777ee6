"""Runs a command: arguments in, exit code out, and a sentence instead of a traceback.

==========  ====================================================================
exit code   meaning
==========  ====================================================================
0           done
1           the input, a target or this machine does not allow it; the message says why
2           the arguments make no sense
130         interrupted
==========  ====================================================================
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import shtab

from annotated_region._version import __version__
from annotated_region.command_line import bench, draw, explain, extract, partition
from annotated_region.command_line.command import Command
from annotated_region.command_line.surroundings import require_sane_threads
from annotated_region.errors import AnnotatedRegionError
from annotated_region.printable import printable

__all__ = ["COMMANDS", "main"]

PROGRAM = "annotated-region"
COMPLETION = "--print-completion bash > ~/.local/share/bash-completion/completions/annotated-region"
COMMANDS: tuple[Command, ...] = (
    partition.COMMAND,
    explain.COMMAND,
    draw.COMMAND,
    bench.COMMAND,
    extract.COMMAND,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program.

    Parameters
    ----------
    arguments
        The words behind the program's name; by default those of this process.

    Returns
    -------
    The exit code; see the text of this module.
    """
    options = _parser().parse_args(arguments)
    try:
        require_sane_threads()
        code: int = options.run(options)
        sys.stdout.flush()
    except AnnotatedRegionError as error:
        return _failed(str(error), options)
    except BrokenPipeError:
        # Whoever reads has read enough, as in ``annotated-region explain model.onnx | head``.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        return _failed(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "), options)
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        return _failed(f"this should not happen, please report it: {type(error).__name__}: {error}", options)
    return code


def _failed(message: str, options: argparse.Namespace) -> int:
    if options.traceback:
        raise  # noqa: PLE0704 - called where an exception is handled
    print(f"{PROGRAM}: error: {printable(message)}", file=sys.stderr)
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Hands what a library can run of a model to that library, and says why the rest stays.",
        epilog=_examples([*(command.examples[0] for command in COMMANDS), COMPLETION]),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"{PROGRAM} {__version__}")
    shtab.add_argument_to(
        parser, "--print-completion", help="print what completes commands, options and files in that shell"
    )
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
        room.add_argument("--traceback", action="store_true", help="show where an error comes from")
        room.set_defaults(run=command.run)
    return parser


def _examples(lines: Sequence[str]) -> str:
    return "examples:\n" + "\n".join(f"  {PROGRAM} {line}" for line in lines)
