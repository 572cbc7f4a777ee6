"""What the tests of `compilation` share."""
