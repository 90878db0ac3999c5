"""Kubernetes naming rules as regular expressions for the whole name.

Lives here: patterns only, without heavy imports, so that the CLI can check a name before it loads anything large. Never
here: the message for a mismatch; the caller knows what the name is for.
"""

from typing import Final

NAMESPACE: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
"""A DNS label (RFC 1123), the rule for namespaces."""

SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
"""A DNS subdomain (RFC 1123), the rule for most objects including nodes."""

LABEL_KEY: Final = rf"({SUBDOMAIN}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
"""A label key: a name with an optional domain prefix."""

LABEL_VALUE: Final = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"

_TERM: Final = rf"(!?{LABEL_KEY}|{LABEL_KEY}(=|==|!=){LABEL_VALUE})"
LABEL_SELECTOR: Final = rf"{_TERM}(,{_TERM}){{0,15}}"
"""Up to 16 terms that test whether a label exists or equals a value. Sets (`in`, `notin`) are unsupported."""
