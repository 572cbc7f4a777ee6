"""What the tests of `importing` share."""
