"""What the tests of `passes/preparation` share."""
