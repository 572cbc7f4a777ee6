"""What the tests of `fuzz` share."""
