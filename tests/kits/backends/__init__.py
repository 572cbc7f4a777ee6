"""What the tests of `backends` share."""
