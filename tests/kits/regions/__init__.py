"""What the tests of `regions` share."""
