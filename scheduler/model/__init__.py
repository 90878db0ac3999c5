"""The vocabulary: frozen values that all other packages exchange.

Lives here: nouns with no behavior besides arithmetic on themselves.
Never here: decisions, memory, JSON keys, clocks.  Imports numpy and the standard library only.
"""
