"""The words: frozen values that every other room passes about.

Lives here: nouns without behaviour of their own beyond arithmetic on themselves.
Never here: a decision, a memory, a JSON key, a clock.  Imports numpy and the standard library only.
"""
