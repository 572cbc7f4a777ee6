"""What the tests of `placement` share."""
