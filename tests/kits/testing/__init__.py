"""What the tests of `testing` share."""
