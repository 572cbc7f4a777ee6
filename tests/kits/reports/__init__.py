"""What the tests of reports share."""
