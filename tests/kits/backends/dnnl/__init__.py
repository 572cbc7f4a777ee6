"""What the tests of `backends/dnnl` share."""
