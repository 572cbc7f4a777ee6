"""Models that only the tests and the benchmarks of this project use; ``tests/`` is on the path of both."""
