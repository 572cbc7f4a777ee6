"""What the tests of `command_line` share."""
