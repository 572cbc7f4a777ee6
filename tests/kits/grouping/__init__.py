"""What the tests of `grouping` share."""
