"""How the time to read a region set grows with the function: 1 000 to 100 000 ops, two overlapping targets."""

from __future__ import annotations

import argparse
import gc
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tvm
from tvm import relax

import annotated_region as ar

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
BLOCK = 10
