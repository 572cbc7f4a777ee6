"""What the tests of `backends/tensorrt` share."""
