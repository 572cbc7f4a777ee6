"""Fuzzes the readers for as many files as asked.

    PYTHONPATH=.:tests python tests/fuzz/fuzz_campaign.py --onnx 5000 --seed 0

Files that show a defect are kept in the folder given by ``--keep``.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random

from kits.fuzz.fuzz_kit import Ending, explained
from kits.fuzz.onnx_mutations import inputs_left_out, mutated_model, operator_models, seed_models
from kits.fuzz.text_mutations import SCRIPTS, mutated_text

__all__ = ["onnx_files", "operator_files", "script_files"]

# Each leaves a file in the folder of the model, which is the current one.
ATTACKS = (
    "__import__('os').system('touch canary')",
    "open('canary', 'w')",
    "__import__('pathlib').Path('canary').touch()",
)


def onnx_files(count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Mutated ONNX files with their names."""
    for number in range(count):
        random = Random(f"onnx {seed} {number}")
        yield f"o{number}.onnx", mutated_model(random.choice(seed_models()), random)


def script_files(count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Mutated TVMScript files with their names. The attack writes a file beside the model."""
    for number in range(count):
        random = Random(f"script {seed} {number}")
        text = mutated_text(random.choice(SCRIPTS), random.choice(ATTACKS), random)
        yield f"s{number}.py", text.encode("utf-8", "surrogatepass")


def operator_files(times: int, seed: int, only: int | None = None) -> Iterator[tuple[str, bytes]]:
    """Each operator so many times with inputs left out."""
    models = sorted(operator_models().items())
    for operator, model in models[:only]:
        for number in range(times):
            changed = inputs_left_out(model, Random(f"{operator} {seed} {number}"))
            yield f"{operator}{number}.onnx", changed.SerializeToString()


def _kind(ending: Ending) -> str:
    if ending.code == 0:
        return "read"
    crash = re.search(r"crashed on it \((SIG\w+)\)|longer than|limit of memory|limit of file", ending.message)
    return f"stopped: {crash[1] or crash[0]}" if crash else "refused"


def main() -> None:
    """Run what is asked for, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--onnx", type=int, default=0)
    parser.add_argument("--scripts", type=int, default=0)
    parser.add_argument("--operators", type=int, default=0, help="how often each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    targets = {
        "onnx": onnx_files(options.onnx, options.seed),
        "scripts": script_files(options.scripts, options.seed),
        "operators": operator_files(options.operators, options.seed) if options.operators else iter(()),
    }
    for target, files in targets.items():
        kinds: Counter[str] = Counter()
        for name, content in files:
            ending = explained(content, name)
            kinds["DEFECT" if ending.objection else _kind(ending)] += 1
            if ending.objection:
                print(f"{name}: {ending.objection}: {ending.message[-600:]}", flush=True)
                if options.keep:
                    (options.keep / f"seed{options.seed}_{name}").write_bytes(content)
        print(target, kinds.total(), dict(kinds.most_common()), flush=True)


if __name__ == "__main__":
    main()
