"""What the tests of `op_info` share."""
