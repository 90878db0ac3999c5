"""What Kubernetes lets things be called, as regular expressions for the whole name.

Lives here: patterns alone, without an import, so that the command line can check a name before anything heavy is
loaded. Never here: the sentence for a name that does not match; its reader knows what it was meant for.
"""

from typing import Final

NAMESPACE: Final = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
"""A DNS label (RFC 1123): what a namespace may be called."""

SUBDOMAIN: Final = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
"""A DNS subdomain (RFC 1123): what most objects may be called, nodes among them."""

LABEL_KEY: Final = rf"({SUBDOMAIN}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?"
"""The key of a label: a name, and before it a domain if it has one."""

LABEL_VALUE: Final = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"

_TERM: Final = rf"(!?{LABEL_KEY}|{LABEL_KEY}(=|==|!=){LABEL_VALUE})"
LABEL_SELECTOR: Final = rf"{_TERM}(,{_TERM}){{0,15}}"
"""Up to 16 terms: whether a label is there, and what its value is or is not. Sets (`in`, `notin`) are none of them."""
