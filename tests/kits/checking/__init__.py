"""What the tests of `checking` share."""
