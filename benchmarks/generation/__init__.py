"""The engines of `benchmarks/generate.py`: each makes a Llama of random weights, and generates with it."""
