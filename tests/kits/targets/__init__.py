"""What the tests of `targets` share."""
