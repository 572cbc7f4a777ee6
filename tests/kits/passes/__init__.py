"""What the tests of `passes` share."""
