"""The conformance kit: does a backend compute what it claims? Generated graphs, run on it and on TVM.

`check` draws graphs and decides, `graphs` makes them of recipes and of `instances` of patterns, `trial` runs
and compares, `smaller` shrinks what fails, `registered` and `sources` know what the author wrote and where,
`coverage` is the answer, `reproducer` leaves a failure as a program.
"""

from annotated_region.testing.conformance.check import backend_graphs, check_backend, conformance_test
from annotated_region.testing.conformance.coverage import Conformance, Covered
from annotated_region.testing.conformance.reproducer import compare

__all__ = ["Conformance", "Covered", "backend_graphs", "check_backend", "compare", "conformance_test"]
