"""What the tests of `layouts` share."""
