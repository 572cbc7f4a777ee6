"""What the tests of `hunt` share."""
