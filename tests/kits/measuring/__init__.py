"""What the tests of `measuring` share."""
