"""The documentation says what is true, and says it plainly."""
