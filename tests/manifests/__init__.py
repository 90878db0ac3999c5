"""What `manifests/` and `extender_config/` promise: offline as documents, and on the real API server (marker
`plane`).
"""

TEAM = "team"
"""A namespace of users."""
