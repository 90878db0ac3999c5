"""The thinking, held against examples and against an accountant that counts in its own way."""
