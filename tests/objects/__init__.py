"""The cluster's language: objects written as people write them, and what they must mean."""
