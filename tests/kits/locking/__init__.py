"""What tests of locks share."""
