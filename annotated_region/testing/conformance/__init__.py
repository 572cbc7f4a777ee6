"""The conformance kit: compares generated graphs on a backend with TVM, to test everything that it claims.

`check` is the driver, `graphs` generates graphs from recipes and from `instances` of patterns, `trial` runs
and compares them, `smaller` reduces failing graphs, `registered` and `sources` find the registrations and
their source lines, `coverage` is the result, `reproducer` saves a failure as a program.
"""

from annotated_region.testing.conformance.check import backend_graphs, check_backend, conformance_test
from annotated_region.testing.conformance.coverage import Conformance, Covered
from annotated_region.testing.conformance.reproducer import compare

__all__ = ["Conformance", "Covered", "backend_graphs", "check_backend", "compare", "conformance_test"]
