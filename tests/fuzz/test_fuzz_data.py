"""Mutated op info, saved reports, locks and cost databases: a valid value, or an error of this package."""

import os
from contextlib import suppress
from random import Random

import pytest
from kits.fuzz.text_mutations import mutated_text
from kits.sample_reports import sample_report

from annotated_region.errors import DocumentError, ModelError, OpInfoError
from annotated_region.locking.lock import Lock
from annotated_region.measuring.store import CostStore
from annotated_region.measuring.timing import Time
from annotated_region.op_info.info import (
    ArgRole,
    Composition,
    Number,
    OpInfo,
    Parameter,
    Result,
    Shape,
    Sources,
)
from annotated_region.op_info.kinds import OpKind
from annotated_region.reports.report import Report

EXAMPLES = max(int(os.environ.get("AR_CAMPAIGN_EXAMPLES", "0")), 300)
ATTACK = "__import__('os').abort()"
INFO = Composition(
    (
        OpInfo(
            "relax.nn.conv2d",
            OpKind.CONVOLUTION,
            {"strides": (1, 2), "data_layout": "NCHW", "scale": 1.5, "none": None},
            (
                ArgRole("data", Parameter(0)),
                ArgRole("weight", Sources((Parameter(1), Number(2.0, "float32")))),
            ),
        ),
        OpInfo(
            "relax.reshape",
            OpKind.ELEMENTWISE,
            {},
            (ArgRole("x", Result(0, 0)), ArgRole("shape", Shape((2, 3)))),
        ),
    ),
    (Result(1, 0),),
)


@pytest.mark.campaign
def test_op_info_text():
    text = INFO.to_json()
    assert Composition.from_json(text) == INFO
    for number in range(EXAMPLES):
        changed = mutated_text(text, ATTACK, Random(f"op info {number}"))
        try:
            read = Composition.from_json(changed)
        except OpInfoError:
            continue
        assert Composition.from_json(read.to_json()) == read, changed


@pytest.mark.campaign
def test_saved_reports():
    text = sample_report().to_json()
    for number in range(EXAMPLES):
        changed = mutated_text(text, ATTACK, Random(f"report {number}"))
        read, message = _read(Report.from_json, changed)
        assert len(message) < 500, changed
        assert message.isprintable(), changed
        if read is None:
            continue
        # Whatever is taken can be written, told and compared.
        assert Report.from_json(read.to_json()).to_json() == read.to_json(), changed
        assert read.details() or not any(function.ops for function in read.functions)
        assert str(read.diff(sample_report())), changed
        assert read.headline()


@pytest.mark.campaign
def test_locks():
    sound = sample_report().to_lock()
    text, taken = str(sound), 0
    for number in range(EXAMPLES):
        changed = mutated_text(text, ATTACK, Random(f"lock {number}"))
        lock, message = _read(Lock.from_text, changed)
        assert len(message) < 300, changed
        assert message.isprintable(), changed
        if lock is not None:
            taken += 1
            assert Lock.from_text(str(lock)) == lock, changed
            assert str(lock.diff(sound)), changed
            assert str(sound.diff(lock)), changed
    assert taken


def _read(read, text):
    """What is in a text, or why there is nothing."""
    try:
        return read(text), ""
    except DocumentError as error:
        return None, str(error)


@pytest.mark.campaign
def test_cost_databases(tmp_path):
    CostStore(tmp_path / "sound").put({f"key {number}": (Time(0.5, 0.1), "what") for number in range(50)})
    sound = (tmp_path / "sound").read_bytes()
    for number in range(min(EXAMPLES, 5000)):
        random = Random(f"costs {number}")
        path = tmp_path / "costs"
        path.write_bytes(_damaged(sound, random))
        with suppress(ModelError):
            store = CostStore(path)
            found = [store.get(f"key {key}") for key in range(50)]
            assert all(time is None or time.seconds >= 0 for time in found)
            store.put({"new": (Time(1.0, 0.0), "what")})
        for left in tmp_path.glob("costs*"):
            left.unlink()


def _damaged(content, random):
    changed = bytearray(content)
    for _ in range(random.randint(1, 20)):
        place = random.choice((random.randrange(100), random.randrange(len(changed))))
        changed[place] = random.randrange(256)
    return bytes(changed[: random.choice((len(changed), len(changed), random.randrange(len(changed))))])
