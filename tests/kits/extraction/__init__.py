"""What the tests of `extraction` share."""
